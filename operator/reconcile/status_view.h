#ifndef MILLSTREAM_OPERATOR_RECONCILE_STATUS_VIEW_H_
#define MILLSTREAM_OPERATOR_RECONCILE_STATUS_VIEW_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "operator/model/next_steps.h"
#include "operator/model/observation.h"
#include "operator/model/processor.h"
#include "operator/reconcile/pod_trouble.h"
#include "operator/reconcile/problem.h"
#include "operator/reconcile/topics_job.h"

namespace millstream::reconcile {

// What a pass came to know of one processor, as far as its status tells of it.
struct StatusInput {
  Json processor;                         // as read: metadata, and the status before
  std::optional<model::Processor> model;  // nullopt: its manifest cannot be read
  std::string operator_version;
  Problem problem;                    // the worst; none: exists() is false
  std::optional<TopicsState> topics;  // nullopt: not looked at, so it stays what it was
  model::Observation seen;
  std::optional<model::Decision> decision;  // nullopt: nothing was decided
  std::optional<PodTrouble> trouble;        // of the first pod that has one
  bool held_back = false;                   // annotation millstream.dev/pause-reconciliation
  Json autoscale;                           // status.autoscale; null: the processor does not scale by itself
  absl::Time now;
};

// The whole status as it should be. Pure. Numbers that move all the time are in lag and restore only, never in a
// message: conditions are written at once when they differ (model/status.h).
Json StatusOf(const StatusInput& input);

// Whether a pod became ready within the last minute and its sidecar has not been heard yet: then it soon will be, and
// until then nobody should take the status for complete. A sidecar that cannot be reached is not waited for longer.
bool AwaitsReports(const model::Observation& seen, absl::Time now);

// What condition Ready is in a status: status, reason and message; empty texts where there is none.
struct ReadyWas {
  std::string status, reason, message;
};
ReadyWas ReadyIn(const Json& status);

}  // namespace millstream::reconcile

#endif  // MILLSTREAM_OPERATOR_RECONCILE_STATUS_VIEW_H_
