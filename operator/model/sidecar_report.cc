#include "operator/model/sidecar_report.h"

#include <algorithm>
#include <map>
#include <utility>

#include "common/base/strings.h"
#include "operator/model/json_path.h"

namespace millstream::model {
namespace {

TaskSeen::State StateOf(const std::string& word) {
  for (const auto& [name, state] :
       {std::pair{"active", TaskSeen::State::kActive}, std::pair{"restoring", TaskSeen::State::kRestoring},
        std::pair{"standby", TaskSeen::State::kStandby}, std::pair{"stopped", TaskSeen::State::kStopped}}) {
    if (word == name) return state;
  }
  return TaskSeen::State::kIdle;
}

std::optional<int64_t> MaybeInt(const Json& from, std::initializer_list<std::string_view> path) {
  const Json* found = Find(from, path);
  if (found == nullptr || !found->is_number()) return std::nullopt;
  return found->get<int64_t>();
}

std::optional<absl::Duration> MaybeSeconds(const Json& from, std::initializer_list<std::string_view> path) {
  const Json* found = Find(from, path);
  if (found == nullptr || !found->is_number()) return std::nullopt;
  return absl::Seconds(found->get<double>());
}

TaskSeen ReadTask(const Json& json) {
  TaskSeen task;
  task.task = static_cast<int>(IntAt(json, {"task"}, -1));
  task.state = StateOf(TextAt(json, {"state"}));
  for (const Json& input : ListAt(json, {"inputs"})) {
    if (const auto lag = MaybeInt(input, {"lag"})) task.lag = task.lag.value_or(0) + std::max<int64_t>(0, *lag);
  }
  task.records = std::max<int64_t>(0, IntAt(json, {"records"}));
  task.bytes_left = std::max<int64_t>(0, IntAt(json, {"restore", "bytesLeft"}));
  task.time_left = MaybeSeconds(json, {"restore", "etaSeconds"});
  task.error = TextAt(json, {"error"});
  return task;
}

// More of anything is no answer of a sidecar.
int Bounded(int64_t number) { return static_cast<int>(std::clamp<int64_t>(number, 0, 1'000'000)); }

template <typename T>
void KeepGreatest(const std::optional<T>& value, std::optional<T>* greatest) {
  if (value && (!*greatest || **greatest < *value)) *greatest = value;
}

// With these a sidecar processes nothing, though its pod is ready: nothing about the pod is wrong, and a restart would
// not help. Causes before what they lead to.
constexpr std::string_view kBlocking[] = {"BrokersUnreachable", "AccessDenied", "DuplicateInstance", "NotInGroup",
                                          "CommitsWait",        "CommitsFail",  "WorkerNotConnected"};

std::optional<SidecarReport::Problem> WorstOf(const Json& conditions) {
  for (const std::string_view reason : kBlocking) {
    for (const Json& condition : conditions) {
      if (TextAt(condition, {"reason"}) == reason)
        return SidecarReport::Problem{std::string(reason), TextAt(condition, {"message"}), true};
    }
  }
  if (conditions.empty()) return std::nullopt;
  return SidecarReport::Problem{TextAt(conditions.front(), {"reason"}), TextAt(conditions.front(), {"message"}), false};
}

// How much a task's state on one pod says about the task: a copy says little.
int Weight(TaskSeen::State state) {
  switch (state) {
    case TaskSeen::State::kActive:
      return 4;
    case TaskSeen::State::kStopped:
      return 3;
    case TaskSeen::State::kRestoring:
      return 2;
    case TaskSeen::State::kStandby:
      return 1;
    case TaskSeen::State::kIdle:
      return 0;
  }
  return 0;
}

}  // namespace

int SidecarReport::Count(TaskSeen::State state) const {
  return static_cast<int>(
      std::count_if(tasks.begin(), tasks.end(), [state](const TaskSeen& task) { return task.state == state; }));
}

bool SidecarReport::Holds(int task, TaskSeen::State state) const {
  return std::any_of(tasks.begin(), tasks.end(),
                     [&](const TaskSeen& seen) { return seen.task == task && seen.state == state; });
}

absl::StatusOr<SidecarReport> ReadSidecarReport(const Json& answer, absl::Time heard, std::string pod_uid) {
  const Json* tasks = Find(answer, {"tasks"});
  if (tasks == nullptr || !tasks->is_array()) {
    return absl::InvalidArgumentError(
        "the answer to GET /v1/tasks has no list `tasks`: it is no sidecar of Millstream");
  }
  SidecarReport report;
  report.heard = heard;
  report.pod_uid = std::move(pod_uid);
  report.version = TextAt(answer, {"version"});
  report.guarantee = TextAt(answer, {"guarantee"});
  report.state = TextAt(answer, {"state"});
  report.drained = TextAt(answer, {"drain"}) == "Drained";
  report.ready = BoolAt(answer, {"ready"});
  report.workers = Bounded(IntAt(answer, {"workers"}));
  report.partitions = Bounded(IntAt(answer, {"summary", "total"}));
  report.lag = MaybeSeconds(answer, {"lag", "seconds"});
  for (const Json& task : *tasks) {
    TaskSeen seen = ReadTask(task);
    if (seen.task >= 0) report.tasks.push_back(std::move(seen));
  }
  if (const Json* error = Find(answer, {"firstError"}); error != nullptr && error->is_object()) {
    report.first_error = {Bounded(IntAt(*error, {"task"})), TextAt(*error, {"input"}), IntAt(*error, {"offset"}, -1),
                          TextAt(*error, {"message"})};
  }
  report.problem = WorstOf(ListAt(answer, {"conditions"}));
  return report;
}

TaskTotals TotalsOf(const std::vector<const SidecarReport*>& reports) {
  TaskTotals totals;
  std::map<int, const TaskSeen*> tasks;
  for (const SidecarReport* report : reports) {
    totals.total = std::max(totals.total, report->partitions);
    KeepGreatest(report->lag, &totals.lag);
    if (totals.guarantee.empty()) totals.guarantee = report->guarantee;
    if (report->problem && (!totals.problem || (report->problem->blocks && !totals.problem->blocks))) {
      totals.problem = report->problem;
    }
    if (report->first_error && (!totals.first_error || report->first_error->task < totals.first_error->task)) {
      totals.first_error = report->first_error;
    }
    for (const TaskSeen& task : report->tasks) {
      totals.bytes_left += task.bytes_left;
      KeepGreatest(task.time_left, &totals.time_left);
      totals.records += task.records;
      if (task.state == TaskSeen::State::kStandby) ++totals.standby;
      const TaskSeen*& known = tasks[task.task];
      if (known == nullptr || Weight(known->state) < Weight(task.state)) known = &task;
    }
  }
  totals.total = std::max(totals.total, static_cast<int>(tasks.size()));
  for (const auto& [number, task] : tasks) {
    switch (task->state) {
      case TaskSeen::State::kActive:
        ++totals.running;
        break;
      case TaskSeen::State::kRestoring:
        ++totals.restoring;
        break;
      case TaskSeen::State::kStopped:
        ++totals.stopped;
        break;
      case TaskSeen::State::kStandby:
      case TaskSeen::State::kIdle:
        break;
    }
    if (task->lag) totals.lag_records = totals.lag_records.value_or(0) + *task->lag;
  }
  return totals;
}

}  // namespace millstream::model
