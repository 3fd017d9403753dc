#ifndef MILLSTREAM_OPERATOR_RECONCILE_TOPICS_JOB_H_
#define MILLSTREAM_OPERATOR_RECONCILE_TOPICS_JOB_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "operator/model/children.h"
#include "operator/model/status.h"
#include "operator/reconcile/child_writer.h"
#include "operator/reconcile/job_run.h"
#include "operator/reconcile/mount_trouble.h"
#include "operator/reconcile/problem.h"
#include "operator/reconcile/world.h"

namespace millstream::reconcile {

// Where the topics of a processor stand.
struct TopicsState {
  bool ready = false;    // the workload may follow
  bool stalled = false;  // not ready, and a person has to do something
  std::string reason, message;
  Problem problem;  // the Job itself cannot be made
  int attempt = 1;  // of the Job under way
  absl::Duration look_again = absl::InfiniteDuration();

  model::Condition AsCondition() const;
};

// Runs the Jobs that make, check and delete the topics of processors (operator.md: the operator never opens Kafka). One
// for each manifest; what it said is kept in TopicsReady and, once the workload has followed, in the StatefulSet's
// manifest hash, so a Job that is gone after its hour is not run again. A failed one is made anew after 5 s, and
// twice that each time, at most 5 minutes: a topic, a right or a secret may be there by then. Thread-safe for different
// processors. All pointers outlive it.
class TopicsJobs {
 public:
  TopicsJobs(ChildWriter* writer, World* world, MountTrouble* mounts, const Clock* clock)
      : writer_(writer), world_(world), mounts_(mounts), clock_(clock) {}

  // `checked`: the workload that is there was made after a Job of the same manifest had said yes. `before`:
  // status.conditions.
  TopicsState Ensure(const model::Processor& processor, const model::ModelOptions& options, bool checked,
                     const Json& before);
  // Deletes the topics of a processor that goes. Ready when they are gone.
  TopicsState EnsureDeleted(const model::Processor& processor, const model::ModelOptions& options);
  // Jobs of the processor that are not of this name: those of former manifests.
  absl::Status RemoveOthers(const kube::ObjectKey& processor, const std::string& uid, const std::string& keep);

 private:
  TopicsState Run(const kube::ObjectKey& processor, Json job);
  TopicsState Make(Json job, int attempt, const std::string& gone = "");
  TopicsState Running(const JobRun& run, const kube::ObjectKey& job) const;
  TopicsState Failed(const JobRun& run, const Json& there, Json job);

  ChildWriter* const writer_;
  World* const world_;
  MountTrouble* const mounts_;
  const Clock* const clock_;
};

// How long after its end a failed Job is made anew. `attempt` from 1.
absl::Duration RetryDelay(int attempt);

}  // namespace millstream::reconcile

#endif  // MILLSTREAM_OPERATOR_RECONCILE_TOPICS_JOB_H_
