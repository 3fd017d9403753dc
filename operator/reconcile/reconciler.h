#ifndef MILLSTREAM_OPERATOR_RECONCILE_RECONCILER_H_
#define MILLSTREAM_OPERATOR_RECONCILE_RECONCILER_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/base/clock.h"
#include "common/base/metrics.h"
#include "operator/kube/client.h"
#include "operator/kube/event_recorder.h"
#include "operator/model/autoscale.h"
#include "operator/reconcile/child_writer.h"
#include "operator/reconcile/manifest_index.h"
#include "operator/reconcile/mount_trouble.h"
#include "operator/reconcile/rollout_slots.h"
#include "operator/reconcile/sidecar_reports.h"
#include "operator/reconcile/topics_job.h"
#include "operator/reconcile/world.h"
#include "operator/runtime/controller.h"

namespace millstream::reconcile {

struct ReconcilerOptions {
  model::ModelOptions model;
  std::string instance;  // of this operator, in events: the pod's name
  int max_concurrent_rollouts = 1;
};

// What everything in a pass works with. All outlive the reconciler.
struct Surroundings {
  kube::Client* client = nullptr;
  World* world = nullptr;
  ManifestIndex* manifests = nullptr;
  SidecarReports* sidecars = nullptr;
  const Clock* clock = nullptr;
  MetricsRegistry* metrics = nullptr;
};

// What is known of one processor from pass to pass, and lost with the term of a leader: nothing that matters.
struct ProcessorMemory {
  std::string uid;
  absl::Duration status_written = -absl::InfiniteDuration();  // monotonic
  model::AutoscaleMemory autoscale;
  // What was deleted or evicted and is in the caches as if nothing had happened.
  struct Removal {
    std::string name, uid;
    absl::Duration at;  // monotonic
  };
  std::vector<Removal> removals;
  // For the gauges: the condition's status by its type.
  std::map<std::string, std::string> conditions;
};

// Brings one processor at a time closer to what its manifest says, as far as the caches know the world
// (runtime::Reconcile). Thread-safe for different keys.
class Reconciler {
 public:
  Reconciler(ReconcilerOptions options, const Surroundings& surroundings);

  absl::StatusOr<runtime::Pass> Run(const std::string& key, const std::string& id);
  // A term is over.
  void Forget();
  void UpdateGauges();

 private:
  friend class ProcessorPass;
  friend class DeletionPass;

  ProcessorMemory* MemoryOf(const std::string& key, const std::string& uid);
  void ForgetProcessor(const std::string& key);
  // What processors claim whose manifests cannot be read since before this process knew them: their ConfigMaps have
  // the last good ones, which their workloads run.
  void RecallClaims();

  const ReconcilerOptions options_;
  const Surroundings around_;
  kube::EventRecorder events_;
  ChildWriter writer_;
  MountTrouble mounts_;
  TopicsJobs topics_;
  RolloutSlots rollouts_;
  absl::Mutex mutex_;
  std::map<std::string, std::unique_ptr<ProcessorMemory>> memories_ ABSL_GUARDED_BY(mutex_);  // by key
};

// A processor is looked at again so often though nothing has changed: its sidecars tell only when asked. A little more
// or less by its name, so that a thousand are spread out.
absl::Duration ResyncOf(const std::string& key);

inline constexpr std::string_view kPauseAnnotation = "millstream.dev/pause-reconciliation";
inline constexpr std::string_view kRestartedAnnotation = "millstream.dev/restartedAt";

}  // namespace millstream::reconcile

#endif  // MILLSTREAM_OPERATOR_RECONCILE_RECONCILER_H_
