#ifndef MILLSTREAM_OPERATOR_RECONCILE_PROCESSOR_PASS_H_
#define MILLSTREAM_OPERATOR_RECONCILE_PROCESSOR_PASS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "operator/model/children.h"
#include "operator/model/next_steps.h"
#include "operator/reconcile/reconciler.h"
#include "operator/reconcile/status_view.h"

namespace millstream::reconcile {

// One pass over one processor: observe, plan, apply, tell. Used once, by one thread. `reconciler` and `memory` outlive
// it.
//
// Nothing of the workload is touched while the manifest cannot be read, an older processor has the group or a topic, a
// child's name is taken or the topics of a new manifest are not ready: the last good workload keeps running.
class ProcessorPass {
 public:
  ProcessorPass(Reconciler* reconciler, ProcessorMemory* memory, const Json& processor, std::string id);

  absl::StatusOr<runtime::Pass> Run();

 private:
  // Observe.
  void ReadManifest();
  void Observe();
  void AskSidecars(const std::vector<Json>& pods);
  void FindTrouble(const std::vector<Json>& pods);
  // Own deletions that the caches do not show yet. While there is one nothing new is decided about the workload, for
  // kStaleBound at most.
  bool AwaitsOwnRemovals();
  void Autoscale();
  bool TopicsWereChecked(const std::vector<Json>& pods) const;
  // Act. False: go no further, input_.problem or the topics say why.
  bool KeepFinalizer();
  bool KeepChildren(const std::vector<Json>& children);
  bool RemoveUnwanted();
  bool KeepTopics();
  void KeepWorkload(Json wanted_set);
  void ExecuteSteps();
  absl::Status Execute(const model::Step& step);
  // Makes the processor one more owner of its pods, so that they go with it if it goes before another StatefulSet has
  // adopted them.
  absl::Status KeepPodsOwned();
  absl::Status Removed(const model::Step& step, const absl::Status& status);
  void Settle(Problem problem);
  // Tell.
  absl::Status WriteStatus();
  void LookAgain(absl::Duration delay);

  Reconciler* const reconciler_;
  ProcessorMemory* const memory_;
  const kube::ObjectKey key_;
  const std::string id_;
  StatusInput input_;
  std::vector<Json> pods_;
  absl::Duration again_;
  absl::Status failed_;  // a write that is to be tried again
};

}  // namespace millstream::reconcile

#endif  // MILLSTREAM_OPERATOR_RECONCILE_PROCESSOR_PASS_H_
