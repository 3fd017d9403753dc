#include "common/base/strings.h"
#include "common/spec/document.h"
#include "common/spec/suggest.h"

namespace millstream::spec {
namespace {

constexpr size_t kMaxName = 52;  // a StatefulSet's pods carry its name, a hash and an ordinal within 63 characters
constexpr size_t kMaxLabel = 63;
constexpr size_t kMaxLabelPrefix = 253;

const std::vector<std::string>& KnownFields() {
  static const std::vector<std::string>* const fields = new std::vector<std::string>{"annotations",
                                                                                     "creationTimestamp",
                                                                                     "deletionGracePeriodSeconds",
                                                                                     "deletionTimestamp",
                                                                                     "finalizers",
                                                                                     "generateName",
                                                                                     "generation",
                                                                                     "labels",
                                                                                     "managedFields",
                                                                                     "name",
                                                                                     "namespace",
                                                                                     "ownerReferences",
                                                                                     "resourceVersion",
                                                                                     "selfLink",
                                                                                     "uid"};
  return *fields;
}

bool IsLower(char c) { return c >= 'a' && c <= 'z'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsAlnum(char c) { return IsLower(c) || IsDigit(c) || (c >= 'A' && c <= 'Z'); }

// RFC 1123 label; RFC 1035 if it also starts with a letter.
bool IsDnsLabel(std::string_view text, size_t most) {
  if (text.empty() || text.size() > most || text.front() == '-' || text.back() == '-') return false;
  for (char c : text) {
    if (!IsLower(c) && !IsDigit(c) && c != '-') return false;
  }
  return true;
}

// What labels are made of: letters, digits, `-`, `_`, `.`, first and last a letter or digit.
bool IsLabelText(std::string_view text) {
  if (text.empty() || text.size() > kMaxLabel || !IsAlnum(text.front()) || !IsAlnum(text.back())) return false;
  for (char c : text) {
    if (!IsAlnum(c) && c != '-' && c != '_' && c != '.') return false;
  }
  return true;
}

bool IsQualifiedKey(std::string_view key) {
  size_t slash = key.find('/');
  if (slash == std::string_view::npos) return IsLabelText(key);
  std::string_view prefix = key.substr(0, slash);
  if (prefix.size() > kMaxLabelPrefix) return false;
  while (true) {
    size_t dot = prefix.find('.');
    if (!IsDnsLabel(prefix.substr(0, dot), kMaxLabel)) return false;
    if (dot == std::string_view::npos) break;
    prefix.remove_prefix(dot + 1);
  }
  return IsLabelText(key.substr(slash + 1));
}

void CheckPairs(Document& document, const std::string& path, std::string_view field, bool label_values) {
  const Value* pairs = document.metadata()->Find(field);
  if (pairs == nullptr || pairs->is_null()) return;
  std::string map_path = Child(path, field);
  if (!pairs->is_map()) {
    return document.findings.Error(Judge::kSchema, pairs->at, map_path,
                                   StrCat("must be a map of texts, but is ", Describe(*pairs)));
  }
  for (const Member& pair : pairs->members) {
    std::string pair_path = Child(map_path, pair.key);
    if (!IsQualifiedKey(pair.key)) {
      document.findings.Error(
          Judge::kSchema, pair.key_at, pair_path,
          "the key must be letters, digits, `-`, `_` and `.`, at most 63, perhaps behind a domain and `/`");
    }
    if (!pair.value.is_string()) {
      bool scalar = !pair.value.is_list() && !pair.value.is_map();
      document.findings.Error(Judge::kSchema, pair.value.at, pair_path,
                              StrCat("must be a text, but is ", Describe(pair.value),
                                     scalar ? StrCat(": put it in quotes, \"", pair.value.text, "\"") : std::string()));
    } else if (label_values && !pair.value.text.empty() && !IsLabelText(pair.value.text)) {
      document.findings.Error(
          Judge::kSchema, pair.value.at, pair_path,
          "a label's value must be at most 63 letters, digits, `-`, `_` and `.`, first and last a letter or digit");
    }
  }
}

void CheckName(Document& document, const std::string& path) {
  const Value& metadata = *document.metadata();
  const Value* name = metadata.Find("name");
  std::string name_path = Child(path, "name");
  if (name == nullptr || name->is_null()) {
    bool generated = metadata.Find("generateName") != nullptr;
    return document.findings.Error(
        generated ? Judge::kCode : Judge::kSchema, metadata.at, name_path,
        generated ? "is required: group and topics are named after it, so generateName cannot be used"
                  : "is required: what to call the processor, for example name: order-totals");
  }
  if (!name->is_string()) {
    return document.findings.Error(Judge::kSchema, name->at, name_path,
                                   StrCat("must be a text, but is ", Describe(*name), ": put it in quotes"));
  }
  if (!IsDnsLabel(name->text, kMaxName) || !IsLower(name->text.front())) {
    document.findings.Error(Judge::kCel, name->at, name_path, StrCat(kNameRuleMessage, ", but is ", Describe(*name)));
  }
}

void CheckNamespace(Document& document, const std::string& path) {
  const Value* name_space = document.metadata()->Find("namespace");
  if (name_space == nullptr || name_space->is_null()) return;
  if (name_space->is_string() && IsDnsLabel(name_space->text, kMaxLabel)) return;
  document.findings.Error(
      Judge::kSchema, name_space->at, Child(path, "namespace"),
      StrCat("must be at most 63 lower-case letters, digits and hyphens, but is ", Describe(*name_space)));
}

}  // namespace

void CheckMetadata(Document& document) {
  std::string path = Child(document.prefix, "metadata");
  Value* metadata = document.root.Find("metadata");
  if (metadata == nullptr || metadata->is_null()) {
    return document.findings.Error(Judge::kSchema, document.root.at, path,
                                   "is required, for example metadata: {name: order-totals}");
  }
  if (!metadata->is_map()) {
    return document.findings.Error(Judge::kSchema, metadata->at, path,
                                   StrCat("must be a map, but is ", Describe(*metadata)));
  }
  for (const Member& member : metadata->members) {
    bool known = false;
    for (const std::string& field : KnownFields()) known = known || field == member.key;
    if (known) continue;
    std::optional<std::string> near = Suggest(member.key, KnownFields());
    document.findings.Error(
        Judge::kSchema, member.key_at, Child(path, member.key),
        near ? StrCat("unknown field: did you mean ", *near, "?") : "unknown field: does it belong under spec?");
  }
  CheckName(document, path);
  CheckNamespace(document, path);
  CheckPairs(document, path, "labels", true);
  CheckPairs(document, path, "annotations", false);
}

}  // namespace millstream::spec
