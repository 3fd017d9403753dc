#include <limits>
#include <map>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "common/base/strings.h"
#include "common/spec/document.h"
#include "common/spec/duration.h"
#include "common/spec/pattern.h"
#include "common/spec/quantity.h"
#include "common/spec/suggest.h"

namespace millstream::spec {
namespace {

using Type = SchemaNode::Type;

int64_t CharacterCount(std::string_view text) {
  int64_t count = 0;
  for (char c : text) count += (static_cast<unsigned char>(c) & 0xc0) != 0x80 ? 1 : 0;
  return count;
}

std::string Alternatives(const std::vector<std::string>& words) {
  std::string out;
  for (size_t i = 0; i < words.size(); ++i) {
    StrAppend(&out, i == 0 ? "" : i + 1 == words.size() ? " or " : ", ", words[i]);
  }
  return out;
}

std::string_view TypeName(Type type) {
  switch (type) {
    case Type::kAny:
      return "anything";
    case Type::kObject:
      return "a map";
    case Type::kArray:
      return "a list";
    case Type::kString:
      return "a text";
    case Type::kInteger:
      return "a whole number";
    case Type::kNumber:
      return "a number";
    case Type::kBoolean:
      return "true or false";
    case Type::kIntOrString:
      return "a number or a text";
  }
  return "?";
}

bool Fits(Type type, const Value& value) {
  switch (type) {
    case Type::kAny:
      return true;
    case Type::kObject:
      return value.is_map();
    case Type::kArray:
      return value.is_list();
    case Type::kString:
      return value.is_string();
    case Type::kInteger:
      return value.kind == Value::Kind::kInt;
    case Type::kNumber:
      return value.kind == Value::Kind::kInt || value.kind == Value::Kind::kDouble;
    case Type::kBoolean:
      return value.kind == Value::Kind::kBool;
    case Type::kIntOrString:
      return value.kind == Value::Kind::kInt || value.is_string();
  }
  return false;
}

bool IsScalar(const Value& value) { return !value.is_list() && !value.is_map() && !value.is_null(); }

// "must be a text, but is the number 5: put it in quotes, \"5\"".
std::string WrongType(const SchemaNode& node, const Value& value) {
  if (node.is_duration() && IsScalar(value)) return ExplainDuration(value.text);
  std::string hint;
  if (node.type == Type::kString && IsScalar(value)) {
    hint = StrCat(": put it in quotes, \"", value.text, "\"");
  } else if ((node.type == Type::kInteger || node.type == Type::kBoolean) && value.is_string() &&
             value.text.find_first_not_of("0123456789truefalsTRUEFALSE") == std::string::npos && !value.text.empty()) {
    hint = ": remove the quotes";
  } else if (node.type == Type::kArray && value.is_map()) {
    hint = ": start each item with `- `";
  } else if (node.type == Type::kArray && IsScalar(value)) {
    hint = StrCat(": write it as a list, [", value.text, "]");
  } else if (node.type == Type::kObject && value.is_list()) {
    hint = ": remove the `- `";
  }
  return StrCat("must be ", TypeName(node.type), ", but is ", Describe(value), hint);
}

class Checker {
 public:
  explicit Checker(Document& document) : document_(document) {}

  void Check(const SchemaNode& node, const Value& value, const std::string& path) {
    if (!Fits(node.type, value)) return Error(value.at, path, WrongType(node, value));
    size_t before = errors_;
    if (value.is_map()) CheckMap(node, value, path);
    if (value.is_list()) CheckList(node, value, path);
    if (value.is_string()) CheckString(node, value, path);
    if (value.kind == Value::Kind::kInt) CheckInteger(node, value, path);
    if (errors_ == before) CheckBounds(node, value, path);
  }

 private:
  void Error(Position at, std::string_view path, std::string message, Judge judge = Judge::kSchema) {
    ++errors_;
    document_.findings.Error(judge, at, path, std::move(message));
  }

  void CheckMap(const SchemaNode& node, const Value& map, const std::string& path) {
    for (const std::string& name : node.required) {
      if (map.Find(name) != nullptr) continue;
      std::string child = Child(path, name);
      auto empty = document_.empty_fields.find(child);
      bool is_empty = empty != document_.empty_fields.end();
      Error(is_empty ? empty->second : map.at, child,
            StrCat(is_empty ? "has no value" : "is required", RequiredHint(name, path)));
    }
    CheckMost(map.members.size(), node.max_properties, "entries", map.at, path);
    for (const Member& member : map.members) {
      const SchemaNode* child = node.Property(member.key);
      if (child != nullptr) Check(*child, member.value, Child(path, member.key));
    }
  }

  static std::string RequiredHint(std::string_view name, std::string_view path) {
    if (path.ends_with("spec") && name == "inputs")
      return ": name the topics to read, for example inputs: [{topic: orders}]";
    if (name == "topic") return ": name the Kafka topic, for example topic: orders";
    if (path.ends_with("create") && name == "partitions")
      return ": say how many the topic shall have, for example partitions: 4";
    return "";
  }

  void CheckMost(size_t count, std::optional<int64_t> most, std::string_view what, Position at, std::string_view path) {
    if (most && static_cast<int64_t>(count) > *most) {
      Error(at, path, StrCat("has ", count, " ", what, "; at most ", *most, " are allowed"));
    }
  }

  void CheckList(const SchemaNode& node, const Value& list, const std::string& path) {
    CheckMost(list.items.size(), node.max_items, "items", list.at, path);
    if (node.min_items && static_cast<int64_t>(list.items.size()) < *node.min_items) {
      Error(list.at, path, StrCat("must have at least ", *node.min_items, *node.min_items == 1 ? " item" : " items"));
    }
    absl::flat_hash_map<std::string, int> lines;
    for (size_t i = 0; i < list.items.size(); ++i) {
      const Value& item = list.items[i];
      Check(*node.items, item, Child(path, i));
      std::optional<std::string> identity = Identity(node, item);
      if (!identity) continue;
      auto [known, is_new] = lines.emplace(*identity, item.at.line);
      if (is_new) continue;
      Error(item.at, Child(path, i),
            StrCat(node.list_set ? Describe(item) : *identity, " is there twice, first in line ", known->second,
                   ": remove one"));
    }
  }

  // What no other item of the list may have; nullopt when all are welcome.
  static std::optional<std::string> Identity(const SchemaNode& list, const Value& item) {
    if (list.list_set) return ToCanonicalJson(item);
    if (list.list_map_keys.empty() || !item.is_map()) return std::nullopt;
    std::string identity;
    for (const std::string& key : list.list_map_keys) {
      const Value* value = item.Find(key);
      if (value == nullptr || !IsScalar(*value)) return std::nullopt;
      StrAppend(&identity, identity.empty() ? "" : ", ", key, " ", value->text);
    }
    return identity;
  }

  void CheckString(const SchemaNode& node, const Value& value, const std::string& path) {
    if (!node.enum_values.empty()) return CheckEnum(node, value, path);
    int64_t length = CharacterCount(value.text);
    if (node.min_length && length < *node.min_length) {
      return Error(value.at, path,
                   length == 0 ? "must not be empty" : StrCat("must have at least ", *node.min_length, " characters"));
    }
    if (node.max_length && length > *node.max_length) {
      return Error(value.at, path,
                   StrCat("is ", length, " characters long; at most ", *node.max_length, " are allowed"));
    }
    if (node.pattern.empty() || MatchesPattern(node.pattern, value.text)) return;
    Error(value.at, path,
          node.is_duration() ? StrCat("must be a duration, but is ", Describe(value), ": ", ExplainDuration(value.text))
                             : StrCat("must be ", PatternMeaning(node.pattern), ", but is ", Describe(value)));
  }

  void CheckEnum(const SchemaNode& node, const Value& value, const std::string& path) {
    for (const std::string& word : node.enum_values) {
      if (word == value.text) return;
    }
    std::optional<std::string> near = Suggest(value.text, node.enum_values);
    Error(value.at, path,
          StrCat("must be ", Alternatives(node.enum_values), ", but is ", Describe(value),
                 near ? StrCat(": did you mean ", *near, "?") : std::string()));
  }

  void CheckInteger(const SchemaNode& node, const Value& value, const std::string& path) {
    if (node.type == Type::kIntOrString) {
      if (!node.pattern.empty() && !MatchesPattern(node.pattern, StrCat(value.integer))) {
        Error(value.at, path, StrCat("must be ", PatternMeaning(node.pattern), ", but is ", Describe(value)));
      }
      return;
    }
    bool is_32 = node.format == "int32";
    int64_t low =
        node.minimum.value_or(is_32 ? std::numeric_limits<int32_t>::min() : std::numeric_limits<int64_t>::min());
    int64_t high =
        node.maximum.value_or(is_32 ? std::numeric_limits<int32_t>::max() : std::numeric_limits<int64_t>::max());
    if (value.integer < low || value.integer > high) {
      Error(value.at, path, StrCat("must be between ", low, " and ", high, ", but is ", value.integer));
    }
  }

  void CheckBounds(const SchemaNode& node, const Value& value, const std::string& path) {
    for (const SchemaRule& rule : node.rules) {
      std::optional<Bounds> bounds = ParseBounds(rule);
      if (!bounds) continue;
      if (!IsWithin(*bounds, value.is_string() ? value.text : StrCat(value.integer))) {
        Error(value.at, path, StrCat(rule.message, ", but is ", value.text), Judge::kCel);
      }
    }
  }

  static bool IsWithin(const Bounds& bounds, const std::string& text) {
    switch (bounds.type) {
      case Bounds::Type::kDuration: {
        std::optional<absl::Duration> duration = ParseDuration(text);
        return duration && *duration >= *ParseDuration(bounds.low) && *duration <= *ParseDuration(bounds.high);
      }
      case Bounds::Type::kQuantity: {
        std::optional<int64_t> quantity = ParseQuantity(text);
        return quantity && *quantity >= *ParseQuantity(bounds.low) && *quantity <= *ParseQuantity(bounds.high);
      }
      case Bounds::Type::kTimestamp: {
        auto parse = [](const std::string& from, absl::Time* time) {
          std::string error;
          return absl::ParseTime(absl::RFC3339_full, from, time, &error);
        };
        absl::Time time, low, high;
        return parse(text, &time) && parse(bounds.low, &low) && parse(bounds.high, &high) && time >= low &&
               time <= high;
      }
    }
    return false;
  }

  Document& document_;
  size_t errors_ = 0;
};

}  // namespace

void CheckSchema(Document& document) {
  const SchemaNode& schema = StreamProcessorSchema();
  Checker checker(document);
  const Value* spec = document.spec();
  if (spec != nullptr) return checker.Check(*schema.Property("spec"), *spec, document.SpecPath());
  auto empty = document.empty_fields.find(document.SpecPath());
  document.findings.Error(Judge::kSchema, empty == document.empty_fields.end() ? document.root.at : empty->second,
                          document.SpecPath(),
                          "is required: what to run, for example spec: {inputs: [{topic: orders}]}");
}

}  // namespace millstream::spec
