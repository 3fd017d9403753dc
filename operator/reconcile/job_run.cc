#include "operator/reconcile/job_run.h"

#include "absl/strings/numbers.h"
#include "common/base/strings.h"
#include "operator/kube/resource.h"

namespace millstream::reconcile {
namespace {

using kube::Json;

// The condition of that type that is True; nullptr: none.
const Json* TrueCondition(const Json& object, std::string_view type) {
  const Json* conditions = kube::Find(object, {"status", "conditions"});
  if (conditions == nullptr || !conditions->is_array()) return nullptr;
  for (const Json& condition : *conditions) {
    if (kube::TextAt(condition, {"type"}) == type && kube::TextAt(condition, {"status"}) == "True") return &condition;
  }
  return nullptr;
}

void ReadContainer(const Json& pod, JobRun* run) {
  const Json* statuses = kube::Find(pod, {"status", "containerStatuses"});
  if (statuses == nullptr || !statuses->is_array()) return;
  for (const Json& status : *statuses) {
    if (const Json* waiting = kube::Find(status, {"state", "waiting"})) {
      run->pod_reason = kube::TextAt(*waiting, {"reason"});
      run->pod_message = kube::TextAt(*waiting, {"message"});
    }
    const Json* ended = kube::Find(status, {"state", "terminated"});
    if (ended == nullptr) continue;
    const std::string message = kube::TextAt(*ended, {"message"});
    run->verdict = ReadVerdict(message);
    run->pod_reason = kube::TextAt(*ended, {"reason"});
    run->pod_message = message.empty() ? StrCat("exit code ", kube::IntAt(*ended, {"exitCode"})) : message;
  }
}

void ReadNewestPod(const std::vector<Json>& pods, const std::string& job_uid, JobRun* run) {
  const Json* newest = nullptr;
  std::string created;
  for (const Json& pod : pods) {
    if (kube::ControllerUidOf(pod) != job_uid) continue;
    const std::string time = kube::TextAt(pod, {"metadata", "creationTimestamp"});
    if (newest != nullptr && time < created) continue;
    newest = &pod;
    created = time;
  }
  if (newest == nullptr) return;
  run->pod = kube::TextAt(*newest, {"metadata", "name"});
  run->pod_uid = kube::UidOf(*newest);
  run->pod_created = TimeFrom(created, absl::InfiniteFuture());
  const Json* conditions = kube::Find(*newest, {"status", "conditions"});
  for (const Json& condition : conditions != nullptr && conditions->is_array() ? *conditions : Json::array()) {
    if (kube::TextAt(condition, {"type"}) != "PodScheduled" || kube::TextAt(condition, {"status"}) != "False") continue;
    run->pod_reason = kube::TextAt(condition, {"reason"}, "Unschedulable");
    run->pod_message = kube::TextAt(condition, {"message"});
  }
  ReadContainer(*newest, run);
}

}  // namespace

absl::Time TimeFrom(const std::string& text, absl::Time otherwise) {
  absl::Time time;
  return absl::ParseTime(absl::RFC3339_full, text, &time, nullptr) ? time : otherwise;
}

TopicsVerdict ReadVerdict(const std::string& termination_message) {
  TopicsVerdict verdict;
  const absl::StatusOr<Json> said = kube::ParseJson(termination_message, "the verdict");
  if (!said.ok() || !said->is_object() || !said->contains("ok")) return verdict;
  verdict.known = true;
  verdict.ok = kube::BoolAt(*said, {"ok"});
  verdict.reason = kube::TextAt(*said, {"reason"}, verdict.ok ? "TopicsReady" : "TopicsNotReady");
  verdict.message = kube::TextAt(*said, {"message"});
  verdict.retry = kube::BoolAt(*said, {"retry"});
  verdict.tasks = static_cast<int>(kube::IntAt(*said, {"tasks"}));
  const Json* warnings = kube::Find(*said, {"warnings"});
  for (const Json& warning : warnings != nullptr && warnings->is_array() ? *warnings : Json::array()) {
    if (warning.is_string()) StrAppend(&verdict.message, "; ", warning.get<std::string>());
  }
  return verdict;
}

JobRun ReadJob(const Json& job, const std::vector<Json>& pods) {
  JobRun run;
  if (const Json* complete = TrueCondition(job, "Complete")) {
    run.state = JobRun::State::kSucceeded;
    run.finished = TimeFrom(kube::TextAt(*complete, {"lastTransitionTime"}), absl::InfinitePast());
  } else if (const Json* failed = TrueCondition(job, "Failed")) {
    run.state = JobRun::State::kFailed;
    run.finished = TimeFrom(kube::TextAt(*failed, {"lastTransitionTime"}), absl::InfinitePast());
    run.why_failed = kube::TextAt(*failed, {"message"});
  }
  int attempt = 0;
  if (absl::SimpleAtoi(kube::TextAt(job, {"metadata", "annotations", kAttemptAnnotation}), &attempt) && attempt > 0) {
    run.attempt = attempt;
  }
  ReadNewestPod(pods, kube::UidOf(job), &run);
  return run;
}

}  // namespace millstream::reconcile
