#include <cmath>

#include "common/spec/document.h"

namespace millstream::spec {
namespace {

class Defaulter {
 public:
  explicit Defaulter(std::map<std::string, Position>& empty_fields) : empty_fields_(empty_fields) {}

  void Apply(const SchemaNode& node, Value& value, const std::string& path) {
    if (node.preserve_unknown) return;
    if (value.is_list() && node.items) {
      for (size_t i = 0; i < value.items.size(); ++i) Apply(*node.items, value.items[i], Child(path, i));
    } else if (value.is_map() && node.type == SchemaNode::Type::kObject) {
      ApplyToMap(node, value, path);
    } else if (node.type == SchemaNode::Type::kInteger && value.kind == Value::Kind::kDouble) {
      MakeInteger(value);
    }
  }

 private:
  void ApplyToMap(const SchemaNode& node, Value& map, const std::string& path) {
    // `key:` without a value means "not set", as it does to the API server.
    std::erase_if(map.members, [&](const Member& member) {
      if (!member.value.is_null() || node.Property(member.key) == nullptr) return false;
      empty_fields_[Child(path, member.key)] = member.key_at;
      return true;
    });
    for (const auto& [name, property] : node.properties) {
      if (property.default_value && map.Find(name) == nullptr) {
        auto empty = empty_fields_.find(Child(path, name));
        map.Add(name, Placed(*property.default_value, empty == empty_fields_.end() ? map.at : empty->second));
      }
    }
    for (Member& member : map.members) {
      const SchemaNode* child = node.Property(member.key);
      if (child != nullptr) Apply(*child, member.value, Child(path, member.key));
    }
  }

  static Value Placed(Value value, Position at) {
    value.at = at;
    for (Value& item : value.items) item = Placed(std::move(item), at);
    for (Member& member : value.members) {
      member.key_at = at;
      member.value = Placed(std::move(member.value), at);
    }
    return value;
  }

  static void MakeInteger(Value& value) {
    constexpr double kExact = 9007199254740992.0;  // 2^53: beyond it a double is no exact integer
    if (std::trunc(value.number) != value.number || std::abs(value.number) > kExact) return;
    value.kind = Value::Kind::kInt;
    value.integer = static_cast<int64_t>(value.number);
  }

  std::map<std::string, Position>& empty_fields_;
};

}  // namespace

void ApplySchemaDefaults(Document& document) {
  Defaulter defaulter(document.empty_fields);
  defaulter.Apply(StreamProcessorSchema(), document.root, document.prefix);
}

}  // namespace millstream::spec
