#include "sidecar/group/group_metrics.h"

namespace millstream::group {

GroupMetrics::GroupMetrics(MetricsRegistry* registry, const std::string& group) {
  if (registry == nullptr) return;
  const MetricLabels labels = {{"group", group}};
  heartbeat_seconds_ = registry->GetHistogram("millstream_group_heartbeat_seconds", "From a heartbeat to its answer.",
                                              labels, {0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10});
  generation_ = registry->GetGauge("millstream_group_generation", "The group's generation this member is in.", labels);
  members_ = registry->GetGauge("millstream_group_members", "Members of the group.", labels);
  problem_ =
      registry->GetGauge("millstream_group_problem", "1 while membership waits for a person; see the log.", labels);
  rebalances_ =
      registry->GetCounter("millstream_group_rebalances_total", "Generations this member has joined.", labels);
  assigned_ = registry->GetCounter("millstream_group_tasks_assigned_total", "Tasks received.", labels);
  revoked_ = registry->GetCounter("millstream_group_tasks_revoked_total", "Tasks given up by order.", labels);
  lost_ = registry->GetCounter("millstream_group_lost_total", "Times this member was expelled.", labels);
  vanished_ =
      registry->GetCounter("millstream_group_vanished_ids_total",
                           "Transactional ids of vanished members whose transactions this leader ended.", labels);
}

void GroupMetrics::Add(Counter* counter, size_t amount) {
  if (counter != nullptr) counter->Add(static_cast<double>(amount));
}

void GroupMetrics::OnGeneration(Generation generation, int members) {
  if (generation_ == nullptr) return;
  generation_->Set(generation.value());
  members_->Set(members);
  rebalances_->Add();
}

void GroupMetrics::OnProblem(bool there_is_one) {
  if (problem_ != nullptr) problem_->Set(there_is_one ? 1 : 0);
}

}  // namespace millstream::group
