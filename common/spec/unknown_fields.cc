#include "common/base/strings.h"
#include "common/spec/document.h"
#include "common/spec/suggest.h"

namespace millstream::spec {
namespace {

// Where else in the schema a field of that name is. Whole parts a person would not mean are left out.
void FindElsewhere(const SchemaNode& node, const std::string& path, std::string_view name, int depth,
                   std::vector<std::string>& found) {
  constexpr int kDeepest = 4;
  if (depth > kDeepest) return;
  for (const auto& [key, child] : node.properties) {
    std::string child_path = Child(path, key);
    if (Suggest(name, {key}) == key && key.size() == name.size()) found.push_back(child_path);
    bool inside_container = path == "spec.container";
    if (child_path == "spec.podTemplate" || child_path == "status" || child_path == "metadata" || inside_container)
      continue;
    FindElsewhere(child, child_path, name, depth + 1, found);
    if (child.items) FindElsewhere(*child.items, StrCat(child_path, "[]"), name, depth + 1, found);
  }
}

std::string OneOf(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) StrAppend(&out, out.empty() ? "" : " or ", word);
  return out;
}

std::string WayOut(const SchemaNode& node, std::string_view path, std::string_view key) {
  if (path.ends_with("spec.container") && key == "name") {
    return "unknown field: the container is always called worker, leave the name out";
  }
  std::vector<std::string> known;
  for (const auto& [name, child] : node.properties) known.push_back(name);
  if (std::optional<std::string> near = Suggest(key, known)) return StrCat("unknown field: did you mean ", *near, "?");
  std::vector<std::string> elsewhere;
  FindElsewhere(StreamProcessorSchema(), "", key, 0, elsewhere);
  constexpr size_t kMostPlaces = 3;  // more are no help
  if (!elsewhere.empty() && elsewhere.size() <= kMostPlaces)
    return StrCat("unknown field: did you mean ", OneOf(elsewhere), "?");
  std::string list;
  constexpr size_t kMostListed = 12;
  for (const std::string& name : known) StrAppend(&list, list.empty() ? "" : ", ", name);
  if (known.empty()) return "unknown field: nothing can be set here, leave it out";
  if (known.size() > kMostListed) return "unknown field: check its spelling and its place, or leave it out";
  return StrCat("unknown field; known are ", list);
}

void Walk(const SchemaNode& node, Value& value, const std::string& path, Findings& findings) {
  if (node.preserve_unknown) return;
  if (value.is_list() && node.items) {
    for (size_t i = 0; i < value.items.size(); ++i) Walk(*node.items, value.items[i], Child(path, i), findings);
    return;
  }
  if (!value.is_map() || node.type != SchemaNode::Type::kObject) return;
  std::erase_if(value.members, [&](Member& member) {
    const SchemaNode* child = node.Property(member.key);
    std::string child_path = Child(path, member.key);
    if (child == nullptr) {
      findings.Error(Judge::kSchema, member.key_at, child_path, WayOut(node, path, member.key));
      return true;
    }
    Walk(*child, member.value, child_path, findings);
    return false;
  });
}

}  // namespace

void RefuseUnknownFields(Document& document) {
  const SchemaNode& schema = StreamProcessorSchema();
  std::erase_if(document.root.members, [&](Member& member) {
    if (member.key == "metadata") return false;  // CheckMetadata knows its fields
    std::string path = Child(document.prefix, member.key);
    const SchemaNode* child = schema.Property(member.key);
    if (child == nullptr) {
      document.findings.Error(Judge::kSchema, member.key_at, path, WayOut(schema, "", member.key));
      return true;
    }
    Walk(*child, member.value, path, document.findings);
    return false;
  });
}

}  // namespace millstream::spec
