#ifndef MILLSTREAM_OPERATOR_RECONCILE_PROBLEM_H_
#define MILLSTREAM_OPERATOR_RECONCILE_PROBLEM_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace millstream::reconcile {

// What keeps a processor from being as its manifest says, for conditions and events.
struct Problem {
  std::string reason;   // one CamelCase word
  std::string message;  // the thing, the values that disagree, the way out
  // Nothing will change by itself: a person has to (condition Stalled). Else it is tried again (Reconciling).
  bool needs_person = true;
  // How the pass ends because of it: OK, or the error that decides when the next one is (runtime::Reconcile).
  absl::Status status;

  bool exists() const { return !reason.empty(); }
};

// Of an error of the API server about `what` ("StatefulSet totals"). INVALID_ARGUMENT is the manifest's fault and gets
// `refused` as its reason; PERMISSION_DENIED "Forbidden": a quota, an admission policy, a missing right; anything else
// "ApiServerError", which is tried again.
Problem ProblemOf(const absl::Status& status, std::string_view what, std::string_view refused);

}  // namespace millstream::reconcile

#endif  // MILLSTREAM_OPERATOR_RECONCILE_PROBLEM_H_
