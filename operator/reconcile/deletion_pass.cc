#include "operator/reconcile/deletion_pass.h"

#include <algorithm>
#include <utility>

#include "common/base/log_line.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "operator/kube/api_error.h"
#include "operator/reconcile/finalizer.h"
#include "operator/reconcile/status_writer.h"

namespace millstream::reconcile {
namespace {

constexpr absl::Duration kSoon = absl::Seconds(5);

bool IsForeground(const Json& processor) {
  const Json* finalizers = kube::Find(processor, {"metadata", "finalizers"});
  for (const Json& finalizer : finalizers != nullptr && finalizers->is_array() ? *finalizers : Json::array()) {
    if (finalizer == "foregroundDeletion") return true;
  }
  return false;
}

std::string TopicsOf(const model::Processor& processor) {
  std::string list;
  for (const spec::InternalTopic& topic : spec::InternalTopicsOf(processor.typed())) {
    StrAppend(&list, list.empty() ? "" : ", ", topic.topic);
  }
  return list;
}

}  // namespace

DeletionPass::DeletionPass(Reconciler* reconciler, ProcessorMemory* memory, const Json& processor, std::string id)
    : reconciler_(reconciler), memory_(memory), key_(kube::KeyOf(processor)), id_(std::move(id)) {
  input_.processor = processor;
  input_.operator_version = reconciler_->options_.model.operator_version;
  input_.now = reconciler_->around_.clock->WallTime();
}

absl::StatusOr<runtime::Pass> DeletionPass::Run() {
  if (!HasFinalizer(input_.processor)) return runtime::Pass();
  // Read anew: the index may have dropped it already, and what was deleted is not edited any more.
  absl::StatusOr<spec::Manifest> manifest = ReadProcessor(input_.processor);
  if (!manifest.ok()) return LetGo("its manifest cannot be read, so nobody knows which topics are its own");
  absl::StatusOr<model::Processor> processor = model::MakeProcessor(*std::move(manifest), memory_->uid, "");
  if (!processor.ok()) return LetGo(std::string(processor.status().message()));
  input_.model = *processor;
  if (processor->typed().internal_topics.when_deleted != spec::DeletionPolicy::kDelete) return LetGo("");
  const std::string topics = TopicsOf(*processor);
  if (topics.empty()) return LetGo("");
  if (reconciler_->around_.manifests->ConflictOf(key_)) {
    return LetGo("another processor has the same group or topics: they are not deleted");
  }
  if (IsForeground(input_.processor)) {
    return LetGo(
        StrCat("it is deleted in the foreground, which takes away what a Job needs; topics that stay: ", topics));
  }
  const absl::Time since = TimeFrom(kube::TextAt(input_.processor, {"metadata", "deletionTimestamp"}), input_.now);
  if (input_.now - since > kPatience) {
    return LetGo(
        StrCat("it could not be done within ", absl::FormatDuration(kPatience), "; topics that stay: ", topics));
  }
  return DeleteTopics(*processor);
}

absl::StatusOr<runtime::Pass> DeletionPass::DeleteTopics(const model::Processor& processor) {
  World* const world = reconciler_->around_.world;
  // A running group would make its topics anew.
  const Json set = world->Get(kube::kStatefulSets, key_);
  if (!set.is_null() && kube::ControllerUidOf(set) == memory_->uid) {
    MS_RETURN_IF_ERROR(reconciler_->writer_.Remove(kube::kStatefulSets, set));
  }
  for (const Json& pod : world->Of(kube::kPods, key_)) {
    if (kube::TextAt(pod, {"metadata", "labels", "app.kubernetes.io/component"}) != "processor") continue;
    return Wait("Deleting", StrCat("pod ", kube::KeyOf(pod).name, " is to end before the topics are deleted"), kSoon);
  }
  const TopicsState state = reconciler_->topics_.EnsureDeleted(processor, reconciler_->options_.model);
  if (state.ready) return LetGo("");
  if (kube::IsNamespaceTerminating(state.problem.status)) {
    return LetGo(StrCat("the namespace goes too; topics that stay: ", TopicsOf(processor)));
  }
  if (!state.problem.status.ok() && !state.problem.needs_person) return state.problem.status;
  return Wait(state.reason, state.message, std::min(state.look_again, absl::Seconds(30)));
}

absl::StatusOr<runtime::Pass> DeletionPass::Wait(const std::string& reason, const std::string& message,
                                                 absl::Duration look_again) {
  input_.problem = {reason, StrCat("the processor is being deleted: ", message), false, absl::OkStatus()};
  Json after;
  MS_RETURN_IF_ERROR(WriteStatusIfNews(reconciler_->around_, input_, memory_, &after));
  return runtime::Pass{std::max(look_again, absl::Seconds(1))};
}

absl::StatusOr<runtime::Pass> DeletionPass::LetGo(const std::string& left) {
  if (!left.empty()) {
    LogWarning("topics are not deleted", {{"object", key_.Text()}, {"reconcile", id_}, {"why", left}});
    reconciler_->events_.Record(
        input_.processor, {true, "TopicsNotDeleted", "Delete", StrCat("internal topics were not deleted: ", left)});
  }
  const absl::StatusOr<Json> changed =
      SetFinalizer(reconciler_->around_.client, reconciler_->around_.world, input_.processor, false);
  if (!changed.ok() && !absl::IsNotFound(changed.status())) return changed.status();
  return runtime::Pass();
}

}  // namespace millstream::reconcile
