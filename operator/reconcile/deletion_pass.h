#ifndef MILLSTREAM_OPERATOR_RECONCILE_DELETION_PASS_H_
#define MILLSTREAM_OPERATOR_RECONCILE_DELETION_PASS_H_

#include <string>

#include "absl/status/statusor.h"
#include "operator/reconcile/reconciler.h"
#include "operator/reconcile/status_view.h"

namespace millstream::reconcile {

// One pass over a processor that is being deleted. Without our finalizer there is nothing to do: its children are
// owned and garbage collection takes them. With it: the pods go first, then a Job deletes the internal topics, then the
// finalizer goes. It goes anyway after kPatience, at once where the namespace goes too, where the manifest cannot be
// read, and where the processor is deleted in the foreground (its ConfigMap goes before it, so no Job could run); an
// event then names the topics that stay.
class DeletionPass {
 public:
  static constexpr absl::Duration kPatience = absl::Minutes(10);

  DeletionPass(Reconciler* reconciler, ProcessorMemory* memory, const Json& processor, std::string id);

  absl::StatusOr<runtime::Pass> Run();

 private:
  absl::StatusOr<runtime::Pass> DeleteTopics(const model::Processor& processor);
  // `left` names what could not be done; empty: everything is done.
  absl::StatusOr<runtime::Pass> LetGo(const std::string& left);
  absl::StatusOr<runtime::Pass> Wait(const std::string& reason, const std::string& message, absl::Duration look_again);

  Reconciler* const reconciler_;
  ProcessorMemory* const memory_;
  const kube::ObjectKey key_;
  const std::string id_;
  StatusInput input_;
};

}  // namespace millstream::reconcile

#endif  // MILLSTREAM_OPERATOR_RECONCILE_DELETION_PASS_H_
