#ifndef MILLSTREAM_OPERATOR_MODEL_WORKLOAD_VIEW_H_
#define MILLSTREAM_OPERATOR_MODEL_WORKLOAD_VIEW_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "operator/model/observation.h"
#include "operator/model/processor.h"

namespace millstream::model {

// Questions about a workload that every part of next_steps.h asks. Refers to what it was made from.
class WorkloadView {
 public:
  // `stateful_set` is StatefulSetOf(processor).
  WorkloadView(const Processor& processor, const Json& stateful_set, const Observation& observed, absl::Time now);

  const Processor& processor() const { return processor_; }
  const Observation& observed() const { return observed_; }
  absl::Time now() const { return now_; }
  int target() const { return processor_.replicas; }
  // Pods that the StatefulSet has now; without one, as many as were left.
  int current() const { return current_; }
  const std::string& template_hash() const { return template_hash_; }

  // A pod that is there and stays: nullptr when it is missing, ends or has failed.
  const PodSeen* Living(int ordinal) const;
  // It serves, and has for long enough to be believed.
  bool Available(int ordinal) const;
  // It was ready once, or holds tasks.
  bool EverReady(const PodSeen& pod) const;
  bool Outdated(const PodSeen& pod) const { return pod.template_hash != template_hash_; }
  // The user did not ask for what is different.
  bool OutdatedByOperator(const PodSeen& pod) const { return Outdated(pod) && pod.spec_hash == spec_hash_; }
  // The file system of its grown volume waits for a restart.
  bool FileSystemWaits(const PodSeen& pod) const;
  // Its sidecar says that it reads state back.
  bool Restores(const PodSeen& pod) const;
  // It was told to drain.
  bool ToldToDrain(const PodSeen& pod) const;
  bool Drained(const PodSeen& pod) const;
  // Not ready and silent for so long that its tasks are elsewhere.
  bool Gone(const PodSeen& pod) const;
  // Each task that it works on has a warm copy on another pod that serves and does not drain. False: not heard.
  bool WarmElsewhere(const PodSeen& pod) const;
  // Nothing is lost by its removal: there is none, it has drained, was never ready, or is gone.
  bool MayGo(int ordinal) const;
  // When the last pod became ready; InfinitePast: none is.
  absl::Time LastReady() const;
  std::vector<const SidecarReport*> FreshReports() const;

  std::string PodName(int ordinal) const;
  // "totals-1 cannot start: worker: ErrImagePull: not found": why a pod is not available, for people.
  std::string Describe(int ordinal) const;
  // Describe's pod waits for a person.
  bool NeedsPerson(int ordinal) const;

 private:
  const Processor& processor_;
  const Observation& observed_;
  const absl::Time now_;
  std::string template_hash_, spec_hash_;
  int current_ = 0;
};

}  // namespace millstream::model

#endif  // MILLSTREAM_OPERATOR_MODEL_WORKLOAD_VIEW_H_
