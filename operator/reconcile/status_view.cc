#include "operator/reconcile/status_view.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "common/base/strings.h"
#include "operator/kube/event_recorder.h"
#include "operator/model/autoscale.h"

namespace millstream::reconcile {
namespace {

using model::Condition;
using Status = model::Condition::Status;

constexpr absl::Duration kReportPatience = absl::Minutes(1);
constexpr size_t kMaxErrorBytes = 4096;  // the schema's bound of firstError.message

const Json& ConditionsIn(const Json& status) {
  static const Json* const none = new Json(Json::array());
  const Json* conditions = kube::Find(status, {"conditions"});
  return conditions != nullptr && conditions->is_array() ? *conditions : *none;
}

std::optional<Condition> Before(const Json& status, const std::string& type) {
  for (const Json& condition : ConditionsIn(status)) {
    if (kube::TextAt(condition, {"type"}) != type) continue;
    const std::string text = kube::TextAt(condition, {"status"});
    return Condition{type,
                     text == "True"    ? Status::kTrue
                     : text == "False" ? Status::kFalse
                                       : Status::kUnknown,
                     kube::TextAt(condition, {"reason"}, "Unknown"), kube::TextAt(condition, {"message"})};
  }
  return std::nullopt;
}

std::string Pods(size_t count) { return count == 1 ? "1 pod" : StrCat(count, " pods"); }

// Everything that conditions are made from, worked out once.
struct View {
  explicit View(const StatusInput& from) : input(from) {
    for (const model::PodSeen& pod : input.seen.pods) {
      if (pod.failed) continue;
      ++pods;
      ready += pod.ready ? 1 : 0;
      const model::SidecarReport* report = input.seen.FreshReport(pod, input.now);
      if (report != nullptr) reports.push_back(report);
    }
    totals = model::TotalsOf(reports);
  }

  const StatusInput& input;
  int pods = 0, ready = 0;
  std::vector<const model::SidecarReport*> reports;
  model::TaskTotals totals;

  const Json& before() const {
    static const Json* const none = new Json(Json::object());
    const Json* status = kube::Find(input.processor, {"status"});
    return status != nullptr && status->is_object() ? *status : *none;
  }
  bool paused() const { return input.model && input.model->typed().desired_state == spec::DesiredState::kPaused; }
  int wanted() const { return input.model ? input.model->replicas : pods; }
};

Condition TopicsOf(const View& view) {
  if (view.input.topics) return view.input.topics->AsCondition();
  if (std::optional<Condition> before = Before(view.before(), "TopicsReady")) return *before;
  return {"TopicsReady", Status::kUnknown, "NotChecked", "topics are checked when the manifest is in order"};
}

Condition WorkloadOf(const View& view) {
  Condition workload{"WorkloadReady", Status::kFalse, "", ""};
  if (!view.input.seen.set && view.pods == 0) {
    workload.reason = "NotCreated";
    workload.message = "the StatefulSet is made when the topics are ready";
    return workload;
  }
  const std::string count = StrCat(view.ready, " of ", Pods(std::max(view.wanted(), view.pods)), " ready");
  const bool moving = view.input.decision && !view.input.decision->reason.empty();
  if (view.ready == view.wanted() && view.pods == view.wanted() && !moving) {
    workload.status = Status::kTrue;
    workload.reason = view.wanted() == 0 ? "ScaledToZero" : "PodsReady";
    workload.message = view.wanted() == 0 ? "no pods are wanted" : count;
    return workload;
  }
  if (view.input.trouble && !WaitsSilently(view.input.trouble->reason)) {
    workload.reason = view.input.trouble->reason;
    workload.message = StrCat("pod ", view.input.trouble->pod, ": ", view.input.trouble->message);
    return workload;
  }
  workload.reason = moving ? view.input.decision->reason : "PodsNotReady";
  workload.message = moving ? view.input.decision->message : count;
  return workload;
}

Condition RestoredOf(const View& view) {
  Condition restored{"Restored", Status::kUnknown, "", ""};
  if (view.pods == 0) {
    restored.reason = "NoPods";
    restored.message = "there is no pod that could hold state";
  } else if (view.totals.restoring > 0) {
    restored.status = Status::kFalse;
    restored.reason = "Restoring";
    restored.message = StrCat(view.totals.restoring, view.totals.restoring == 1 ? " task is" : " tasks are",
                              " read back from changelogs; status.restore says how much is left");
  } else if (view.reports.size() < static_cast<size_t>(view.pods)) {
    restored.reason = "NotReported";
    restored.message = StrCat(view.reports.size(), " of ", Pods(view.pods), " have told of their state");
  } else {
    restored.status = Status::kTrue;
    restored.reason = "Restored";
    restored.message = "the state of all tasks is complete";
  }
  return restored;
}

void Say(Condition* ready, std::string reason, std::string message) {
  ready->reason = std::move(reason);
  ready->message = std::move(message);
}

// What sidecars say may have numbers in it: the first words of one reason stay.
void SayAsBefore(const View& view, const model::SidecarReport::Problem& told, Condition* ready) {
  const ReadyWas before = ReadyIn(view.before());
  const bool same = before.status == "False" && before.reason == told.reason;
  Say(ready, told.reason, same ? before.message : told.message);
}

// What a sidecar wants known though it works: always the end of the message. Its first words stay: there may be numbers
// in it.
void AddWarning(const View& view, Condition* ready) {
  const std::optional<model::SidecarReport::Problem>& told = view.totals.problem;
  if (!told) return;
  const std::string mark = StrCat("; ", told->reason, ": ");
  const ReadyWas before = ReadyIn(view.before());
  const size_t said = before.status == "True" ? before.message.find(mark) : std::string::npos;
  StrAppend(&ready->message, said == std::string::npos ? mark + told->message : before.message.substr(said));
}

// The first thing that keeps the processor from processing, in the order in which a person would mend them.
Condition ReadyOf(const View& view, const Condition& topics, const Condition& workload, const Condition& restored) {
  const StatusInput& input = view.input;
  Condition ready{"Ready", Status::kFalse, "", ""};
  if (input.problem.exists()) {
    Say(&ready, input.problem.reason, input.problem.message);
  } else if (topics.status != Status::kTrue) {
    Say(&ready, topics.reason, topics.message);
  } else if (input.model && view.wanted() == 0) {
    Say(&ready, "ScaledToZero", "no pods are wanted: set spec.replicas to process");
  } else if (view.paused() && view.ready > 0) {
    Say(&ready, "Paused", "spec.desiredState is Paused: set it to Running to process");
  } else if (view.totals.stopped > 0) {
    const std::optional<model::SidecarReport::FirstError>& error = view.totals.first_error;
    Say(&ready, "TaskStopped",
        StrCat(view.totals.stopped, " of ", view.totals.total, " tasks stopped after a failure",
               error ? StrCat("; the first is task ", error->task, ": ", error->message) : std::string()));
  } else if (restored.status == Status::kFalse && view.ready < view.wanted()) {
    Say(&ready, restored.reason, restored.message);
  } else if (view.ready == 0 || view.ready < std::min(view.wanted(), view.pods) || workload.status != Status::kTrue) {
    // Replacing pods one by one is no outage: the others process.
    const bool moving = input.decision && !input.decision->reason.empty() && !input.decision->stuck;
    const bool silent = !input.trouble || WaitsSilently(input.trouble->reason);
    const bool processes = moving && silent && view.ready > 0 && view.ready + 1 >= view.wanted();
    const std::optional<model::SidecarReport::Problem>& told = view.totals.problem;
    // A sidecar that says what its pod lacks says more than that pods start.
    const bool starting = workload.reason == "StartingPods" && !processes;
    if ((workload.reason == "PodsNotReady" || starting) && told) {
      SayAsBefore(view, *told, &ready);
    } else {
      Say(&ready, workload.reason, workload.message);
    }
    if (processes) ready.status = Status::kTrue;
  } else if (view.totals.problem && view.totals.problem->blocks) {
    SayAsBefore(view, *view.totals.problem, &ready);
  } else {
    ready.status = Status::kTrue;
    Say(&ready, "Processing", StrCat("tasks run on ", Pods(view.ready)));
  }
  if (input.decision) {
    for (const std::string& note : input.decision->notes) {
      const bool said = ready.message.find(note) != std::string::npos;  // with what stays of the pass before
      if (!said) StrAppend(&ready.message, "; ", note);
    }
  }
  if (ready.status == Status::kTrue) AddWarning(view, &ready);
  return ready;
}

// kstatus: work is under way. Nothing is under way that waits for a person.
Condition ReconcilingOf(const View& view, const Condition& topics) {
  const StatusInput& input = view.input;
  Condition reconciling{"Reconciling", Status::kFalse, "Done", ""};
  const auto begin = [&reconciling](const std::string& reason, const std::string& message) {
    reconciling = {"Reconciling", Status::kTrue, reason, message};
  };
  if (input.held_back) {
    begin("ReconciliationPaused",
          "annotation millstream.dev/pause-reconciliation is true: nothing is changed until it is removed");
  } else if (input.problem.exists()) {
    if (!input.problem.needs_person) begin(input.problem.reason, input.problem.message);
  } else if (topics.status != Status::kTrue) {
    if (!input.topics || !input.topics->stalled) begin(topics.reason, topics.message);
  } else if (input.decision && !input.decision->reason.empty() && !input.decision->stuck) {
    begin(input.decision->reason, input.decision->message);
  } else if (input.model && (view.ready != view.wanted() || view.pods != view.wanted())) {
    begin("PodsNotReady", StrCat(view.ready, " of ", Pods(view.wanted()), " ready"));
  } else if (AwaitsReports(input.seen, input.now)) {
    begin("AwaitingReports", "the sidecars of new pods are being asked for their tasks");
  }
  return reconciling;
}

Condition StalledOf(const View& view) {
  const StatusInput& input = view.input;
  if (input.problem.exists() && input.problem.needs_person) {
    return {"Stalled", Status::kTrue, input.problem.reason, input.problem.message};
  }
  if (input.topics && !input.topics->ready && input.topics->stalled) {
    return {"Stalled", Status::kTrue, input.topics->reason, input.topics->message};
  }
  if (input.decision && input.decision->stuck) {
    return {"Stalled", Status::kTrue, input.decision->reason.empty() ? "Stuck" : input.decision->reason,
            input.decision->message};
  }
  return {"Stalled", Status::kFalse, "None", ""};
}

Json TasksOf(const View& view) {
  const model::TaskTotals& totals = view.totals;
  return {{"total", totals.total},
          {"running", totals.running},
          {"restoring", totals.restoring},
          {"standby", totals.standby},
          {"stopped", totals.stopped}};
}

void AddNumbers(const View& view, Json* status) {
  const model::TaskTotals& totals = view.totals;
  if (view.reports.empty() && view.pods > 0) {
    // Nobody has answered (yet): what was known is the best there is, and changing it back and forth helps nobody.
    for (const char* block : {"tasks", "lag", "restore"}) {
      if (const Json* old = kube::Find(view.before(), {block})) (*status)[block] = *old;
    }
    return;
  }
  (*status)["tasks"] = TasksOf(view);
  if (totals.lag_records) (*status)["lag"]["records"] = *totals.lag_records;
  if (totals.lag) (*status)["lag"]["seconds"] = absl::ToInt64Seconds(*totals.lag);
  if (view.pods > 0) (*status)["restore"]["bytesLeft"] = totals.bytes_left;
  if (totals.bytes_left > 0 && totals.time_left) {
    (*status)["restore"]["etaSeconds"] = absl::ToInt64Seconds(absl::Ceil(*totals.time_left, absl::Seconds(1)));
  }
}

// Stays until the specification changes: what came after it is often its consequence.
void AddFirstError(const View& view, int64_t generation, Json* status) {
  const Json* old = kube::Find(view.before(), {"firstError"});
  if (old != nullptr && kube::IntAt(view.before(), {"observedGeneration"}) == generation) {
    (*status)["firstError"] = *old;
    return;
  }
  const std::optional<model::SidecarReport::FirstError>& first = view.totals.first_error;
  if (!first) return;
  Json& error = (*status)["firstError"];
  error = {{"task", first->task},
           {"message", kube::CutText(first->message, kMaxErrorBytes)},
           {"time", absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", view.input.now, absl::UTCTimeZone())}};
  if (!first->input.empty()) error["input"] = first->input;
  if (first->offset >= 0) error["offset"] = first->offset;
}

std::string SelectorText(const std::string& name) {
  return StrCat("app.kubernetes.io/name=streamprocessor,app.kubernetes.io/instance=", name,
                ",app.kubernetes.io/component=processor");
}

}  // namespace

Json StatusOf(const StatusInput& input) {
  const View view(input);
  const Condition topics = TopicsOf(view);
  const Condition workload = WorkloadOf(view);
  const Condition restored = RestoredOf(view);
  const std::vector<Condition> conditions = {ReadyOf(view, topics, workload, restored),
                                             topics,
                                             workload,
                                             restored,
                                             ReconcilingOf(view, topics),
                                             StalledOf(view)};
  const int64_t newest = kube::IntAt(input.processor, {"metadata", "generation"});
  // While a person has us wait, what is there is of the generation before.
  const int64_t generation = input.held_back ? kube::IntAt(view.before(), {"observedGeneration"}, 0) : newest;
  Json status = {{"observedGeneration", generation},
                 {"operatorVersion", input.operator_version},
                 {"replicas", view.pods},
                 {"readyReplicas", view.ready},
                 {"selector", SelectorText(kube::KeyOf(input.processor).name)},
                 {"conditions", model::ConditionsOf(ConditionsIn(view.before()), conditions, generation, input.now)}};
  if (input.model) {
    status["group"] = input.model->typed().group;
    status["guarantee"] = view.totals.guarantee.empty() ? std::string(spec::ToString(input.model->typed().guarantee))
                                                        : view.totals.guarantee;
  } else {
    for (const char* field : {"group", "guarantee"}) {
      if (const Json* old = kube::Find(view.before(), {field})) status[field] = *old;
    }
  }
  if (!input.autoscale.is_null()) {
    status["autoscale"] = input.autoscale;
  } else if (!input.model || model::AutoscaleBoundsOf(*input.model)) {
    // Nothing was decided in this pass: where it stands is where it goes on.
    if (const Json* old = kube::Find(view.before(), {"autoscale"})) status["autoscale"] = *old;
  }
  AddNumbers(view, &status);
  AddFirstError(view, generation, &status);
  return status;
}

bool AwaitsReports(const model::Observation& seen, absl::Time now) {
  return std::any_of(seen.pods.begin(), seen.pods.end(), [&](const model::PodSeen& pod) {
    return pod.ready && !pod.terminating && now - pod.ready_changed < kReportPatience &&
           seen.FreshReport(pod, now) == nullptr;
  });
}

ReadyWas ReadyIn(const Json& status) {
  for (const Json& condition : ConditionsIn(status)) {
    if (kube::TextAt(condition, {"type"}) != "Ready") continue;
    return {kube::TextAt(condition, {"status"}), kube::TextAt(condition, {"reason"}),
            kube::TextAt(condition, {"message"})};
  }
  return {};
}

}  // namespace millstream::reconcile
