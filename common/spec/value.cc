#include "common/spec/value.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::spec {
namespace {

nlohmann::json ToNlohmann(const Value& value) {
  switch (value.kind) {
    case Value::Kind::kNull:
      return nullptr;
    case Value::Kind::kBool:
      return value.boolean;
    case Value::Kind::kInt:
      return value.integer;
    case Value::Kind::kDouble:
      return value.number;
    case Value::Kind::kString:
      return value.text;
    case Value::Kind::kList: {
      nlohmann::json list = nlohmann::json::array();
      for (const Value& item : value.items) list.push_back(ToNlohmann(item));
      return list;
    }
    case Value::Kind::kMap: {
      nlohmann::json map = nlohmann::json::object();
      for (const Member& member : value.members) map[member.key] = ToNlohmann(member.value);
      return map;
    }
  }
  return nullptr;
}

// Long texts are cut, line ends shown, so that a message stays one line.
std::string Shortened(std::string_view text) {
  constexpr size_t kLimit = 60;
  std::string out;
  for (char c : text.substr(0, kLimit)) {
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  if (text.size() > kLimit) {
    while (!out.empty() && (static_cast<unsigned char>(out.back()) & 0x80) != 0)
      out.pop_back();  // never half a character
    out += "...";
  }
  return out;
}

}  // namespace

const Value* Value::Find(std::string_view key) const {
  const Member* member = FindMember(key);
  return member == nullptr ? nullptr : &member->value;
}

Value* Value::Find(std::string_view key) { return const_cast<Value*>(static_cast<const Value*>(this)->Find(key)); }

const Member* Value::FindMember(std::string_view key) const {
  for (const Member& member : members) {
    if (member.key == key) return &member;
  }
  return nullptr;
}

Value& Value::Add(std::string_view key, Value value) {
  MS_CHECK(kind == Kind::kMap);
  Position position = value.at;
  members.push_back({std::string(key), position, std::move(value)});
  return members.back().value;
}

void Value::Remove(std::string_view key) {
  std::erase_if(members, [&](const Member& member) { return member.key == key; });
}

Value StringValue(std::string_view text, Position at) {
  Value value;
  value.kind = Value::Kind::kString;
  value.text = std::string(text);
  value.at = at;
  return value;
}

Value MapValue(Position at) {
  Value value;
  value.kind = Value::Kind::kMap;
  value.at = at;
  return value;
}

Value ListValue(Position at) {
  Value value;
  value.kind = Value::Kind::kList;
  value.at = at;
  return value;
}

std::optional<std::string_view> StringIn(const Value* map, std::string_view key) {
  const Value* value = map == nullptr ? nullptr : map->Find(key);
  if (value == nullptr || !value->is_string()) return std::nullopt;
  return value->text;
}

std::optional<int64_t> IntIn(const Value* map, std::string_view key) {
  const Value* value = map == nullptr ? nullptr : map->Find(key);
  if (value == nullptr || value->kind != Value::Kind::kInt) return std::nullopt;
  return value->integer;
}

std::optional<bool> BoolIn(const Value* map, std::string_view key) {
  const Value* value = map == nullptr ? nullptr : map->Find(key);
  if (value == nullptr || value->kind != Value::Kind::kBool) return std::nullopt;
  return value->boolean;
}

std::span<const Value> ItemsIn(const Value* map, std::string_view key) {
  const Value* value = map == nullptr ? nullptr : map->Find(key);
  if (value == nullptr) return {};
  return value->items;
}

std::span<const Member> MembersIn(const Value* map, std::string_view key) {
  const Value* value = map == nullptr ? nullptr : map->Find(key);
  if (value == nullptr) return {};
  return value->members;
}

std::string Describe(const Value& value) {
  switch (value.kind) {
    case Value::Kind::kNull:
      return "nothing";
    case Value::Kind::kBool:
      return StrCat("the boolean ", value.boolean ? "true" : "false");
    case Value::Kind::kInt:
    case Value::Kind::kDouble:
      return StrCat("the number ", Shortened(value.text));
    case Value::Kind::kString:
      return StrCat("the text \"", Shortened(value.text), "\"");
    case Value::Kind::kList:
      return "a list";
    case Value::Kind::kMap:
      return "a map";
  }
  return "?";
}

std::string ToCanonicalJson(const Value& value) { return ToNlohmann(value).dump(); }

}  // namespace millstream::spec
