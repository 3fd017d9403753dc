#include "operator/reconcile/finalizer.h"

#include <string>
#include <utility>

#include "common/base/status.h"

namespace millstream::reconcile {

bool HasFinalizer(const Json& processor) {
  const Json* finalizers = kube::Find(processor, {"metadata", "finalizers"});
  if (finalizers == nullptr || !finalizers->is_array()) return false;
  for (const Json& finalizer : *finalizers) {
    if (finalizer == std::string(kTopicsFinalizer)) return true;
  }
  return false;
}

absl::StatusOr<Json> SetFinalizer(kube::Client* client, World* world, const Json& processor, bool wanted) {
  if (HasFinalizer(processor) == wanted) return processor;
  Json finalizers = Json::array();
  if (const Json* before = kube::Find(processor, {"metadata", "finalizers"}); before != nullptr && before->is_array()) {
    for (const Json& finalizer : *before) {
      if (finalizer != std::string(kTopicsFinalizer)) finalizers.push_back(finalizer);
    }
  }
  if (wanted) finalizers.push_back(std::string(kTopicsFinalizer));
  // The list as a whole, so only over the version it was read from.
  const Json patch = {
      {"metadata", {{"finalizers", std::move(finalizers)}, {"resourceVersion", kube::ResourceVersionOf(processor)}}}};
  absl::StatusOr<Json> changed = client->Patch(kube::kStreamProcessors, kube::KeyOf(processor), patch);
  if (!changed.ok()) return changed.status();
  world->Learn(kube::kStreamProcessors, *changed);
  return changed;
}

}  // namespace millstream::reconcile
