#ifndef MILLSTREAM_SIDECAR_PROTOCOL_MSGPACK_CURSOR_H_
#define MILLSTREAM_SIDECAR_PROTOCOL_MSGPACK_CURSOR_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "sidecar/protocol/messages.h"

namespace millstream::protocol {

// Reads one frame's MessagePack front to back, value by value, without building a tree. Private to this folder
// and to the checkpoints of the engine.
//
// Errors are sticky: after the first one every read gives zero, nothing or an empty list at once, so callers check
// `ok()` where they loop and `status()` at the end. `field` names what is being read, for the error. Counts are checked
// against the bytes that are left (and the frame's budget of elements) before a caller can allocate for them.
class MsgpackCursor {
 public:
  explicit MsgpackCursor(std::string_view payload) : at_(payload.data()), end_(payload.data() + payload.size()) {}

  bool ok() const { return status_.ok(); }
  const absl::Status& status() const { return status_; }

  // Where errors say they are: "RESULT", then "outputs[3]" while a list is read.
  void set_kind(uint64_t kind) { kind_ = kind; }
  void EnterItem(const char* list, size_t index) { list_ = list, index_ = index; }
  void LeaveList() { list_ = nullptr; }

  uint64_t Uint(const char* field, uint64_t max = std::numeric_limits<uint64_t>::max()) {
    if (at_ < end_ && static_cast<uint8_t>(*at_) < 0x80 && static_cast<uint8_t>(*at_) <= max)
      return static_cast<uint8_t>(*at_++);
    return SlowUint(field, max);
  }
  uint32_t Uint32(const char* field, uint32_t max = std::numeric_limits<uint32_t>::max()) {
    return static_cast<uint32_t>(Uint(field, max));
  }
  int64_t Int(const char* field) {  // the whole range: offsets and timestamps
    if (end_ - at_ >= 9 && static_cast<uint8_t>(*at_) == 0xcf && static_cast<int8_t>(at_[1]) >= 0) {
      at_ += 9;
      return static_cast<int64_t>(Load64(at_ - 8));
    }
    return Int(field, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max());
  }
  int64_t Int(const char* field, int64_t min, int64_t max = std::numeric_limits<int64_t>::max());
  bool Bool(const char* field);

  // Bytes: bin or str.
  std::string_view Bytes(const char* field) {
    if (end_ - at_ >= 2) {
      const uint8_t tag = static_cast<uint8_t>(*at_);
      if (tag == 0xc4) {
        const size_t size = static_cast<uint8_t>(at_[1]);
        if (static_cast<size_t>(end_ - at_) >= size + 2) return Take(2, size);
      } else if (tag == 0xc5 && end_ - at_ >= 3) {
        const size_t size = Load16(at_ + 1);
        if (static_cast<size_t>(end_ - at_) >= size + 3) return Take(3, size);
      }
    }
    return SlowBytes(field);
  }
  MaybeView MaybeBytes(const char* field) {
    if (TakeNil()) return std::nullopt;
    return Bytes(field);
  }
  // Text for people: repaired where it is not UTF-8, cut at kMaxTextBytes.
  std::string Text(const char* field);
  StateValue State(const char* field);

  // True, and consumed, if the next value is nil.
  bool TakeNil() {
    if (at_ == end_ || static_cast<uint8_t>(*at_) != 0xc0) return false;
    ++at_;
    return true;
  }

  // The next value is an array.
  bool AtArray() const { return Peek().type == Head::Type::kArray; }

  // A tuple of positional fields: their number, at least `min`.
  uint32_t Fields(const char* field, uint32_t min) {
    if (at_ < end_ && (static_cast<uint8_t>(*at_) & 0xf0) == 0x90) {
      const uint32_t count = static_cast<uint8_t>(*at_) & 0x0f;
      if (count >= min && count <= static_cast<size_t>(end_ - at_ - 1)) return ++at_, count;
    }
    return SlowFields(field, min);
  }
  // For optional fields at the end of a tuple with *left fields still to read: false if left out or nil.
  bool More(uint32_t* left) {
    if (*left == 0 || !ok()) return false;
    --*left;
    return !TakeNil();
  }
  // A list of any length: its count. `min_bytes`: the least one element takes in the frame.
  uint32_t List(const char* field, uint32_t min_bytes);
  uint32_t Map(const char* field);

  // Over one value (`count` values), whatever it is.
  void Skip(const char* field);
  void SkipFields(uint32_t count) {
    for (; count > 0 && ok(); --count) Skip("further field");
  }

  // Marks the frame as wrong. Only the first error counts. Always gives false.
  bool Fail(const char* field, std::string_view problem, absl::StatusCode code = absl::StatusCode::kInvalidArgument);
  // "expected <what>, found <the next value>".
  bool FailExpected(const char* field, std::string_view what);
  // After the last field: nothing may follow.
  void ExpectEnd();

 private:
  struct Head {  // what the next value starts with
    enum class Type : uint8_t {
      kNone,
      kNil,
      kBool,
      kUint,
      kNegative,
      kFloat,
      kStr,
      kBin,
      kArray,
      kMap,
      kExt,
      kUnused,
      kCut
    };
    Type type = Type::kNone;
    uint8_t header = 0;  // bytes before the content
    int8_t ext = 0;
    uint64_t value = 0;  // the integer (two's complement), or the number of content bytes or elements
  };
  Head Peek() const;
  std::string Describe(const Head& head) const;
  size_t left() const { return static_cast<size_t>(end_ - at_); }

  std::string_view Take(size_t header, size_t size) {
    const std::string_view bytes(at_ + header, size);
    at_ += header + size;
    return bytes;
  }
  static uint16_t Load16(const char* from) {
    uint16_t value;
    std::memcpy(&value, from, sizeof(value));
    return __builtin_bswap16(value);
  }
  static uint64_t Load64(const char* from) {
    uint64_t value;
    std::memcpy(&value, from, sizeof(value));
    return __builtin_bswap64(value);
  }
  uint64_t SlowUint(const char* field, uint64_t max);
  std::string_view SlowBytes(const char* field);
  uint32_t SlowFields(const char* field, uint32_t min);
  uint32_t Count(const char* field, Head::Type type, const char* what, uint32_t min_bytes);

  const char* at_;
  const char* end_;
  uint32_t elements_ = 0;
  uint64_t kind_ = 0;
  const char* list_ = nullptr;
  size_t index_ = 0;
  absl::Status status_;
};

}  // namespace millstream::protocol

#endif  // MILLSTREAM_SIDECAR_PROTOCOL_MSGPACK_CURSOR_H_
