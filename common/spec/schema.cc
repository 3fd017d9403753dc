#include "common/spec/schema.h"

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/spec/duration.h"
#include "common/spec/reader.h"

namespace millstream::spec {
namespace {

SchemaNode::Type ParseType(const Value& node) {
  if (BoolIn(&node, "x-kubernetes-int-or-string").value_or(false)) return SchemaNode::Type::kIntOrString;
  std::string_view type = StringIn(&node, "type").value_or("");
  if (type == "object") return SchemaNode::Type::kObject;
  if (type == "array") return SchemaNode::Type::kArray;
  if (type == "string") return SchemaNode::Type::kString;
  if (type == "integer") return SchemaNode::Type::kInteger;
  if (type == "number") return SchemaNode::Type::kNumber;
  if (type == "boolean") return SchemaNode::Type::kBoolean;
  MS_CHECK(type.empty());
  return SchemaNode::Type::kAny;
}

std::vector<std::string> Strings(const Value& node, std::string_view key) {
  std::vector<std::string> out;
  for (const Value& item : ItemsIn(&node, key)) out.push_back(item.text);
  return out;
}

SchemaNode ParseNode(const Value& value) {
  SchemaNode node;
  node.type = ParseType(value);
  for (const Member& property : MembersIn(&value, "properties")) {
    node.properties.emplace(property.key, ParseNode(property.value));
  }
  if (const Value* additional = value.Find("additionalProperties")) {
    node.additional = std::make_unique<SchemaNode>(ParseNode(*additional));
  }
  if (const Value* items = value.Find("items")) node.items = std::make_unique<SchemaNode>(ParseNode(*items));
  node.required = Strings(value, "required");
  node.enum_values = Strings(value, "enum");
  node.list_map_keys = Strings(value, "x-kubernetes-list-map-keys");
  node.list_set = StringIn(&value, "x-kubernetes-list-type") == "set";
  node.preserve_unknown = BoolIn(&value, "x-kubernetes-preserve-unknown-fields").value_or(false);
  node.min_length = IntIn(&value, "minLength");
  node.max_length = IntIn(&value, "maxLength");
  node.min_items = IntIn(&value, "minItems");
  node.max_items = IntIn(&value, "maxItems");
  node.max_properties = IntIn(&value, "maxProperties");
  node.minimum = IntIn(&value, "minimum");
  node.maximum = IntIn(&value, "maximum");
  node.pattern = std::string(StringIn(&value, "pattern").value_or(""));
  node.format = std::string(StringIn(&value, "format").value_or(""));
  if (const Value* default_value = value.Find("default")) node.default_value = *default_value;
  for (const Value& rule : ItemsIn(&value, "x-kubernetes-validations")) {
    node.rules.push_back(
        {std::string(StringIn(&rule, "rule").value_or("")), std::string(StringIn(&rule, "message").value_or(""))});
  }
  return node;
}

// The text between the `index`-th pair of single quotes.
std::string Quoted(std::string_view text, int index) {
  size_t start = 0;
  for (int i = 0; i <= index; ++i) {
    start = text.find('\'', start) + 1;
    size_t end = text.find('\'', start);
    if (i == index) return std::string(text.substr(start, end - start));
    start = end + 1;
  }
  return "";
}

}  // namespace

const SchemaNode* SchemaNode::Property(std::string_view name) const {
  auto found = properties.find(name);
  if (found != properties.end()) return &found->second;
  return additional.get();
}

bool SchemaNode::is_duration() const { return pattern == kDurationPattern; }

const SchemaNode& StreamProcessorSchema() {
  static const SchemaNode* const schema = [] {
    ReadResult result = ReadJson(kEmbeddedSchema);
    MS_CHECK(!result.error && result.documents.size() == 1);
    return new SchemaNode(ParseNode(result.documents.front()));  // lives as long as the process
  }();
  return *schema;
}

const SchemaNode* FindNode(const SchemaNode& root, const std::vector<std::string>& steps) {
  const SchemaNode* node = &root;
  for (const std::string& step : steps) {
    node = step == "[]" ? node->items.get() : node->Property(step);
    if (node == nullptr) return nullptr;
  }
  return node;
}

std::optional<Bounds> ParseBounds(const SchemaRule& rule) {
  Bounds bounds;
  bounds.low = Quoted(rule.expression, 0);
  bounds.high = Quoted(rule.expression, 1);
  auto is = [&](std::string_view type) {
    return rule.expression == StrCat(type, "(self) >= ", type, "('", bounds.low, "') && ", type, "(self) <= ", type,
                                     "('", bounds.high, "')");
  };
  if (is("duration")) return bounds;
  bounds.type = Bounds::Type::kTimestamp;
  if (is("timestamp")) return bounds;
  bounds.type = Bounds::Type::kQuantity;
  if (rule.expression == StrCat("quantity(string(self)).compareTo(quantity('", bounds.low,
                                "')) >= 0 && quantity(string(self)).compareTo(quantity('", bounds.high, "')) <= 0")) {
    return bounds;
  }
  return std::nullopt;
}

}  // namespace millstream::spec
