#ifndef MILLSTREAM_SIDECAR_GROUP_WIRE_WRITER_H_
#define MILLSTREAM_SIDECAR_GROUP_WIRE_WRITER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace millstream::group::wire {

// Appends the primitive types of Kafka's protocol to a string: the other half of Reader, with the same functions.
// Precondition of strings: at most 32,767 bytes (group ids, member ids, topics and tokens are bounded long before).
class Writer {
 public:
  explicit Writer(std::string* out) : out_(out) {}

  void Int8(int8_t value) { Number(static_cast<uint8_t>(value), 1); }
  void Int16(int16_t value) { Number(static_cast<uint16_t>(value), 2); }
  void Int32(int32_t value) { Number(static_cast<uint32_t>(value), 4); }
  void Int64(int64_t value) { Number(static_cast<uint64_t>(value), 8); }
  template <typename Enum>
  void Enum16(Enum value) {
    Number(static_cast<uint16_t>(value), 2);
  }

  void String(std::string_view value) {
    MS_CHECK(value.size() <= INT16_MAX);
    Number(value.size(), 2);
    out_->append(value);
  }
  void NullableString(const std::optional<std::string>& value) {
    if (value.has_value()) return String(*value);
    Int16(-1);
  }
  void NullIfEmpty(const std::string& value) {
    if (!value.empty()) return String(value);
    Int16(-1);
  }
  void Bytes(std::string_view value) {
    MS_CHECK(value.size() <= INT32_MAX);
    Number(value.size(), 4);
    out_->append(value);
  }

  template <typename T, typename Element>
  void Array(const std::vector<T>& items, Element element) {
    Number(items.size(), 4);
    for (const T& item : items) element(*this, item);
  }

  void Varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) out_->push_back(static_cast<char>(value | 0x80));
    out_->push_back(static_cast<char>(value));
  }

 private:
  void Number(uint64_t value, int size) {
    for (int shift = 8 * (size - 1); shift >= 0; shift -= 8) out_->push_back(static_cast<char>(value >> shift));
  }

  std::string* const out_;
};

}  // namespace millstream::group::wire

#endif  // MILLSTREAM_SIDECAR_GROUP_WIRE_WRITER_H_
