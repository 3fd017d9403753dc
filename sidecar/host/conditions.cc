#include "sidecar/host/conditions.h"

#include <string_view>
#include <utility>

#include "common/base/strings.h"

namespace millstream::host {
namespace {

// A single abort says little: a rebalance, a broker that restarts. So many in a row say that nothing gets through.
constexpr int kManyAborts = 3;

std::string Text(const absl::Status& status) { return std::string(status.message()); }

// Errors of tasks begin with their own word where there is one.
std::string ReasonOf(const std::string& error, std::string_view otherwise) {
  for (const std::string_view word : {"OffsetsLost", "TopicRecreated", "GroupOwnedByAnother"}) {
    if (error.find(StrCat(word, ":")) != std::string::npos) return std::string(word);
  }
  if (error.find("PERMISSION_DENIED") != std::string::npos) return "AccessDenied";
  return std::string(otherwise);
}

void AddTasks(const engine::EngineStatus& engine, std::vector<Condition>* conditions) {
  for (const engine::TaskStatus& task : engine.tasks) {
    if (task.error.empty()) continue;
    if (task.state == engine::TaskStatus::State::kStopped) {
      conditions->push_back(
          {ReasonOf(task.error, "TaskStopped"), StrCat("task ", task.task.value(), " is stopped: ", task.error)});
    } else if (task.state == engine::TaskStatus::State::kOpening) {
      conditions->push_back({ReasonOf(task.error, "RestoreFailed"), StrCat(task.error, "; tried again")});
    }
  }
}

void AddMembership(const ConditionSources& sources, std::vector<Condition>* conditions) {
  if (sources.membership.ok()) return;
  const char* const reason = absl::IsPermissionDenied(sources.membership) ? "AccessDenied"
                             : absl::IsAlreadyExists(sources.membership)  ? "DuplicateInstance"
                                                                          : "NotInGroup";
  conditions->push_back({reason, StrCat("group ", sources.group, ": ", Text(sources.membership))});
}

void AddCommits(const ConditionSources& sources, std::vector<Condition>* conditions) {
  const engine::EngineStatus& engine = *sources.engine;
  if (engine.commits_wait && sources.stuck_calls > 0) {
    conditions->push_back({"CommitsWait", StrCat(sources.stuck_calls,
                                                 " calls on the log did not come back; nothing is committed until one "
                                                 "does; restart the process if it stays so")});
  } else if (engine.commits_wait && !engine.writer_error.ok()) {
    conditions->push_back({absl::IsPermissionDenied(engine.writer_error) ? "AccessDenied" : "CommitsWait",
                           StrCat("nothing is committed, no writer can be made: ", Text(engine.writer_error),
                                  "; tried again every few seconds")});
  }
  const bool denied = absl::IsPermissionDenied(engine.abort_cause);
  if (engine.aborts_in_a_row < (denied ? 1 : kManyAborts)) return;
  std::string message =
      StrCat("nothing is committed: the last ", engine.aborts_in_a_row,
             engine.aborts_in_a_row == 1 ? " transaction was aborted: " : " transactions were aborted: ",
             Text(engine.abort_cause));
  if (denied && message.find("TOPIC_AUTHORIZATION") != std::string::npos) {
    StrAppend(&message, "; it writes to");
    for (const std::string& topic : sources.writes_to)
      StrAppend(&message, topic == sources.writes_to.front() ? " " : ", ", topic);
  }
  conditions->push_back({denied ? "AccessDenied" : "CommitsFail", StrCat(message, "; tried again every few seconds")});
}

void AddWorker(const ConditionSources& sources, std::vector<Condition>* conditions) {
  if (!sources.worker_away.has_value() || *sources.worker_away <= sources.worker_patience) return;
  conditions->push_back(
      {"WorkerNotConnected",
       StrCat("no worker for ", absl::FormatDuration(absl::Trunc(*sources.worker_away, absl::Seconds(1))),
              "; expected on ", sources.socket_path,
              sources.worker_error.empty() ? "" : "; the last one: ", sources.worker_error)});
}

}  // namespace

std::vector<Condition> ConditionsOf(const ConditionSources& sources) {
  std::vector<Condition> conditions;
  if (sources.engine->paused) {
    conditions.push_back({"Paused",
                          "nothing new is handled; go on with `millstream tasks resume`, or with desiredState: "
                          "Running"});
  }
  AddTasks(*sources.engine, &conditions);
  AddMembership(sources, &conditions);
  AddWorker(sources, &conditions);
  AddCommits(sources, &conditions);
  if (!sources.orders.ok()) {
    conditions.push_back({"OrdersUnreadable", StrCat(Text(sources.orders),
                                                     "; the orders before stay in force. The operator writes them as "
                                                     "annotation millstream.dev/orders of the pod")});
  }
  return conditions;
}

}  // namespace millstream::host
