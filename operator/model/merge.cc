#include "operator/model/merge.h"

#include <initializer_list>
#include <string>
#include <string_view>

#include "absl/strings/match.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::model {
namespace {

constexpr char kField[] = "spec.podTemplate.";

std::string TextOf(const Json& object, const char* key) {
  if (!object.is_object()) return "";
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// The list at that key; an empty one where there is none.
const Json& ListOf(const Json& object, const char* key) {
  static const Json* const none = new Json(Json::array());
  if (!object.is_object()) return *none;
  const auto found = object.find(key);
  return found != object.end() && found->is_array() ? *found : *none;
}

bool IsOurVolume(const std::string& name) {
  return name == kStateVolume || absl::StartsWith(name, ToAbsl(kVolumePrefix));
}

absl::Status Refuse(std::string_view field, std::string_view way_out) {
  return absl::InvalidArgumentError(StrCat(kField, field, " belongs to Millstream: ", way_out));
}

absl::Status CheckMetadata(const Processor& processor, const Json& metadata) {
  const Json ours = PodLabelsOf(processor);
  if (const auto labels = metadata.find("labels"); labels != metadata.end() && labels->is_object()) {
    for (const auto& [label, value] : labels->items()) {
      if (ours.contains(label)) {
        return Refuse(StrCat("metadata.labels[", label, "]"), "pods are found by it; choose another label");
      }
    }
  }
  if (const auto annotations = metadata.find("annotations");
      annotations != metadata.end() && annotations->is_object()) {
    for (const auto& [annotation, value] : annotations->items()) {
      if (absl::StartsWith(annotation, ToAbsl(kAnnotationPrefix))) {
        return Refuse(StrCat("metadata.annotations[", annotation, "]"), "choose another prefix than millstream.dev");
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckContainer(const std::string& list, const Json& container) {
  const std::string name = TextOf(container, "name");
  const std::string path = StrCat("spec.", list, "[", name, "]");
  if (name.empty()) return absl::InvalidArgumentError(StrCat(kField, "spec.", list, ": a container has no name"));
  for (const Json& variable : ListOf(container, "env")) {
    if (const std::string env = TextOf(variable, "name"); absl::StartsWith(env, "MILLSTREAM_")) {
      return Refuse(StrCat(path, ".env[", env, "]"), "leave it out");
    }
  }
  if (name == kWorkerContainer && list != "containers") return Refuse(path, "the worker is among containers");
  if (name != kSidecarContainer) return absl::OkStatus();
  for (const char* field :
       {"command", "args", "lifecycle", "restartPolicy", "startupProbe", "livenessProbe", "readinessProbe", "ports"}) {
    if (container.contains(field)) return Refuse(StrCat(path, ".", field), "leave it out");
  }
  if (container.contains("image")) return Refuse(path + ".image", "use spec.sidecar.image");
  return absl::OkStatus();
}

// By what an item of a list is found again; nullptr: the list is replaced.
const char* KeyOfList(std::string_view list) {
  if (list == "containers" || list == "initContainers" || list == "volumes" || list == "env") return "name";
  if (list == "volumeMounts") return "mountPath";
  return nullptr;
}

void Merge(Json& base, const Json& overrides);

void MergeList(Json& base, const Json& overrides, const char* key) {
  for (const Json& item : overrides) {
    const std::string wanted = TextOf(item, key);
    Json* found = nullptr;
    for (Json& there : base) {
      if (!wanted.empty() && TextOf(there, key) == wanted) found = &there;
    }
    if (found == nullptr) {
      base.push_back(item);
    } else if (item.contains("valueFrom") || item.contains("value")) {
      *found = item;  // a variable has one or the other
    } else {
      Merge(*found, item);
    }
  }
}

void Merge(Json& base, const Json& overrides) {
  for (const auto& [key, value] : overrides.items()) {
    if (value.is_null()) {
      base.erase(key);
      continue;
    }
    Json& place = base[key];
    const char* list_key = KeyOfList(key);
    if (value.is_array() && place.is_array() && list_key != nullptr) {
      MergeList(place, value, list_key);
    } else if (value.is_object() && place.is_object()) {
      Merge(place, value);
    } else {
      place = value;
    }
  }
}

}  // namespace

absl::Status CheckPodTemplate(const Processor& processor, const Json& overrides) {
  if (const auto metadata = overrides.find("metadata"); metadata != overrides.end() && metadata->is_object()) {
    MS_RETURN_IF_ERROR(CheckMetadata(processor, *metadata));
  }
  const auto found = overrides.find("spec");
  if (found == overrides.end() || !found->is_object()) return absl::OkStatus();
  const Json& spec = *found;
  for (const char* field : {"restartPolicy", "hostname", "subdomain"}) {
    if (spec.contains(field)) return Refuse(StrCat("spec.", field), "leave it out");
  }
  for (const char* list : {"containers", "initContainers", "volumes"}) {
    if (spec.contains(list) && !spec[list].is_array()) {
      return absl::InvalidArgumentError(StrCat(kField, "spec.", list, " must be a list"));
    }
  }
  for (const Json& volume : ListOf(spec, "volumes")) {
    if (const std::string name = TextOf(volume, "name"); IsOurVolume(name)) {
      return Refuse(StrCat("spec.volumes[", name, "]"), "choose another name; the volume for state is spec.storage");
    }
  }
  for (const char* list : {"containers", "initContainers"}) {
    for (const Json& container : ListOf(spec, list)) MS_RETURN_IF_ERROR(CheckContainer(list, container));
  }
  return absl::OkStatus();
}

Json MergePodTemplate(Json base, const Json& overrides) {
  if (overrides.is_object()) Merge(base, overrides);
  return base;
}

Json JobOverridesOf(const Processor& processor) {
  Json result = Json::object();
  const auto overrides = processor.spec.find("podTemplate");
  if (overrides == processor.spec.end() || !overrides->is_object()) return result;
  const auto take = [&](const char* part, std::initializer_list<const char*> fields) {
    const auto from = overrides->find(part);
    if (from == overrides->end() || !from->is_object()) return;
    for (const char* field : fields) {
      if (from->contains(field)) result[part][field] = (*from)[field];
    }
  };
  take("metadata", {"labels", "annotations"});
  take("spec",
       {"affinity", "dnsConfig", "dnsPolicy", "hostAliases", "imagePullSecrets", "nodeSelector", "priorityClassName",
        "runtimeClassName", "schedulerName", "securityContext", "serviceAccountName", "tolerations"});
  return result;
}

absl::Status CheckMounts(const Json& pod_template) {
  const auto spec = pod_template.find("spec");
  if (spec == pod_template.end()) return absl::OkStatus();
  for (const char* list : {"containers", "initContainers"}) {
    for (const Json& container : ListOf(*spec, list)) {
      const std::string name = TextOf(container, "name");
      if (name == kSidecarContainer) continue;
      for (const Json& mount : ListOf(container, "volumeMounts")) {
        const std::string volume = TextOf(mount, "name");
        if (!IsOurVolume(volume) || volume == "millstream-socket" || volume == "millstream-tmp") continue;
        return absl::InvalidArgumentError(StrCat("container ", name, " mounts ", volume,
                                                 ": state, secrets and manifest are for Millstream's container only"));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace millstream::model
