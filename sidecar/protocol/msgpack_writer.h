#ifndef MILLSTREAM_SIDECAR_PROTOCOL_MSGPACK_WRITER_H_
#define MILLSTREAM_SIDECAR_PROTOCOL_MSGPACK_WRITER_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "sidecar/protocol/messages.h"

namespace millstream::protocol {

// Writes one frame of MessagePack at the end of a string, every value in its shortest form. Private to this folder
// and to the checkpoints of the engine.
// Plain stores into memory made beforehand: packing is on the path of every record.
class MsgpackWriter {
 public:
  // `size_hint`: about how many bytes the frame will take; more is made as needed.
  MsgpackWriter(std::string* out, size_t size_hint) : out_(out), start_(out->size()) {
    Grow(size_hint + kSlack);
    at_ += 4;
  }

  // Writes the length and cuts the string to what was written. The last call.
  void Finish() {
    const size_t size = static_cast<size_t>(at_ - Start()) - 4;
    MS_CHECK(size <= UINT32_MAX);
    StoreBigEndian(Start(), static_cast<uint32_t>(size));
    out_->resize(start_ + 4 + size);
  }

  void Nil() { Byte(0xc0); }
  void Bool(bool value) { Byte(value ? 0xc3 : 0xc2); }

  void Uint(uint64_t value) {
    Need(9);
    if (value < 0x80) {
      *at_++ = static_cast<char>(value);
    } else if (value <= 0xff) {
      Tagged(0xcc, static_cast<uint8_t>(value));
    } else if (value <= 0xffff) {
      Tagged(0xcd, static_cast<uint16_t>(value));
    } else if (value <= 0xffffffff) {
      Tagged(0xce, static_cast<uint32_t>(value));
    } else {
      Tagged(0xcf, value);
    }
  }

  void Int(int64_t value) {
    if (value >= 0) return Uint(static_cast<uint64_t>(value));
    Need(9);
    if (value >= -32) {
      *at_++ = static_cast<char>(value);
    } else if (value >= INT8_MIN) {
      Tagged(0xd0, static_cast<uint8_t>(value));
    } else if (value >= INT16_MIN) {
      Tagged(0xd1, static_cast<uint16_t>(value));
    } else if (value >= INT32_MIN) {
      Tagged(0xd2, static_cast<uint32_t>(value));
    } else {
      Tagged(0xd3, static_cast<uint64_t>(value));
    }
  }

  void Bin(std::string_view bytes) {
    Need(5 + bytes.size());
    if (bytes.size() <= 0xff) {
      Tagged(0xc4, static_cast<uint8_t>(bytes.size()));
    } else if (bytes.size() <= 0xffff) {
      Tagged(0xc5, static_cast<uint16_t>(bytes.size()));
    } else {
      Tagged(0xc6, static_cast<uint32_t>(bytes.size()));
    }
    Raw(bytes);
  }
  void MaybeBin(MaybeView bytes) { bytes.has_value() ? Bin(*bytes) : Nil(); }

  // Precondition: UTF-8.
  void Str(std::string_view text) {
    Need(5 + text.size());
    if (text.size() < 32) {
      *at_++ = static_cast<char>(0xa0 | text.size());
    } else if (text.size() <= 0xff) {
      Tagged(0xd9, static_cast<uint8_t>(text.size()));
    } else if (text.size() <= 0xffff) {
      Tagged(0xda, static_cast<uint16_t>(text.size()));
    } else {
      Tagged(0xdb, static_cast<uint32_t>(text.size()));
    }
    Raw(text);
  }

  void Array(size_t count) { Container(0x90, 0xdc, count); }
  void Map(size_t count) { Container(0x80, 0xde, count); }

  void NotPrefetched() {  // ext 8 with no data
    Need(3);
    Tagged(0xc7, uint8_t{0});
    *at_++ = static_cast<char>(kNotPrefetchedExt);
  }

 private:
  // Kept free at the end, so that the first small fields need no growth.
  static constexpr size_t kSlack = 64;

  char* Start() { return out_->data() + start_; }
  void Need(size_t bytes) {
    if (static_cast<size_t>(end_ - at_) < bytes) [[unlikely]]
      Grow(bytes);
  }
  void Grow(size_t bytes) {
    const size_t used = at_ == nullptr ? 0 : static_cast<size_t>(at_ - Start());
    const size_t room =
        used == 0 ? bytes : std::max(bytes, used);  // at least doubled: a frame is copied O(1) times a byte
    out_->resize(start_ + used + room);
    at_ = Start() + used;
    end_ = at_ + room;
  }
  void Byte(uint8_t byte) {
    Need(1);
    *at_++ = static_cast<char>(byte);
  }
  template <typename Unsigned>
  static void StoreBigEndian(char* to, Unsigned value) {
    if constexpr (sizeof(value) == 2) value = __builtin_bswap16(value);
    if constexpr (sizeof(value) == 4) value = __builtin_bswap32(value);
    if constexpr (sizeof(value) == 8) value = __builtin_bswap64(value);
    std::memcpy(to, &value, sizeof(value));
  }
  template <typename Unsigned>
  void Tagged(uint8_t tag, Unsigned value) {
    *at_++ = static_cast<char>(tag);
    StoreBigEndian(at_, value);
    at_ += sizeof(value);
  }
  void Raw(std::string_view bytes) {
    if (bytes.empty()) return;  // its data may be null
    std::memcpy(at_, bytes.data(), bytes.size());
    at_ += bytes.size();
  }
  void Container(uint8_t fix, uint8_t tag, size_t count) {
    Need(5);
    if (count < 16) {
      *at_++ = static_cast<char>(fix | count);
    } else if (count <= 0xffff) {
      Tagged(tag, static_cast<uint16_t>(count));
    } else {
      MS_CHECK(count <= UINT32_MAX);
      Tagged(static_cast<uint8_t>(tag + 1), static_cast<uint32_t>(count));
    }
  }

  static_assert(std::endian::native == std::endian::little, "byte swaps above assume it");

  std::string* out_;
  size_t start_;
  char* at_ = nullptr;
  char* end_ = nullptr;
};

}  // namespace millstream::protocol

#endif  // MILLSTREAM_SIDECAR_PROTOCOL_MSGPACK_WRITER_H_
