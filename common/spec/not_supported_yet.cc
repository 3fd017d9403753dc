// Fields that are in the schema but whose feature is not built yet: refused by name, never ignored. One row each;
// whoever builds a feature deletes its row.

#include <algorithm>

#include "common/base/strings.h"
#include "common/spec/document.h"
#include "common/spec/duration.h"

namespace millstream::spec {
namespace {

struct Row {
  std::vector<std::string_view> path;  // below spec; "[]" stands for all items of a list
  std::string_view allowed;  // the one value that means the feature is not asked for; empty: any value asks for it
  std::string_view feature;
};

const std::vector<Row>& Rows() {
  static const std::vector<Row>* const rows = new std::vector<Row>{};  // none at present
  return *rows;
}

// Whether the value is as if the field were not there, or no value of the field at all (CheckSchema has refused that).
bool AsksForNothing(const Row& row, const Value& value) {
  if (value.is_list() && value.items.empty()) return true;
  if (row.allowed.empty()) return false;
  std::vector<std::string> steps = {"spec"};
  steps.insert(steps.end(), row.path.begin(), row.path.end());
  const SchemaNode* node = FindNode(StreamProcessorSchema(), steps);
  if (!value.is_string() || value.text == row.allowed) return true;
  if (node->is_duration()) {
    std::optional<absl::Duration> duration = ParseDuration(value.text);
    return !duration || duration == ParseDuration(row.allowed);
  }
  return std::find(node->enum_values.begin(), node->enum_values.end(), value.text) == node->enum_values.end();
}

void Walk(Document& document, const Row& row, size_t step, const Value& value, Position at, const std::string& path) {
  if (step == row.path.size()) {
    if (AsksForNothing(row, value)) return;
    document.findings.Error(
        Judge::kCode, at, path,
        StrCat("not supported yet: ", row.feature,
               row.allowed.empty() ? "; leave it out" : StrCat("; leave it out or write ", row.allowed)));
    return;
  }
  if (row.path[step] == "[]") {
    for (size_t i = 0; i < value.items.size(); ++i)
      Walk(document, row, step + 1, value.items[i], value.items[i].at, Child(path, i));
  } else if (const Member* member = value.FindMember(row.path[step])) {
    Walk(document, row, step + 1, member->value, member->key_at, Child(path, row.path[step]));
  }
}

}  // namespace

void RefuseUnsupported(Document& document) {
  if (document.spec() == nullptr) return;
  for (const Row& row : Rows()) Walk(document, row, 0, *document.spec(), document.spec()->at, document.SpecPath());
}

}  // namespace millstream::spec
