#ifndef MILLSTREAM_SIDECAR_GROUP_WIRE_READER_H_
#define MILLSTREAM_SIDECAR_GROUP_WIRE_READER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace millstream::group::wire {

// Reads the primitive types of Kafka's protocol (big-endian, lengths in front) from bytes that are not trusted. After
// the first failure every read yields zero or nothing, and `error` says what was wrong: callers check once, at the end.
// Never allocates more than the bytes there are can fill. `bytes` outlives the reader. One thread at a time.
class Reader {
 public:
  // Elements of one array: far above any group, and a bound on what a hostile count can cost.
  static constexpr int32_t kMaxElements = 1'000'000;

  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  bool ok() const { return error_.empty(); }
  const std::string& error() const { return error_; }
  size_t position() const { return position_; }
  size_t remaining() const { return bytes_.size() - position_; }

  void Int8(int8_t& value) { value = static_cast<int8_t>(Number(1)); }
  void Int16(int16_t& value) { value = static_cast<int16_t>(Number(2)); }
  void Int32(int32_t& value) { value = static_cast<int32_t>(Number(4)); }
  void Int64(int64_t& value) { value = static_cast<int64_t>(Number(8)); }
  template <typename Enum>
  void Enum16(Enum& value) {
    value = static_cast<Enum>(Number(2));
  }

  void String(std::string& value) {
    std::optional<std::string> read;
    NullableString(read);
    if (ok() && !read.has_value()) Fail("a string is null");
    value = std::move(read).value_or("");
  }
  void NullableString(std::optional<std::string>& value) { value = Take(static_cast<int16_t>(Number(2)), "string"); }
  // A string where null and empty mean the same.
  void NullIfEmpty(std::string& value) {
    std::optional<std::string> read;
    NullableString(read);
    value = std::move(read).value_or("");
  }
  // Null reads as empty: some brokers send one for the other.
  void Bytes(std::string& value) { value = Take(static_cast<int32_t>(Number(4)), "bytes").value_or(""); }

  // `element(reader, item)` reads one item, of which each has at least one byte. Null reads as empty.
  template <typename T, typename Element>
  void Array(std::vector<T>& items, Element element) {
    items.clear();
    const auto count = static_cast<int32_t>(Number(4));
    if (!ok() || count == -1) return;
    if (count < 0 || count > kMaxElements || static_cast<size_t>(count) > remaining()) {
      return Fail("an array of " + std::to_string(count) + " items cannot be there");
    }
    for (int32_t i = 0; i < count && ok(); ++i) {
      T item{};
      element(*this, item);
      if (ok()) items.push_back(std::move(item));  // no reserve: the count is a claim
    }
  }

  // Base 128, least significant first (protobuf's unsigned varint). Only in our own user data.
  void Varint(uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 64 && ok(); shift += 7) {
      const uint64_t byte = Number(1);
      value |= (byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) return;
    }
    if (ok()) Fail("a varint has more than ten bytes");
  }
  // The next `size` bytes as a reader's input of their own.
  std::string_view Slice(size_t size) {
    if (!ok()) return {};
    if (size > remaining()) {
      Fail("a field of " + std::to_string(size) + " bytes is longer than what is there");
      return {};
    }
    position_ += size;
    return bytes_.substr(position_ - size, size);
  }

  void Fail(std::string why) {
    if (ok()) error_ = std::move(why) + " (at byte " + std::to_string(position_) + ")";
  }

 private:
  uint64_t Number(size_t size) {
    if (!ok()) return 0;
    if (size > remaining()) {
      Fail("it ends in the middle of a number");
      return 0;
    }
    uint64_t value = 0;
    for (size_t i = 0; i < size; ++i) value = value << 8 | static_cast<unsigned char>(bytes_[position_ + i]);
    position_ += size;
    return value;
  }

  std::optional<std::string> Take(int64_t length, const char* what) {
    if (!ok() || length == -1) return std::nullopt;
    if (length < 0 || static_cast<size_t>(length) > remaining()) {
      Fail(std::string(what) + " of length " + std::to_string(length) + " cannot be there");
      return std::nullopt;
    }
    position_ += static_cast<size_t>(length);
    return std::string(bytes_.substr(position_ - static_cast<size_t>(length), static_cast<size_t>(length)));
  }

  const std::string_view bytes_;
  size_t position_ = 0;
  std::string error_;
};

}  // namespace millstream::group::wire

#endif  // MILLSTREAM_SIDECAR_GROUP_WIRE_READER_H_
