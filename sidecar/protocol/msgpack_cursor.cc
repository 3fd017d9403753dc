#include "sidecar/protocol/msgpack_cursor.h"

#include "common/base/strings.h"
#include "sidecar/protocol/codec.h"
#include "sidecar/protocol/utf8.h"

namespace millstream::protocol {
namespace {

uint64_t LoadBigEndian(const char* from, int bytes) {
  uint64_t value = 0;
  for (int i = 0; i < bytes; ++i) value = value << 8 | static_cast<uint8_t>(from[i]);
  return value;
}

// Sign-extends the lowest `bytes` bytes.
uint64_t SignExtend(uint64_t value, int bytes) {
  const int shift = 64 - 8 * bytes;
  return static_cast<uint64_t>(static_cast<int64_t>(value << shift) >> shift);
}

}  // namespace

MsgpackCursor::Head MsgpackCursor::Peek() const {
  using Type = Head::Type;
  Head head;
  if (at_ == end_) return head;
  const uint8_t tag = static_cast<uint8_t>(*at_);
  if (tag < 0x80) return {Type::kUint, 1, 0, tag};
  if (tag < 0x90) return {Type::kMap, 1, 0, tag & 0x0fu};
  if (tag < 0xa0) return {Type::kArray, 1, 0, tag & 0x0fu};
  if (tag < 0xc0) return {Type::kStr, 1, 0, tag & 0x1fu};
  if (tag >= 0xe0) return {Type::kNegative, 1, 0, SignExtend(tag, 1)};
  // 0xc0 to 0xdf: what it is, and how many bytes of number follow the tag.
  struct Row {
    Type type;
    uint8_t bytes;
  };
  static constexpr Row kRows[32] = {
      {Type::kNil, 0},   {Type::kUnused, 0},   {Type::kBool, 0},     {Type::kBool, 0},     {Type::kBin, 1},
      {Type::kBin, 2},   {Type::kBin, 4},      {Type::kExt, 1},      {Type::kExt, 2},      {Type::kExt, 4},
      {Type::kFloat, 4}, {Type::kFloat, 8},    {Type::kUint, 1},     {Type::kUint, 2},     {Type::kUint, 4},
      {Type::kUint, 8},  {Type::kNegative, 1}, {Type::kNegative, 2}, {Type::kNegative, 4}, {Type::kNegative, 8},
      {Type::kExt, 0},   {Type::kExt, 0},      {Type::kExt, 0},      {Type::kExt, 0},      {Type::kExt, 0},
      {Type::kStr, 1},   {Type::kStr, 2},      {Type::kStr, 4},      {Type::kArray, 2},    {Type::kArray, 4},
      {Type::kMap, 2},   {Type::kMap, 4}};
  const Row row = kRows[tag - 0xc0];
  head.type = row.type;
  head.header = static_cast<uint8_t>(1 + row.bytes + (row.type == Type::kExt ? 1 : 0));
  if (left() < head.header) return {Type::kCut, 0, 0, 0};
  head.value = LoadBigEndian(at_ + 1, row.bytes);
  if (row.type == Type::kBool) head.value = tag & 1u;
  if (row.type == Type::kExt) {
    if (row.bytes == 0) head.value = uint64_t{1} << (tag - 0xd4);  // fixext 1, 2, 4, 8, 16
    head.ext = static_cast<int8_t>(at_[head.header - 1]);
  }
  if (row.type == Type::kNegative) {
    head.value = SignExtend(head.value, row.bytes);
    if (static_cast<int64_t>(head.value) >= 0) head.type = Type::kUint;
  }
  return head;
}

std::string MsgpackCursor::Describe(const Head& head) const {
  using Type = Head::Type;
  switch (head.type) {
    case Type::kNone:
      return "the end of the frame";
    case Type::kCut:
      return "a value that is cut off";
    case Type::kNil:
      return "nil";
    case Type::kBool:
      return head.value != 0 ? "true" : "false";
    case Type::kUint:
      return StrCat("the integer ", head.value);
    case Type::kNegative:
      return StrCat("the integer ", static_cast<int64_t>(head.value));
    case Type::kFloat:
      return "a floating point number";
    case Type::kStr:
      return StrCat("a string of ", head.value, " bytes");
    case Type::kBin:
      return StrCat("binary of ", head.value, " bytes");
    case Type::kArray:
      return StrCat("an array of ", head.value);
    case Type::kMap:
      return StrCat("a map of ", head.value);
    case Type::kExt:
      return StrCat("an extension of type ", static_cast<int>(head.ext));
    case Type::kUnused:
      return "the byte 0xc1, which MessagePack never uses";
  }
  return "nothing";
}

bool MsgpackCursor::Fail(const char* field, std::string_view problem, absl::StatusCode code) {
  if (!status_.ok()) return false;
  std::string where = kind_ == 0 ? "" : KindName(kind_) + ": ";
  if (list_ != nullptr) StrAppend(&where, list_, "[", index_, "].");
  status_ = absl::Status(code, StrCat(where, field, ": ", problem));
  at_ = end_;
  return false;
}

bool MsgpackCursor::FailExpected(const char* field, std::string_view what) {
  return Fail(field, StrCat("expected ", what, ", found ", Describe(Peek())));
}

uint64_t MsgpackCursor::SlowUint(const char* field, uint64_t max) {
  const Head head = Peek();
  if (head.type != Head::Type::kUint) return FailExpected(field, "an integer from 0");
  if (head.value > max) return FailExpected(field, StrCat("an integer up to ", max));
  at_ += head.header;
  return head.value;
}

int64_t MsgpackCursor::Int(const char* field, int64_t min, int64_t max) {
  const Head head = Peek();
  const bool is_integer = head.type == Head::Type::kUint || head.type == Head::Type::kNegative;
  if (!is_integer) return FailExpected(field, "an integer");
  const int64_t value = static_cast<int64_t>(head.value);
  const bool wraps = head.type == Head::Type::kUint && value < 0;
  if (wraps || value < min || value > max) return FailExpected(field, StrCat("an integer from ", min, " to ", max));
  at_ += head.header;
  return value;
}

bool MsgpackCursor::Bool(const char* field) {
  const Head head = Peek();
  if (head.type != Head::Type::kBool) return FailExpected(field, "true or false");
  at_ += head.header;
  return head.value != 0;
}

std::string_view MsgpackCursor::SlowBytes(const char* field) {
  const Head head = Peek();
  if (head.type != Head::Type::kBin && head.type != Head::Type::kStr)
    return FailExpected(field, "binary"), std::string_view();
  if (head.value > left() - head.header) {
    Fail(field, StrCat(Describe(head), " with only ", left() - head.header, " left in the frame"));
    return {};
  }
  return Take(head.header, head.value);
}

std::string MsgpackCursor::Text(const char* field) {
  const std::string_view bytes = Bytes(field);
  if (bytes.size() <= kMaxTextBytes && IsUtf8(bytes)) return std::string(bytes);
  return RepairUtf8(bytes, kMaxTextBytes);
}

StateValue MsgpackCursor::State(const char* field) {
  if (TakeNil()) return {};
  const Head head = Peek();
  if (head.type != Head::Type::kExt) return {StateValue::What::kValue, Bytes(field)};
  if (head.ext != kNotPrefetchedExt) return FailExpected(field, "binary, nil or extension 1"), StateValue();
  Skip(field);
  return {StateValue::What::kNotPrefetched, {}};
}

uint32_t MsgpackCursor::Count(const char* field, Head::Type type, const char* what, uint32_t min_bytes) {
  const Head head = Peek();
  if (head.type != type) return FailExpected(field, what);
  if (head.value > (left() - head.header) / min_bytes) {
    return Fail(field, StrCat(Describe(head), ", but only ", left() - head.header, " bytes are left in the frame"));
  }
  at_ += head.header;
  return static_cast<uint32_t>(head.value);
}

uint32_t MsgpackCursor::SlowFields(const char* field, uint32_t min) {
  const uint32_t count = Count(field, Head::Type::kArray, "an array", 1);
  if (ok() && count < min) return Fail(field, StrCat("expected an array of at least ", min, ", found one of ", count));
  return count;
}

uint32_t MsgpackCursor::List(const char* field, uint32_t min_bytes) {
  const uint32_t count = Count(field, Head::Type::kArray, "an array", min_bytes);
  if (count > kMaxElements - elements_) {
    return Fail(field, StrCat("an array of ", count, ": a frame holds at most ", kMaxElements, " elements in all"));
  }
  elements_ += count;
  return count;
}

uint32_t MsgpackCursor::Map(const char* field) { return Count(field, Head::Type::kMap, "a map", 2); }

void MsgpackCursor::Skip(const char* field) {
  uint64_t open[kMaxDepth];  // values still to come, per level
  int depth = 0;
  open[0] = 1;
  while (depth >= 0) {
    if (open[depth] == 0) {
      --depth;
      continue;
    }
    --open[depth];
    const Head head = Peek();
    using Type = Head::Type;
    if (head.type == Type::kNone || head.type == Type::kCut || head.type == Type::kUnused) {
      FailExpected(field, "a value");
      return;
    }
    at_ += head.header;
    const bool sized = head.type == Type::kStr || head.type == Type::kBin || head.type == Type::kExt;
    const bool nested = head.type == Type::kArray || head.type == Type::kMap;
    if ((sized || nested) && head.value > left()) {
      Fail(field, StrCat(Describe(head), ", but only ", left(), " bytes are left in the frame"));
      return;
    }
    if (sized) at_ += head.value;
    if (nested && head.value > 0) {
      if (depth + 1 == kMaxDepth) {
        Fail(field, StrCat("nested deeper than ", kMaxDepth));
        return;
      }
      open[++depth] = head.type == Type::kMap ? 2 * head.value : head.value;
    }
  }
}

void MsgpackCursor::ExpectEnd() {
  LeaveList();
  if (ok() && at_ != end_) Fail("end", StrCat(left(), " bytes follow the message"));
}

}  // namespace millstream::protocol
