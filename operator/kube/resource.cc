#include "operator/kube/resource.h"

#include "common/base/strings.h"
#include "common/http/message.h"

namespace millstream::kube {

std::string Resource::ApiVersion() const { return group.empty() ? std::string(version) : StrCat(group, "/", version); }

std::string Resource::Name() const { return group.empty() ? std::string(plural) : StrCat(group, "/", plural); }

ObjectKey KeyOf(const Json& object) {
  return {TextAt(object, {"metadata", "namespace"}), TextAt(object, {"metadata", "name"})};
}

std::string UidOf(const Json& object) { return TextAt(object, {"metadata", "uid"}); }

std::string ResourceVersionOf(const Json& object) { return TextAt(object, {"metadata", "resourceVersion"}); }

bool IsOfKind(const Json& object, const Resource& resource) {
  return TextAt(object, {"apiVersion"}) == resource.ApiVersion() && TextAt(object, {"kind"}) == resource.kind;
}

std::string ControllerUidOf(const Json& object) {
  const Json* owners = Find(object, {"metadata", "ownerReferences"});
  if (owners == nullptr || !owners->is_array()) return "";
  for (const Json& owner : *owners) {
    if (BoolAt(owner, {"controller"})) return TextAt(owner, {"uid"});
  }
  return "";
}

std::string CollectionPath(const Resource& resource, std::string_view name_space) {
  std::string path = resource.group.empty() ? StrCat("/api/", resource.version)
                                            : StrCat("/apis/", resource.group, "/", resource.version);
  if (!name_space.empty()) StrAppend(&path, "/namespaces/", http::PercentEncode(name_space));
  StrAppend(&path, "/", resource.plural);
  return path;
}

std::string ObjectPath(const Resource& resource, const ObjectKey& key, std::string_view subresource) {
  std::string path = StrCat(CollectionPath(resource, key.name_space), "/", http::PercentEncode(key.name));
  if (!subresource.empty()) StrAppend(&path, "/", subresource);
  return path;
}

std::string Query(const std::vector<std::pair<std::string_view, std::string>>& parameters) {
  std::string query;
  for (const auto& [name, value] : parameters) {
    if (value.empty()) continue;
    StrAppend(&query, query.empty() ? "?" : "&", name, "=", http::PercentEncode(value));
  }
  return query;
}

}  // namespace millstream::kube
