#ifndef MILLSTREAM_SIDECAR_HOST_STATUS_METRICS_H_
#define MILLSTREAM_SIDECAR_HOST_STATUS_METRICS_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/metrics.h"
#include "sidecar/host/conditions.h"

namespace millstream::host {

// What a processor's status says, as gauges: how many tasks are in which state, and which conditions hold. Alerts look
// at them. Thread-safe. The registry outlives it.
class StatusMetrics {
 public:
  StatusMetrics(MetricsRegistry* registry, const std::string& processor);
  // A condition that was there before and is not among these is 0 from now on.
  void Update(int running, int restoring, int stopped, const std::vector<Condition>& conditions);
  // `lag_time`: as EngineStatus has it. `drained`: out of the group by order.
  void UpdateMember(const std::optional<absl::Duration>& lag_time, bool drained);

 private:
  MetricsRegistry* const registry_;
  const std::string processor_;
  Gauge *const running_, *const restoring_, *const stopped_;
  Gauge *const lag_seconds_, *const drained_;
  absl::Mutex mutex_;
  // By reason: one of the words of conditions.h, or of a task's error, which begins with one.
  std::map<std::string, Gauge*> conditions_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millstream::host

#endif  // MILLSTREAM_SIDECAR_HOST_STATUS_METRICS_H_
