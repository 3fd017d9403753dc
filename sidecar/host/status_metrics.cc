#include "sidecar/host/status_metrics.h"

#include <limits>
#include <set>

namespace millstream::host {
namespace {

Gauge* Tasks(MetricsRegistry* registry, const std::string& processor, const std::string& state) {
  return registry->GetGauge("millstream_tasks", "Tasks of this process by state: running, restoring, stopped.",
                            {{"processor", processor}, {"state", state}});
}

}  // namespace

StatusMetrics::StatusMetrics(MetricsRegistry* registry, const std::string& processor)
    : registry_(registry),
      processor_(processor),
      running_(Tasks(registry, processor, "running")),
      restoring_(Tasks(registry, processor, "restoring")),
      stopped_(Tasks(registry, processor, "stopped")),
      lag_seconds_(registry->GetGauge(
          "millstream_lag_seconds",
          "Age of the oldest input record that waits, by its timestamp; NaN while none that waits is read.",
          {{"processor", processor}})),
      drained_(registry->GetGauge("millstream_drained",
                                  "1 while this process is out of its group by order, without tasks.",
                                  {{"processor", processor}})) {}

void StatusMetrics::Update(int running, int restoring, int stopped, const std::vector<Condition>& conditions) {
  running_->Set(running);
  restoring_->Set(restoring);
  stopped_->Set(stopped);
  std::set<std::string> now;
  for (const Condition& condition : conditions) now.insert(condition.reason);
  absl::MutexLock lock(&mutex_);
  for (const std::string& reason : now) {
    Gauge*& gauge = conditions_[reason];
    if (gauge != nullptr) continue;
    gauge = registry_->GetGauge("millstream_condition",
                                "1 while this condition of the processor holds; /v1/tasks has its message.",
                                {{"processor", processor_}, {"reason", reason}});
  }
  for (const auto& [reason, gauge] : conditions_) gauge->Set(now.contains(reason) ? 1 : 0);
}

void StatusMetrics::UpdateMember(const std::optional<absl::Duration>& lag_time, bool drained) {
  lag_seconds_->Set(lag_time ? absl::ToDoubleSeconds(*lag_time) : std::numeric_limits<double>::quiet_NaN());
  drained_->Set(drained ? 1 : 0);
}

}  // namespace millstream::host
