#ifndef MILLSTREAM_SIDECAR_GROUP_GROUP_METRICS_H_
#define MILLSTREAM_SIDECAR_GROUP_GROUP_METRICS_H_

#include <cstddef>
#include <string>

#include "common/base/ids.h"
#include "common/base/metrics.h"

namespace millstream::group {

// What a membership counts. `registry` outlives it and may be null: then nothing is counted. Thread-safe.
class GroupMetrics {
 public:
  GroupMetrics(MetricsRegistry* registry, const std::string& group);

  Histogram* heartbeat_seconds() const { return heartbeat_seconds_; }  // may be null
  void OnGeneration(Generation generation, int members);
  void OnAssigned(size_t tasks) { Add(assigned_, tasks); }
  void OnRevoked(size_t tasks) { Add(revoked_, tasks); }
  void OnVanished(size_t ids) { Add(vanished_, ids); }
  void OnLost() { Add(lost_, 1); }
  void OnProblem(bool there_is_one);

 private:
  static void Add(Counter* counter, size_t amount);

  Histogram* heartbeat_seconds_ = nullptr;
  Gauge* generation_ = nullptr;
  Gauge* members_ = nullptr;
  Gauge* problem_ = nullptr;
  Counter* rebalances_ = nullptr;
  Counter* assigned_ = nullptr;
  Counter* revoked_ = nullptr;
  Counter* lost_ = nullptr;
  Counter* vanished_ = nullptr;
};

}  // namespace millstream::group

#endif  // MILLSTREAM_SIDECAR_GROUP_GROUP_METRICS_H_
