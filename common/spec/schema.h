#ifndef MILLSTREAM_COMMON_SPEC_SCHEMA_H_
#define MILLSTREAM_COMMON_SPEC_SCHEMA_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/spec/value.h"

namespace millstream::spec {

// A CEL rule of the resource definition. The API server evaluates the expression; here it is either bounds (below) or
// mirrored in rules_cel.cc under the same message.
struct SchemaRule {
  std::string expression;
  std::string message;
};

// A rule "TYPE(self) >= TYPE('low') && TYPE(self) <= TYPE('high')" over one scalar: read, not mirrored.
struct Bounds {
  enum class Type { kDuration, kQuantity, kTimestamp };
  Type type = Type::kDuration;
  std::string low;
  std::string high;
};

// One node of the OpenAPI schema in crds/streamprocessors.yaml, with the subset of keywords that file uses. Immutable.
struct SchemaNode {
  enum class Type { kAny, kObject, kArray, kString, kInteger, kNumber, kBoolean, kIntOrString };

  Type type = Type::kAny;
  std::map<std::string, SchemaNode, std::less<>> properties;
  std::unique_ptr<SchemaNode> additional;  // of a map
  std::unique_ptr<SchemaNode> items;       // of a list
  std::vector<std::string> required;
  std::vector<std::string> enum_values;
  std::vector<std::string> list_map_keys;  // no two items may have all of them equal
  bool list_set = false;                   // no two items may be equal
  bool preserve_unknown = false;
  std::optional<int64_t> min_length, max_length, min_items, max_items, max_properties, minimum, maximum;
  std::string pattern;
  std::string format;
  std::optional<Value> default_value;
  std::vector<SchemaRule> rules;

  // The property called `name`, or what the values of a map must be; nullptr when there is no such field.
  const SchemaNode* Property(std::string_view name) const;
  bool is_duration() const;
};

// The schema of the whole object, parsed on first use from the text that the build embedded. Thread-safe.
const SchemaNode& StreamProcessorSchema();

// A node at "inputs[].topic"-like steps below spec: {"inputs", "[]", "topic"}; nullptr when there is none.
const SchemaNode* FindNode(const SchemaNode& root, const std::vector<std::string>& steps);

// The bounds a rule means, when it is of that form.
std::optional<Bounds> ParseBounds(const SchemaRule& rule);

// Compact JSON of openAPIV3Schema without descriptions; made by embed_schema from crds/streamprocessors.yaml.
extern const char* const kEmbeddedSchema;

}  // namespace millstream::spec

#endif  // MILLSTREAM_COMMON_SPEC_SCHEMA_H_
