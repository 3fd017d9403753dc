#include "operator/reconcile/topics_job.h"

#include <algorithm>
#include <utility>

#include "common/base/strings.h"

namespace millstream::reconcile {
namespace {

constexpr absl::Duration kFirstRetry = absl::Seconds(5);
constexpr absl::Duration kLastRetry = absl::Minutes(5);
constexpr int kMaxDoublings = 10;
// A Job may be known to have ended a moment before the last words of its pod are.
constexpr absl::Duration kVerdictPatience = absl::Seconds(5);
constexpr absl::Duration kLookAgain = absl::Seconds(5);
constexpr char kComponent[] = "app.kubernetes.io/component";

TopicsState Pending(std::string reason, std::string message, absl::Duration look_again = absl::InfiniteDuration()) {
  TopicsState state;
  state.reason = std::move(reason);
  state.message = std::move(message);
  state.look_again = look_again;
  return state;
}

TopicsState Ready(std::string reason, std::string message) {
  TopicsState state = Pending(std::move(reason), std::move(message));
  state.ready = true;
  return state;
}

TopicsState Broken(Problem problem) {
  TopicsState state = Pending(problem.reason, problem.message);
  state.stalled = problem.needs_person;
  state.problem = std::move(problem);
  return state;
}

const Json* ConditionIn(const Json& conditions, std::string_view type) {
  if (!conditions.is_array()) return nullptr;
  for (const Json& condition : conditions) {
    if (kube::TextAt(condition, {"type"}) == type) return &condition;
  }
  return nullptr;
}

// The message of TopicsReady while it is True.
std::string MessageBefore(const Json& conditions) {
  const Json* before = ConditionIn(conditions, "TopicsReady");
  return before != nullptr && kube::TextAt(*before, {"status"}) == "True" ? kube::TextAt(*before, {"message"}) : "";
}

// While a Job that failed is tried again, what it said the last time stays: else conditions, and who watches them,
// would go back and forth with every try.
void KeepWhatWasSaid(const Json& conditions, TopicsState* state) {
  const Json* before = ConditionIn(conditions, "TopicsReady");
  if (before == nullptr || kube::TextAt(*before, {"status"}) != "False") return;
  state->reason = kube::TextAt(*before, {"reason"}, state->reason);
  state->message = kube::TextAt(*before, {"message"}, state->message);
  const Json* stalled = ConditionIn(conditions, "Stalled");
  state->stalled = stalled != nullptr && kube::TextAt(*stalled, {"reason"}) == state->reason;
}

// Deletes instead of making: another name, one more argument.
Json AsDeletion(Json job, const model::Processor& processor) {
  job["metadata"]["name"] = StrCat(processor.typed().name, "-d-", model::ManifestHash(processor).substr(0, 8));
  Json& args = job["spec"]["template"]["spec"]["containers"][0]["args"];
  args.push_back("--delete");
  return job;
}

}  // namespace

model::Condition TopicsState::AsCondition() const {
  using Status = model::Condition::Status;
  return {"TopicsReady", ready ? Status::kTrue : Status::kFalse, reason, message};
}

absl::Duration RetryDelay(int attempt) {
  const int doublings = std::clamp(attempt - 1, 0, kMaxDoublings);
  return std::min(kLastRetry, kFirstRetry * (int64_t{1} << doublings));
}

TopicsState TopicsJobs::Ensure(const model::Processor& processor, const model::ModelOptions& options, bool checked,
                               const Json& before) {
  const kube::ObjectKey key{processor.typed().name_space, processor.typed().name};
  const std::string name = model::TopicsJobNameOf(processor);
  if (absl::Status removed = RemoveOthers(key, processor.uid, name); !removed.ok()) {
    return Broken(ProblemOf(removed, "Jobs of former manifests", "InvalidTopicsJob"));
  }
  if (checked) {
    const std::string message = MessageBefore(before);
    return Ready("TopicsReady", message.empty() ? "all topics were there when the workload was made" : message);
  }
  absl::StatusOr<Json> job = model::TopicsJobOf(processor, options);
  if (!job.ok()) return Broken({"InvalidSpec", std::string(job.status().message()), true, job.status()});
  TopicsState state = Run(key, *std::move(job));
  if (state.attempt > 1 && state.reason == "TopicsPending") KeepWhatWasSaid(before, &state);
  return state;
}

TopicsState TopicsJobs::EnsureDeleted(const model::Processor& processor, const model::ModelOptions& options) {
  absl::StatusOr<Json> job = model::TopicsJobOf(processor, options);
  if (!job.ok()) return Broken({"InvalidSpec", std::string(job.status().message()), true, job.status()});
  return Run({processor.typed().name_space, processor.typed().name}, AsDeletion(*std::move(job), processor));
}

absl::Status TopicsJobs::RemoveOthers(const kube::ObjectKey& processor, const std::string& uid,
                                      const std::string& keep) {
  const auto is_other = [&](const Json& job) {
    return kube::ControllerUidOf(job) == uid && kube::KeyOf(job).name != keep;
  };
  absl::Status first;
  for (const Json& job : world_->Of(kube::kJobs, processor, is_other)) {
    // Jobs of other kinds (reset, replay) belong to whoever made them.
    if (kube::TextAt(job, {"metadata", "labels", kComponent}) != "topics") continue;
    first.Update(writer_->Remove(kube::kJobs, job));
  }
  return first;
}

TopicsState TopicsJobs::Run(const kube::ObjectKey& processor, Json job) {
  const kube::ObjectKey key = kube::KeyOf(job);
  const Json there = world_->Get(kube::kJobs, key);
  const std::string uid = kube::ControllerUidOf(job);
  if (there.is_null() || kube::ControllerUidOf(there) != uid) return Make(std::move(job), 1);
  if (kube::Find(there, {"metadata", "deletionTimestamp"}) != nullptr) {
    return Pending("TopicsPending", StrCat("Job ", key.name, " is being deleted and then made anew"), kLookAgain);
  }
  const JobRun run = ReadJob(there, world_->Of(kube::kPods, processor));
  if (run.state == JobRun::State::kSucceeded) {
    return Ready(
        run.verdict.reason.empty() ? "TopicsReady" : run.verdict.reason,
        run.verdict.message.empty() ? StrCat("Job ", key.name, " has checked all topics") : run.verdict.message);
  }
  // A Job cannot be changed: another image, for example, needs another one.
  const std::string applied = kube::TextAt(there, {"metadata", "annotations", kAppliedAnnotation});
  Json same = job;
  same["metadata"]["annotations"][std::string(kAttemptAnnotation)] = StrCat(run.attempt);
  if (applied != model::HashOf(same.dump())) {
    if (absl::Status removed = writer_->Remove(kube::kJobs, there); !removed.ok()) {
      return Broken(ProblemOf(removed, NameForPeople(there), "InvalidTopicsJob"));
    }
    return Make(std::move(job), 1, kube::UidOf(there));
  }
  TopicsState state = run.state == JobRun::State::kFailed ? Failed(run, there, std::move(job)) : Running(run, key);
  state.attempt = run.attempt;
  return state;
}

TopicsState TopicsJobs::Make(Json job, int attempt, const std::string& gone) {
  job["metadata"]["annotations"][std::string(kAttemptAnnotation)] = StrCat(attempt);
  if (Problem problem = writer_->Ensure(kube::kJobs, job, "InvalidTopicsJob", gone); problem.exists()) {
    return Broken(std::move(problem));
  }
  return Pending("TopicsPending", StrCat("Job ", kube::KeyOf(job).name, " makes and checks the topics"), kLookAgain);
}

TopicsState TopicsJobs::Running(const JobRun& run, const kube::ObjectKey& job) const {
  // The pod has spoken; that its Job knows it is a matter of moments.
  if (run.verdict.known) {
    return Pending("TopicsPending", StrCat("Job ", job.name, " has ended, its verdict is awaited"), absl::Seconds(1));
  }
  std::string reason = run.pod_reason;
  std::string message = run.pod_message;
  if (!run.pod.empty() && WaitsSilently(reason)) {
    const MountTrouble::Trouble trouble = mounts_->Of({job.name_space, run.pod}, run.pod_uid, run.pod_created);
    reason = trouble.reason;
    message = trouble.message;
  } else if (reason == "CreateContainerConfigError") {
    reason = TroubleFrom(message).reason == "FailedMount" ? reason : TroubleFrom(message).reason;
  }
  if (reason.empty() || reason == "Completed") {
    return Pending("TopicsPending", StrCat("Job ", job.name, " makes and checks the topics"), kLookAgain);
  }
  TopicsState state = Pending(reason, StrCat("Job ", job.name, " waits (pod ", run.pod, "): ", message), kLookAgain);
  return state;
}

TopicsState TopicsJobs::Failed(const JobRun& run, const Json& there, Json job) {
  const std::string name = kube::KeyOf(there).name;
  const absl::Duration since = clock_->WallTime() - run.finished;
  if (!run.verdict.known && !run.pod.empty() && run.pod_message.empty() && since < kVerdictPatience) {
    return Pending("TopicsPending", StrCat("Job ", name, " has ended, its verdict is awaited"), absl::Seconds(1));
  }
  const absl::Duration wait = RetryDelay(run.attempt) - since;
  TopicsState state;
  if (wait <= absl::ZeroDuration()) {
    if (absl::Status removed = writer_->Remove(kube::kJobs, there); !removed.ok()) {
      return Broken(ProblemOf(removed, NameForPeople(there), "InvalidTopicsJob"));
    }
    state = Make(std::move(job), run.attempt + 1, kube::UidOf(there));
    if (state.problem.exists()) return state;
  } else {
    state.look_again = wait;
  }
  // What was wrong stays to be read while the next try is under way.
  state.stalled = run.verdict.known && !run.verdict.retry;
  state.reason = run.verdict.known ? run.verdict.reason : "TopicsJobFailed";
  state.message = run.verdict.known ? run.verdict.message
                                    : StrCat("Job ", name, " ended without a verdict: ",
                                             run.pod_message.empty() ? run.why_failed
                                                                     : StrCat(run.pod_reason, ", ", run.pod_message));
  return state;
}

}  // namespace millstream::reconcile
