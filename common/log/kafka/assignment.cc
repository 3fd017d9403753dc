#include "common/log/kafka/assignment.h"

#include <cstdint>
#include <optional>

#include "common/base/bytes.h"

namespace millstream::kafka {
namespace {

// Big-endian numbers and strings off the front of some bytes; nothing once they are too short.
class Cursor {
 public:
  explicit Cursor(std::string_view bytes) : bytes_(bytes) {}

  std::optional<std::string_view> Take(size_t size) {
    if (bytes_.size() < size) return std::nullopt;
    const std::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return taken;
  }
  std::optional<int16_t> Int16() {
    const auto bytes = Take(2);
    if (!bytes) return std::nullopt;
    return static_cast<int16_t>(static_cast<uint8_t>((*bytes)[0]) << 8 | static_cast<uint8_t>((*bytes)[1]));
  }
  std::optional<int32_t> Int32() {
    const auto bytes = Take(4);
    if (!bytes) return std::nullopt;
    return static_cast<int32_t>(ReadBigEndian32(*bytes));
  }

 private:
  std::string_view bytes_;
};

}  // namespace

std::vector<TopicPartition> DecodeAssignment(std::string_view bytes) {
  Cursor cursor(bytes);
  const std::optional<int16_t> version = cursor.Int16();
  const std::optional<int32_t> topics = cursor.Int32();
  if (!version || !topics || *version < 0 || *version > 100) return {};
  std::vector<TopicPartition> partitions;
  for (int32_t i = 0; i < *topics; ++i) {
    const std::optional<int16_t> length = cursor.Int16();
    const auto topic = length && *length >= 0 ? cursor.Take(static_cast<size_t>(*length)) : std::nullopt;
    const std::optional<int32_t> count = topic ? cursor.Int32() : std::nullopt;
    if (!count) return {};
    for (int32_t j = 0; j < *count; ++j) {
      const std::optional<int32_t> partition = cursor.Int32();
      if (!partition || *partition < 0) return {};
      partitions.push_back({std::string(*topic), Partition(*partition)});
    }
  }
  return partitions;
}

}  // namespace millstream::kafka
