#ifndef MILLSTREAM_COMMON_LOG_EMBEDDED_PACKING_H_
#define MILLSTREAM_COMMON_LOG_EMBEDDED_PACKING_H_

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace millstream::log::embedded {

static_assert(std::endian::native == std::endian::little, "the embedded log's format is little-endian");

inline constexpr size_t kMaxVarintBytes = 10;

// Writes `value` seven bits at a time, low bits first; returns the byte behind it. At most kMaxVarintBytes.
inline char* PutVarint(uint64_t value, char* to) {
  while (value >= 0x80) {
    *to++ = static_cast<char>(value | 0x80);
    value >>= 7;
  }
  *to++ = static_cast<char>(value);
  return to;
}

inline uint64_t ZigZag(int64_t value) { return static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63); }
inline int64_t UnZigZag(uint64_t value) { return static_cast<int64_t>(value >> 1 ^ (~(value & 1) + 1)); }

// Appends values one after the other.
class Packer {
 public:
  explicit Packer(std::string* out) : out_(out) {}
  Packer& Varint(uint64_t value) {
    char buffer[kMaxVarintBytes];
    out_->append(buffer, PutVarint(value, buffer) - buffer);
    return *this;
  }
  Packer& Signed(int64_t value) { return Varint(ZigZag(value)); }
  Packer& Text(std::string_view bytes) {
    Varint(bytes.size());
    out_->append(bytes);
    return *this;
  }

 private:
  std::string* out_;
};

// Takes them off again. After anything that is not there (or a malformed varint) ok() is false and values are
// zero/empty.
class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}
  bool ok() const { return ok_; }
  bool done() const { return at_ == end_; }
  const char* position() const { return at_; }

  uint64_t Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && at_ < end_; shift += 7) {
      const auto byte = static_cast<unsigned char>(*at_++);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    ok_ = false;
    return 0;
  }
  int64_t Signed() { return UnZigZag(Varint()); }
  std::string_view Raw(uint64_t size) {
    if (!ok_ || size > static_cast<uint64_t>(end_ - at_)) {
      ok_ = false;
      return {};
    }
    const std::string_view bytes(at_, size);
    at_ += size;
    return bytes;
  }
  std::string_view Text() { return Raw(Varint()); }

 private:
  const char* at_;
  const char* end_;
  bool ok_ = true;
};

}  // namespace millstream::log::embedded

#endif  // MILLSTREAM_COMMON_LOG_EMBEDDED_PACKING_H_
