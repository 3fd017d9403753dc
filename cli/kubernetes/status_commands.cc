// status, tasks, lag: what is read of StreamProcessors and of the sidecars in their pods.
#include <algorithm>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "cli/kubernetes/commands.h"
#include "cli/text_format.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "operator/kube/json.h"

namespace millstream::cli {
namespace {

using kube::BoolAt;
using kube::Find;
using kube::IntAt;
using kube::TextAt;
using Rows = std::vector<std::vector<std::string>>;

std::string Dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

const Json* Condition(const Json& processor, std::string_view type) {
  const Json* conditions = Find(processor, {"status", "conditions"});
  if (conditions == nullptr || !conditions->is_array()) return nullptr;
  for (const Json& condition : *conditions) {
    if (TextAt(condition, {"type"}) == type) return &condition;
  }
  return nullptr;
}

// As kubectl shows it: 5m, 3h, 12d.
std::string AgeOf(const Json& object) {
  absl::Time created;
  if (!absl::ParseTime(absl::RFC3339_full, TextAt(object, {"metadata", "creationTimestamp"}), &created, nullptr))
    return "?";
  const int64_t seconds = std::max<int64_t>(0, absl::ToInt64Seconds(absl::Now() - created));
  if (seconds < 120) return StrCat(seconds, "s");
  if (seconds < 2 * 3600) return StrCat(seconds / 60, "m");
  if (seconds < 48 * 3600) return StrCat(seconds / 3600, "h");
  return StrCat(seconds / 86400, "d");
}

std::string LagText(const Json* lag) {
  if (lag == nullptr || !lag->is_object()) return "-";
  std::string text = WithCommas(IntAt(*lag, {"records"}));
  if (const Json* seconds = Find(*lag, {"seconds"}); seconds != nullptr && seconds->is_number() && *seconds > 0)
    StrAppend(&text, " (", absl::FormatDuration(absl::Trunc(absl::Seconds(seconds->get<double>()), absl::Seconds(1))),
              ")");
  return text;
}

std::vector<std::string> SummaryRow(const Json& processor, bool with_namespace) {
  const kube::ObjectKey key = kube::KeyOf(processor);
  const Json* ready = Condition(processor, "Ready");
  std::vector<std::string> row;
  if (with_namespace) row.push_back(key.name_space);
  row.insert(
      row.end(),
      {key.name, ready ? TextAt(*ready, {"status"}) : "Unknown", ready ? TextAt(*ready, {"reason"}) : "-",
       StrCat(IntAt(processor, {"status", "readyReplicas"}), "/",
              IntAt(processor, {"status", "replicas"}, IntAt(processor, {"spec", "replicas"}, 1))),
       StrCat(IntAt(processor, {"status", "tasks", "running"}), "/", IntAt(processor, {"status", "tasks", "total"})),
       LagText(Find(processor, {"status", "lag"})), AgeOf(processor)});
  return row;
}

Rows SummaryHead(bool with_namespace) {
  Rows rows = {{"NAME", "READY", "REASON", "REPLICAS", "TASKS", "LAG", "AGE"}};
  if (with_namespace) rows[0].insert(rows[0].begin(), "NAMESPACE");
  return rows;
}

int List(const ClusterContext& context) {
  const auto cluster = context.Connect();
  if (!cluster.ok()) return context.base.Fail(cluster.status());
  const bool all = context.options.all_namespaces;
  const absl::StatusOr<std::vector<Json>> processors = (*cluster)->Processors(all);
  if (!processors.ok()) return context.base.Fail(processors.status());
  if (context.base.json) {
    std::cout << Dump(Json(*processors)) << std::endl;
    return kExitOk;
  }
  if (processors->empty()) {
    std::cout << "no StreamProcessors" << (all ? "" : StrCat(" in namespace ", (*cluster)->name_space())) << std::endl;
    return kExitOk;
  }
  Rows rows = SummaryHead(all);
  for (const Json& processor : *processors) rows.push_back(SummaryRow(processor, all));
  std::cout << Table(rows) << std::flush;
  return kExitOk;
}

std::vector<std::string> PodRow(const PodReport& pod) {
  if (pod.tasks.is_null()) return {pod.name, pod.phase, pod.ready ? "yes" : "no", "-", "-", "-", "-", pod.node};
  return {pod.name,
          pod.phase,
          pod.ready ? "yes" : "no",
          StrCat(IntAt(pod.tasks, {"summary", "active"}), " active, ", IntAt(pod.tasks, {"summary", "restoring"}),
                 " restoring, ", IntAt(pod.tasks, {"summary", "stopped"}), " stopped"),
          LagText(Find(pod.tasks, {"lag"})),
          TextAt(pod.tasks, {"drain"}),
          TextAt(pod.tasks, {"version"}),
          pod.node};
}

Json ToJson(const PodReport& pod) {
  Json json = {{"name", pod.name}, {"node", pod.node}, {"phase", pod.phase}, {"ready", pod.ready}};
  if (pod.status.ok()) {
    json["sidecar"] = pod.tasks;
  } else {
    json["error"] = std::string(pod.status.message());
  }
  return json;
}

void PrintConditions(const Json& processor) {
  const Json* conditions = Find(processor, {"status", "conditions"});
  if (conditions == nullptr || !conditions->is_array() || conditions->empty()) {
    std::cout << "no conditions yet: is the operator running?\n";
    return;
  }
  Rows rows = {{"CONDITION", "STATUS", "REASON", "MESSAGE"}};
  for (const Json& condition : *conditions) {
    rows.push_back({TextAt(condition, {"type"}), TextAt(condition, {"status"}), TextAt(condition, {"reason"}),
                    TextAt(condition, {"message"})});
  }
  std::cout << Table(rows);
}

void PrintSidecarConditions(const std::vector<PodReport>& pods) {
  Rows rows = {{"POD", "REASON", "MESSAGE"}};
  for (const PodReport& pod : pods) {
    if (!pod.status.ok()) rows.push_back({pod.name, "NotReached", std::string(pod.status.message())});
    const Json* conditions = Find(pod.tasks, {"conditions"});
    if (conditions == nullptr || !conditions->is_array()) continue;
    for (const Json& condition : *conditions)
      rows.push_back({pod.name, TextAt(condition, {"reason"}), TextAt(condition, {"message"})});
  }
  if (rows.size() > 1) std::cout << "\n" << Table(rows);
}

int Status(const ClusterContext& context) {
  return context.WithProcessor([&](Cluster& cluster, const Json& processor) -> absl::Status {
    MS_ASSIGN_OR_RETURN(const std::vector<PodReport> pods, cluster.Reports(processor));
    if (context.base.json) {
      Json json = {{"processor", processor}, {"pods", Json::array()}};
      for (const PodReport& pod : pods) json["pods"].push_back(ToJson(pod));
      std::cout << Dump(json) << "\n";
      return absl::OkStatus();
    }
    Rows rows = SummaryHead(false);
    rows.push_back(SummaryRow(processor, false));
    std::cout << Table(rows) << "\n";
    PrintConditions(processor);
    Rows table = {{"POD", "PHASE", "READY", "TASKS", "LAG", "DRAIN", "VERSION", "NODE"}};
    for (const PodReport& pod : pods) table.push_back(PodRow(pod));
    std::cout << "\n" << (pods.empty() ? "no pods\n" : Table(table));
    PrintSidecarConditions(pods);
    return absl::OkStatus();
  });
}

// The pod that has the task; of the others' answers only that they do not.
struct PlacedTask {
  std::string pod;
  Json task;
};

std::map<int64_t, PlacedTask> TasksOf(const std::vector<PodReport>& pods) {
  std::map<int64_t, PlacedTask> placed;
  for (const PodReport& pod : pods) {
    const Json* tasks = Find(pod.tasks, {"tasks"});
    if (tasks == nullptr || !tasks->is_array()) continue;
    for (const Json& task : *tasks) {
      PlacedTask& known = placed[IntAt(task, {"task"})];
      if (!known.pod.empty()) continue;
      known.task = task;
      if (TextAt(task, {"state"}) != "idle") known.pod = pod.name;
    }
  }
  return placed;
}

int64_t TaskLag(const Json& task) {
  int64_t lag = 0;
  const Json* inputs = Find(task, {"inputs"});
  if (inputs == nullptr || !inputs->is_array()) return 0;
  for (const Json& input : *inputs) lag += IntAt(input, {"lag"});
  return lag;
}

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

int Tasks(const ClusterContext& context) {
  return context.WithProcessor([&](Cluster& cluster, const Json& processor) -> absl::Status {
    MS_ASSIGN_OR_RETURN(const std::vector<PodReport> pods, cluster.Reports(processor));
    Rows rows = {{"TASK", "POD", "STATE", "RECORDS", "LAG", "RESTORE LEFT", "ERROR"}};
    for (const auto& [number, placed] : TasksOf(pods)) {
      if (context.base.json) {
        Json json = placed.task;
        json["pod"] = placed.pod.empty() ? Json() : Json(placed.pod);
        std::cout << Dump(json) << "\n";
        continue;
      }
      const Json* restore = Find(placed.task, {"restore"});
      rows.push_back({StrCat(number), placed.pod.empty() ? "-" : placed.pod, TextAt(placed.task, {"state"}),
                      WithCommas(IntAt(placed.task, {"records"})), WithCommas(TaskLag(placed.task)),
                      restore ? HumanBytes(static_cast<double>(IntAt(*restore, {"bytesLeft"}))) : "-",
                      FirstLine(TextAt(placed.task, {"error"}))});
    }
    if (!context.base.json) std::cout << (rows.size() > 1 ? Table(rows) : "no pod tells of tasks\n");
    PrintSidecarConditions(context.base.json ? std::vector<PodReport>() : pods);
    return absl::OkStatus();
  });
}

int Lag(const ClusterContext& context) {
  return context.WithProcessor([&](Cluster& cluster, const Json& processor) -> absl::Status {
    MS_ASSIGN_OR_RETURN(const std::vector<PodReport> pods, cluster.Reports(processor));
    Rows rows = {{"TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "POD"}};
    int64_t total = 0;
    for (const auto& [number, placed] : TasksOf(pods)) {
      const Json* inputs = Find(placed.task, {"inputs"});
      if (placed.pod.empty() || inputs == nullptr || !inputs->is_array()) continue;
      for (const Json& input : *inputs) {
        total += IntAt(input, {"lag"});
        const auto offset = [&input](const char* name) {
          const Json* value = Find(input, {name});
          return value == nullptr || value->is_null() ? std::string("-") : value->dump();
        };
        rows.push_back({TextAt(input, {"topic"}), StrCat(IntAt(input, {"partition"})), offset("committed"),
                        offset("end"), WithCommas(IntAt(input, {"lag"})), placed.pod});
        if (!context.base.json) continue;
        Json json = input;
        json["pod"] = placed.pod;
        std::cout << Dump(json) << "\n";
      }
    }
    if (context.base.json) return absl::OkStatus();
    std::cout << Table(rows) << "lag " << WithCommas(total) << "\n";
    PrintSidecarConditions(pods);
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterStatus(CLI::App* app, ClusterContext* context) {
  CLI::App* command = app->add_subcommand("status", "All processors, or one with its conditions and pods");
  context->AddName(command, false);
  context->AddClusterOptions(command);
  command->add_flag("-A,--all-namespaces", context->options.all_namespaces, "Processors of all namespaces");
  command->callback(
      [=] { context->base.selected = [=] { return context->name.empty() ? List(*context) : Status(*context); }; });
}

void RegisterClusterTasks(CLI::App* app, ClusterContext* context) {
  CLI::App* command = app->add_subcommand("tasks", "Every task: which pod has it, state, lag, why it is stopped");
  context->AddName(command);
  context->AddClusterOptions(command);
  command->callback([=] { context->base.selected = [=] { return Tasks(*context); }; });
}

void RegisterClusterLag(CLI::App* app, ClusterContext* context) {
  CLI::App* command = app->add_subcommand("lag", "How far each partition of the inputs is behind");
  context->AddName(command);
  context->AddClusterOptions(command);
  command->callback([=] { context->base.selected = [=] { return Lag(*context); }; });
}

}  // namespace millstream::cli
