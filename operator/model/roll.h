#ifndef MILLSTREAM_OPERATOR_MODEL_ROLL_H_
#define MILLSTREAM_OPERATOR_MODEL_ROLL_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "operator/model/next_steps.h"
#include "operator/model/workload_view.h"

namespace millstream::model {

// The part of next_steps.h that replaces pods which are there.

// What is replaced without waiting for anything, because it serves nothing: outdated pods that never were ready or are
// broken, and pods whose volume is lost.
struct Repairs {
  std::vector<Step> steps;
  std::vector<int> ordinals;  // of the pods that are replaced
};
Repairs RepairsOf(const WorkloadView& view);

// The rolling update's next move.
struct Roll {
  std::vector<Step> steps;      // at most one
  std::optional<int> draining;  // this pod is to be told to drain, or stays told
  std::string drain_note;       // it is news that it shall: one sentence
  std::string reason, message;  // empty: nothing to roll
  bool stuck = false;
  bool operator_roll = false;
  absl::Duration look_again = absl::InfiniteDuration();
};
Roll RollOf(const WorkloadView& view, const RollLimits& limits);

}  // namespace millstream::model

#endif  // MILLSTREAM_OPERATOR_MODEL_ROLL_H_
