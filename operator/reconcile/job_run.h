#ifndef MILLSTREAM_OPERATOR_RECONCILE_JOB_RUN_H_
#define MILLSTREAM_OPERATOR_RECONCILE_JOB_RUN_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "operator/kube/json.h"

namespace millstream::reconcile {

// What `millstream-sidecar topics` said in its termination message (docs/reference/cli.md).
struct TopicsVerdict {
  bool known = false;  // false: there is none, or it cannot be read
  bool ok = false;
  std::string reason, message;
  bool retry = false;  // trying again may help with nothing changed
  int tasks = 0;       // 0: not known
};
TopicsVerdict ReadVerdict(const std::string& termination_message);

// A Job of the operator, from the objects as the API server gives them. A plain value.
struct JobRun {
  enum class State { kRunning, kSucceeded, kFailed };
  State state = State::kRunning;
  absl::Time finished = absl::InfiniteFuture();
  std::string why_failed;  // the Job controller's words
  int attempt = 1;         // annotation millstream.dev/attempt
  TopicsVerdict verdict;
  // Of its newest pod, empty where there is none: what it waits for, or how it ended without a verdict.
  std::string pod, pod_uid, pod_reason, pod_message;
  absl::Time pod_created = absl::InfiniteFuture();
};
// `pods`: those of the processor; the ones that belong to the Job are picked.
JobRun ReadJob(const kube::Json& job, const std::vector<kube::Json>& pods);

inline constexpr std::string_view kAttemptAnnotation = "millstream.dev/attempt";

// RFC 3339, as Kubernetes writes times; `otherwise` when it is none.
absl::Time TimeFrom(const std::string& text, absl::Time otherwise);

}  // namespace millstream::reconcile

#endif  // MILLSTREAM_OPERATOR_RECONCILE_JOB_RUN_H_
