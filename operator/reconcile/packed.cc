#include "operator/reconcile/packed.h"

#include <string>
#include <utility>

#include "common/base/status.h"
#include "operator/model/processor.h"
#include "operator/runtime/object_cache.h"

namespace millstream::reconcile {
namespace {

constexpr char kText[] = "packed";
constexpr char kInstance[] = "app.kubernetes.io/instance";

// Names and containers of a pod's specification are enough: the rest is in the StatefulSet.
void ShortenPod(Json* pod) {
  const auto spec = pod->find("spec");
  if (spec == pod->end() || !spec->is_object()) return;
  Json kept = Json::object();
  for (const char* field : {"nodeName", "terminationGracePeriodSeconds"}) {
    if (spec->contains(field)) kept[field] = (*spec)[field];
  }
  for (const char* list : {"containers", "initContainers"}) {
    const auto containers = spec->find(list);
    if (containers == spec->end() || !containers->is_array()) continue;
    Json& names = kept[list] = Json::array();
    for (const Json& container : *containers) {
      names.push_back({{"name", kube::TextAt(container, {"name"})}, {"image", kube::TextAt(container, {"image"})}});
    }
  }
  // Where its state is.
  const auto volumes = spec->find("volumes");
  for (const Json& volume : volumes != spec->end() && volumes->is_array() ? *volumes : Json::array()) {
    if (kube::TextAt(volume, {"name"}) == model::kStateVolume) kept["volumes"].push_back(volume);
  }
  *spec = std::move(kept);
}

}  // namespace

void Pack(const kube::Resource& resource, Json* object) {
  runtime::DropManagedFields(object);
  if (resource.kind == kube::kPods.kind) ShortenPod(object);
  Json metadata = Json::object();
  for (const char* field : {"name", "namespace", "uid", "resourceVersion", "generation"}) {
    if (const Json* value = kube::Find(*object, {"metadata", field})) metadata[field] = *value;
  }
  if (const std::string owner = kube::ControllerUidOf(*object); !owner.empty()) {
    metadata["ownerReferences"] = Json::array();
    metadata["ownerReferences"].push_back(Json{{"controller", true}, {"uid", owner}});
  }
  if (const std::string name = ProcessorNameOf(*object); !name.empty()) metadata["labels"] = {{kInstance, name}};
  *object =
      Json{{"metadata", std::move(metadata)}, {kText, object->dump(-1, ' ', false, Json::error_handler_t::replace)}};
}

Json Unpack(const Json& packed) {
  const auto text = packed.find(kText);
  MS_CHECK(text != packed.end() && text->is_string());
  return Json::parse(text->get_ref<const std::string&>());
}

std::string ProcessorNameOf(const Json& object) { return kube::TextAt(object, {"metadata", "labels", kInstance}); }

}  // namespace millstream::reconcile
