#ifndef MILLSTREAM_COMMON_SPEC_VALUE_H_
#define MILLSTREAM_COMMON_SPEC_VALUE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace millstream::spec {

// Line and column of a character in its file, from 1; 0 where there is none.
struct Position {
  int line = 0;
  int column = 0;
  friend auto operator<=>(const Position&, const Position&) = default;
};

struct Member;

// A JSON value that knows where it was written: what YAML and JSON readers make, and what every check works on.
// A plain tree, copied by value. Keys of a map are unique and keep their order.
struct Value {
  enum class Kind { kNull, kBool, kInt, kDouble, kString, kList, kMap };

  Kind kind = Kind::kNull;
  bool boolean = false;
  int64_t integer = 0;
  double number = 0;            // kDouble; also set for kInt
  std::string text;             // kString: the text; other scalars: as they were written
  std::vector<Value> items;     // kList
  std::vector<Member> members;  // kMap
  Position at;

  bool is_null() const { return kind == Kind::kNull; }
  bool is_string() const { return kind == Kind::kString; }
  bool is_list() const { return kind == Kind::kList; }
  bool is_map() const { return kind == Kind::kMap; }

  // nullptr when this is no map or has no such key. Pointers live until the map changes.
  const Value* Find(std::string_view key) const;
  Value* Find(std::string_view key);
  const Member* FindMember(std::string_view key) const;
  // Down a path of keys: Find("a", "b") is Find("a")->Find("b") or nullptr.
  template <typename... Keys>
  const Value* Find(std::string_view key, Keys... more) const;

  // Precondition: a map without that key.
  Value& Add(std::string_view key, Value value);
  void Remove(std::string_view key);
};

struct Member {
  std::string key;
  Position key_at;
  Value value;
};

template <typename... Keys>
const Value* Value::Find(std::string_view key, Keys... more) const {
  const Value* child = Find(key);
  return child == nullptr ? nullptr : child->Find(more...);
}

Value StringValue(std::string_view text, Position at = {});
Value MapValue(Position at = {});
Value ListValue(Position at = {});

// Reading without knowing whether the value is as the schema wants it; checks run also on documents with other faults.
// Each returns "nothing" for nullptr and for a value of another kind.
std::optional<std::string_view> StringIn(const Value* map, std::string_view key);
std::optional<int64_t> IntIn(const Value* map, std::string_view key);
std::optional<bool> BoolIn(const Value* map, std::string_view key);
std::span<const Value> ItemsIn(const Value* map, std::string_view key);
std::span<const Member> MembersIn(const Value* map, std::string_view key);

// "the number 5", "the text \"x\"", "a list", "a map", "nothing": how messages speak of a value.
std::string Describe(const Value& value);

// Compact JSON with sorted keys.
std::string ToCanonicalJson(const Value& value);

}  // namespace millstream::spec

#endif  // MILLSTREAM_COMMON_SPEC_VALUE_H_
