#ifndef MILLSTREAM_OPERATOR_MODEL_AUTOSCALE_H_
#define MILLSTREAM_OPERATOR_MODEL_AUTOSCALE_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "operator/model/processor.h"
#include "operator/model/sidecar_report.h"

namespace millstream::model {

// spec.autoscale.
struct AutoscaleBounds {
  int min_replicas = 1, max_replicas = 1;
  absl::Duration target_lag = absl::Seconds(20);
};
// nullopt: the processor does not scale by itself.
std::optional<AutoscaleBounds> AutoscaleBoundsOf(const Processor& processor);

// What was measured of a processor at one moment.
struct LoadSample {
  absl::Time time;
  int replicas = 0;     // pods that take part
  int tasks = 0;        // of the processor: more pods than that are idle; 0: not known
  bool steady = false;  // all pods ready, nothing restored or rolled, no move under way
  std::optional<int64_t> lag_records;
  std::optional<absl::Duration> lag;  // nullopt: not known; then it is records over the rate
  int64_t records = 0;                // processed, a counter that starts anew when tasks move
  int64_t bytes_left = 0;             // to restore, of all tasks together
};
LoadSample SampleOf(const TaskTotals& totals, int ready_replicas, bool steady, absl::Time now);

// What is remembered from sample to sample. In memory: a new operator begins with an empty one, and scales nothing in
// before it has watched for a whole window. A plain value.
struct AutoscaleMemory {
  int tasks = 0;                           // as last known
  std::deque<LoadSample> samples;          // the newest last, at most kMaxSamples
  std::optional<double> pod_rate;          // records a second of one pod that had enough to do
  std::optional<double> move_seconds;      // what the last change of replicas took until all was restored
  std::optional<absl::Time> moving_since;  // a change that is still under way
};

struct AutoscaleDecision {
  int replicas = 0;      // wanted: for status.autoscale.desiredReplicas
  std::string reason;    // why, in one sentence: for status.autoscale.reason and, when `changed`, the event
  bool changed = false;  // another number than before
};

// Decides from the newest sample and those before. `current` is status.autoscale.desiredReplicas, or spec.replicas when
// there is none yet; `last_change` its lastScaleTime (InfinitePast: never).
//
// Out: the lag is above target and grows or would not be made up in time, and has been for kOutWindow. By as many pods
// as the measured rate of one pod asks for (at most double), and only if the pods of today would not have caught up
// before the new ones have restored their state. In: the lag was below half the target for all of kInWindow and one pod
// fewer would be busy for at most kBusy of its time; one pod at a time. Never beyond the bounds or the tasks; bounds
// themselves hold at once.
AutoscaleDecision Autoscale(const AutoscaleBounds& bounds, int current, absl::Time last_change,
                            const LoadSample& sample, AutoscaleMemory* memory);

inline constexpr absl::Duration kOutWindow = absl::Seconds(30);  // one slow batch or poll is no reason
inline constexpr absl::Duration kInWindow = absl::Minutes(5);    // as the HorizontalPodAutoscaler's default
inline constexpr absl::Duration kCatchUp = absl::Minutes(5);     // so fast a lag shall be made up
inline constexpr double kBusy = 0.7;                             // leaves room to catch up
inline constexpr size_t kMaxSamples = 240;                       // ten minutes at 2.5 s

}  // namespace millstream::model

#endif  // MILLSTREAM_OPERATOR_MODEL_AUTOSCALE_H_
