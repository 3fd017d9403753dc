#include "cli/conform/notation.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstring>

#include "common/base/bytes.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "sidecar/protocol/frame.h"
#include "sidecar/protocol/messages.h"
#include "sidecar/protocol/utf8.h"

namespace millstream::cli::conform {
namespace {

constexpr std::string_view kHexMark = "hex:";
// Values longer than this are shown by their beginning and length.
constexpr size_t kShownBytes = 200;
// What one repeated value may take: more than any frame.
constexpr size_t kMostBytes = 256u << 20;

struct NamedKind {
  std::string_view name;
  protocol::Kind kind;
};
constexpr NamedKind kKinds[] = {
    {"HELLO", protocol::Kind::kHello},
    {"WELCOME", protocol::Kind::kWelcome},
    {"OPEN", protocol::Kind::kOpen},
    {"CLOSE", protocol::Kind::kClose},
    {"BATCH", protocol::Kind::kBatch},
    {"RESULT", protocol::Kind::kResult},
    {"CANCEL", protocol::Kind::kCancel},
    {"GET", protocol::Kind::kGet},
    {"VALUES", protocol::Kind::kValues},
    {"SCAN", protocol::Kind::kScan},
    {"ROWS", protocol::Kind::kRows},
    {"EXTEND", protocol::Kind::kExtend},
    {"PING", protocol::Kind::kPing},
    {"PONG", protocol::Kind::kPong},
    {"ERROR", protocol::Kind::kError},
    {"GOODBYE", protocol::Kind::kGoodbye},
    {"BEGIN", protocol::Kind::kBegin},
    {"FINALIZE", protocol::Kind::kFinalize},
    {"COMMITTED", protocol::Kind::kCommitted},
    {"LOAD", protocol::Kind::kLoad},
    {"CHECKPOINT", protocol::Kind::kCheckpoint},
    {"STORE", protocol::Kind::kStore},
    {"STORED", protocol::Kind::kStored},
};

void BigEndian(uint64_t value, int bytes, std::string* out) {
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) out->push_back(static_cast<char>(value >> shift));
}

// Not the writer of sidecar/protocol: that one writes messages, this one anything, legal or not.
class Packer {
 public:
  explicit Packer(std::string* out) : out_(*out) {}

  absl::Status Pack(const Json& value) {
    switch (value.type()) {
      case Json::value_t::null:
        Byte(0xc0);
        return absl::OkStatus();
      case Json::value_t::boolean:
        Byte(value.get<bool>() ? 0xc3 : 0xc2);
        return absl::OkStatus();
      case Json::value_t::number_unsigned:
        Unsigned(value.get<uint64_t>());
        return absl::OkStatus();
      case Json::value_t::number_integer:
        Signed(value.get<int64_t>());
        return absl::OkStatus();
      case Json::value_t::number_float: {
        const double number = value.get<double>();
        uint64_t bits;
        static_assert(sizeof(bits) == sizeof(number));
        std::memcpy(&bits, &number, sizeof(bits));
        Byte(0xcb);
        BigEndian(bits, 8, &out_);
        return absl::OkStatus();
      }
      case Json::value_t::string:
        Sized(value.get_ref<const std::string&>(), 0xd9, 0xda, 0xdb, 0xa0, 32);
        return absl::OkStatus();
      case Json::value_t::array:
        Count(value.size(), 0x90, 0xdc);
        for (const Json& element : value) MS_RETURN_IF_ERROR(Pack(element));
        return absl::OkStatus();
      case Json::value_t::object:
        return PackMap(value);
      default:
        return absl::InvalidArgumentError("not a value of a frame");
    }
  }

 private:
  absl::Status PackMap(const Json& map) {
    if (map.size() == 1) {
      const std::string& mark = map.begin().key();
      if (mark == "bin" || mark == "str") {
        MS_ASSIGN_OR_RETURN(const std::string bytes, ReadBytes(map.begin().value()));
        if (mark == "bin") {
          Sized(bytes, 0xc4, 0xc5, 0xc6, 0, 0);
        } else {
          Sized(bytes, 0xd9, 0xda, 0xdb, 0xa0, 32);
        }
        return absl::OkStatus();
      }
      if (mark == "ext" && map.begin()->is_number_integer()) {
        Byte(0xc7);
        Byte(0);
        Byte(static_cast<uint8_t>(map.begin()->get<int>()));
        return absl::OkStatus();
      }
    }
    Count(map.size(), 0x80, 0xde);
    for (const auto& [key, value] : map.items()) {
      const bool number =
          !key.empty() && std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; });
      MS_RETURN_IF_ERROR(Pack(number ? Json(std::stoull(key)) : Json(key)));
      MS_RETURN_IF_ERROR(Pack(value));
    }
    return absl::OkStatus();
  }

  void Byte(uint8_t byte) { out_.push_back(static_cast<char>(byte)); }
  void Unsigned(uint64_t value) {
    if (value < 0x80) return Byte(static_cast<uint8_t>(value));
    const int size = value <= 0xff ? 1 : value <= 0xffff ? 2 : value <= 0xffffffff ? 4 : 8;
    Byte(size == 1 ? 0xcc : size == 2 ? 0xcd : size == 4 ? 0xce : 0xcf);
    BigEndian(value, size, &out_);
  }
  void Signed(int64_t value) {
    if (value >= 0) return Unsigned(static_cast<uint64_t>(value));
    if (value >= -32) return Byte(static_cast<uint8_t>(value));
    Byte(0xd3);
    BigEndian(static_cast<uint64_t>(value), 8, &out_);
  }
  void Sized(std::string_view bytes, uint8_t one, uint8_t two, uint8_t four, uint8_t fix, size_t fix_below) {
    const size_t size = bytes.size();
    if (size < fix_below) {
      Byte(static_cast<uint8_t>(fix | size));
    } else if (size <= 0xff) {
      Byte(one);
      BigEndian(size, 1, &out_);
    } else if (size <= 0xffff) {
      Byte(two);
      BigEndian(size, 2, &out_);
    } else {
      Byte(four);
      BigEndian(size, 4, &out_);
    }
    out_.append(bytes);
  }
  void Count(size_t count, uint8_t fix, uint8_t two) {
    if (count < 16) return Byte(static_cast<uint8_t>(fix | count));
    if (count <= 0xffff) {
      Byte(two);
      return BigEndian(count, 2, &out_);
    }
    Byte(static_cast<uint8_t>(two + 1));
    BigEndian(count, 4, &out_);
  }

  std::string& out_;
};

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

Json ToJson(const spec::Value& value) {
  using Kind = spec::Value::Kind;
  switch (value.kind) {
    case Kind::kNull:
      return {};
    case Kind::kBool:
      return value.boolean;
    case Kind::kInt:
      return value.integer < 0 ? Json(value.integer) : Json(static_cast<uint64_t>(value.integer));
    case Kind::kDouble:
      return value.number;
    case Kind::kString:
      return value.text;
    case Kind::kList: {
      Json list = Json::array();
      for (const spec::Value& item : value.items) list.push_back(ToJson(item));
      return list;
    }
    case Kind::kMap: {
      Json map = Json::object();
      for (const spec::Member& member : value.members) map[member.key] = ToJson(member.value);
      return map;
    }
  }
  return {};
}

absl::StatusOr<std::string> ReadFrameFor(std::string_view recorded, uint64_t seq, uint64_t rid) {
  // [array header of one byte, kind, seq, rid, ...]
  constexpr size_t kHead = protocol::kFrameHeaderBytes + 2;
  const auto wrong = absl::InvalidArgumentError("the recorded frame is no VALUES or ROWS");
  if (recorded.size() < kHead || (static_cast<uint8_t>(recorded[protocol::kFrameHeaderBytes]) & 0xf0) != 0x90)
    return wrong;
  std::string payload(recorded.substr(protocol::kFrameHeaderBytes, 2));
  if (payload[1] != static_cast<char>(protocol::Kind::kValues) &&
      payload[1] != static_cast<char>(protocol::Kind::kRows))
    return wrong;
  size_t at = kHead;
  for (const uint64_t number : {seq, rid}) {
    if (at >= recorded.size()) return wrong;
    const auto tag = static_cast<uint8_t>(recorded[at]);
    if (tag >= 0x80 && (tag < 0xcc || tag > 0xcf)) return wrong;
    at += tag < 0x80 ? 1 : 1 + (size_t{1} << (tag - 0xcc));
    payload.push_back(static_cast<char>(0xcf));
    AppendBigEndian64(number, &payload);
  }
  if (at > recorded.size()) return wrong;
  payload.append(recorded.substr(at));
  std::string frame;
  AppendBigEndian32(static_cast<uint32_t>(payload.size()), &frame);
  return frame + payload;
}

absl::StatusOr<std::string> ReadHex(std::string_view text) {
  std::string bytes;
  int high = -1;
  for (const char c : text) {
    if (c == ' ' || c == '\n') continue;
    const int digit = HexDigit(c);
    if (digit < 0) return absl::InvalidArgumentError(StrCat("\"", text, "\" is not hexadecimal"));
    if (high < 0) {
      high = digit;
    } else {
      bytes.push_back(static_cast<char>(high << 4 | digit));
      high = -1;
    }
  }
  if (high >= 0) return absl::InvalidArgumentError(StrCat("\"", text, "\" has half a byte too much"));
  return bytes;
}

std::string ShowHex(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const char byte : bytes) {
    hex.push_back(kDigits[static_cast<uint8_t>(byte) >> 4]);
    hex.push_back(kDigits[static_cast<uint8_t>(byte) & 15]);
  }
  return hex;
}

absl::StatusOr<std::string> ReadBytes(const Json& notation) {
  if (notation.is_string()) {
    const auto& text = notation.get_ref<const std::string&>();
    if (text.starts_with(kHexMark)) return ReadHex(std::string_view(text).substr(kHexMark.size()));
    return text;
  }
  if (notation.is_object() && notation.size() == 1 && notation.contains("repeat")) {
    const Json& repeat = notation["repeat"];
    if (repeat.is_array() && repeat.size() == 2 && repeat[1].is_number_unsigned()) {
      MS_ASSIGN_OR_RETURN(const std::string text, ReadBytes(repeat[0]));
      const auto count = repeat[1].get<uint64_t>();
      if (text.size() * count > kMostBytes) return absl::InvalidArgumentError("repeat: far larger than any frame");
      std::string bytes;
      bytes.reserve(text.size() * count);
      for (uint64_t i = 0; i < count; ++i) bytes += text;
      return bytes;
    }
  }
  return absl::InvalidArgumentError(
      StrCat("expected bytes (text, hex:ff00, {repeat: [text, count]}), not ", notation.dump()));
}

absl::StatusOr<std::optional<std::string>> ReadMaybeBytes(const Json& notation) {
  if (notation.is_null()) return std::nullopt;
  MS_ASSIGN_OR_RETURN(std::string bytes, ReadBytes(notation));
  return bytes;
}

Json ShowBytes(std::string_view bytes) {
  return protocol::IsUtf8(bytes) ? std::string(bytes) : StrCat(kHexMark, ShowHex(bytes));
}

std::string ShowJson(const Json& value) {
  const auto cut = [](const auto& self, const Json& whole) -> Json {
    if (whole.is_string()) {
      const auto& text = whole.get_ref<const std::string&>();
      if (text.size() <= kShownBytes) return whole;
      return StrCat(protocol::RepairUtf8(text, kShownBytes), "... (", text.size(), " characters)");
    }
    Json copy = whole;
    if (copy.is_structured()) {
      for (Json& child : copy) child = self(self, child);
    }
    return copy;
  };
  return cut(cut, value).dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<std::string> ReadFrame(const Json& array) {
  if (!array.is_array() || array.empty()) {
    return absl::InvalidArgumentError(StrCat("expected a frame [KIND, field, ...], not ", array.dump()));
  }
  Json fields = array;
  if (fields[0].is_string()) {
    const auto& name = fields[0].get_ref<const std::string&>();
    const auto* kind =
        std::find_if(std::begin(kKinds), std::end(kKinds), [&](const NamedKind& k) { return k.name == name; });
    if (kind == std::end(kKinds)) return absl::InvalidArgumentError(StrCat("there is no kind of frame \"", name, "\""));
    fields[0] = static_cast<int>(kind->kind);
  }
  std::string payload;
  MS_RETURN_IF_ERROR(Packer(&payload).Pack(fields));
  std::string frame;
  BigEndian(payload.size(), 4, &frame);
  return frame + payload;
}

}  // namespace millstream::cli::conform
