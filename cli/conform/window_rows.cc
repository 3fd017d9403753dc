#include "cli/conform/window_rows.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "common/base/bytes.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::cli::conform {
namespace {

using Type = StoreShape::Type;

constexpr size_t kTimeBytes = 8;
constexpr uint64_t kSignBit = uint64_t{1} << 63;

int64_t TimeAt(std::string_view bytes, bool flipped) {
  uint64_t number = 0;
  for (const char byte : bytes.substr(0, kTimeBytes)) number = number << 8 | static_cast<uint8_t>(byte);
  return static_cast<int64_t>(flipped ? number ^ kSignBit : number);
}

// How many bytes a row key has behind the key.
size_t TimesSize(const StoreShape& shape) { return shape.type == Type::kSession ? 2 * kTimeBytes : kTimeBytes; }

bool ReadTime(std::string_view text, int64_t* time) { return absl::SimpleAtoi(ToAbsl(text), time); }

const StoreShape& Plain() {
  static const StoreShape plain;
  return plain;
}

}  // namespace

std::vector<StoreShape> ShapesIn(const Json& welcome) {
  std::vector<StoreShape> shapes;
  for (const Json& store : welcome["stores"]) {
    StoreShape& shape = shapes.emplace_back();
    shape.name = store.value("name", std::string());
    const std::string type = store.value("type", std::string());
    shape.type = type == "Window" ? Type::kWindow : type == "Session" ? Type::kSession : Type::kKeyValue;
    if (shape.type != Type::kWindow) continue;
    const Json window = store.value("window", Json::object());
    shape.size_ms = window.value("size", int64_t{0});
    shape.advance_ms = window.value("advance", shape.size_ms);
  }
  return shapes;
}

const StoreShape& ShapeOf(const std::vector<StoreShape>& shapes, size_t id) {
  return id < shapes.size() ? shapes[id] : Plain();
}

const StoreShape& ShapeOf(const std::vector<StoreShape>& shapes, std::string_view name) {
  const auto found = std::find_if(shapes.begin(), shapes.end(), [&](const StoreShape& s) { return s.name == name; });
  return found == shapes.end() ? Plain() : *found;
}

std::string RowKey(const StoreShape& shape, std::string_view key, int64_t start_ms, int64_t end_ms) {
  std::string row(key);
  if (shape.type == Type::kWindow) AppendBigEndian64(static_cast<uint64_t>(start_ms), &row);
  if (shape.type == Type::kSession) {
    AppendBigEndian64(static_cast<uint64_t>(start_ms) ^ kSignBit, &row);
    AppendBigEndian64(static_cast<uint64_t>(end_ms) ^ kSignBit, &row);
  }
  return row;
}

absl::StatusOr<std::string> ReadRow(const StoreShape& shape, const Json& notation) {
  if (!shape.windowed()) return ReadBytes(notation);
  const auto wrong =
      absl::InvalidArgumentError(StrCat("a row of store ", shape.name, " is KEY@START",
                                        shape.type == Type::kSession ? "..END" : "", ", not ", notation.dump()));
  if (!notation.is_string()) return wrong;
  const std::string_view text = notation.get_ref<const std::string&>();
  const size_t at = text.rfind('@');
  if (at == std::string_view::npos) return wrong;
  MS_ASSIGN_OR_RETURN(const std::string key, ReadBytes(std::string(text.substr(0, at))));
  std::string_view start_text = text.substr(at + 1), end_text = "0";
  if (shape.type == Type::kSession) {
    const size_t dots = start_text.find("..");
    if (dots == std::string_view::npos) return wrong;
    end_text = start_text.substr(dots + 2);
    start_text = start_text.substr(0, dots);
  }
  int64_t start = 0, end = 0;
  if (!ReadTime(start_text, &start) || !ReadTime(end_text, &end)) return wrong;
  return RowKey(shape, key, start, end);
}

Json ShowRow(const StoreShape& shape, std::string_view row) {
  if (!shape.windowed() || row.size() < TimesSize(shape)) return ShowBytes(row);
  const size_t key_size = row.size() - TimesSize(shape);
  const std::string key = ShowBytes(row.substr(0, key_size)).get<std::string>();
  const bool session = shape.type == Type::kSession;
  const int64_t start = TimeAt(row.substr(key_size), session);
  if (!session) return StrCat(key, "@", start);
  return StrCat(key, "@", start, "..", TimeAt(row.substr(key_size + kTimeBytes), true));
}

bool IsRow(const StoreShape& shape, std::string_view row) {
  if (!shape.windowed()) return true;
  if (row.size() < TimesSize(shape)) return false;
  const std::string_view times = row.substr(row.size() - TimesSize(shape));
  if (shape.type == Type::kSession) return TimeAt(times, true) <= TimeAt(times.substr(kTimeBytes), true);
  return shape.advance_ms <= 0 || TimeAt(times, false) % shape.advance_ms == 0;
}

}  // namespace millstream::cli::conform
