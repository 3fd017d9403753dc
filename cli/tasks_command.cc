#include <algorithm>
#include <iostream>

#include "CLI/CLI.hpp"
#include "cli/commands.h"
#include "cli/text_format.h"
#include "common/base/strings.h"
#include "nlohmann/json.hpp"

namespace millstream::cli {
namespace {

using Json = nlohmann::json;

int List(const Context& context, const std::string& processor) {
  absl::StatusOr<std::unique_ptr<LogAccess>> access = context.Open("tasks", false);
  if (!access.ok()) return context.Fail(access.status());
  const absl::StatusOr<std::vector<TaskRow>> rows = (*access)->ListTasks(processor);
  if (!rows.ok()) return context.Fail(rows.status());
  Json list = Json::array();
  std::vector<std::vector<std::string>> table = {{"PROCESSOR", "TASK", "STATE", "RECORDS", "LAG", "ERROR"}};
  for (const TaskRow& row : *rows) {
    list.push_back({{"processor", row.processor},
                    {"task", row.task},
                    {"state", row.state},
                    {"records", row.records},
                    {"lag", row.lag},
                    {"error", row.error}});
    table.push_back({row.processor, StrCat(row.task), row.state, WithCommas(static_cast<int64_t>(row.records)),
                     WithCommas(row.lag), row.error.substr(0, row.error.find('\n'))});
  }
  std::cout << (context.json ? list.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n" : Table(table));
  std::cout.flush();
  return kExitOk;
}

int Restart(const Context& context, const std::string& processor, const std::vector<int32_t>& tasks) {
  absl::StatusOr<std::unique_ptr<LogAccess>> access = context.Open("tasks", false);
  if (!access.ok()) return context.Fail(access.status());
  const absl::StatusOr<std::vector<int32_t>> restarted = (*access)->RestartTasks(processor, tasks);
  if (!restarted.ok()) return context.Fail(restarted.status());
  if (context.json) {
    std::cout << Json{{"restarted", *restarted}}.dump() << std::endl;
  } else if (restarted->empty()) {
    std::cout << "no task is stopped" << std::endl;
  } else {
    for (const int32_t task : *restarted) std::cout << "task " << task << " goes on" << std::endl;
  }
  return kExitOk;
}

int Pause(const Context& context, const std::string& processor, bool paused) {
  absl::StatusOr<std::unique_ptr<LogAccess>> access = context.Open("tasks", false);
  if (!access.ok()) return context.Fail(access.status());
  const absl::Status done = (*access)->SetPaused(processor, paused);
  if (!done.ok()) return context.Fail(done);
  if (context.json) {
    std::cout << Json{{"paused", paused}}.dump() << std::endl;
  } else {
    std::cout << (paused ? "paused: what is in flight is finished, nothing new is handled" : "goes on") << std::endl;
  }
  return kExitOk;
}

}  // namespace

void RegisterTasks(CLI::App* app, Context* context) {
  CLI::App* group =
      app->add_subcommand("tasks", "What the tasks of a running processor do; pause, resume, let stopped ones go on");
  group->require_subcommand(1);
  group->footer(
      "Examples:\n  millstream tasks list\n  millstream tasks restart\n  millstream tasks pause\n"
      "  millstream tasks resume");

  auto processor = std::make_shared<std::string>();
  CLI::App* list = group->add_subcommand("list", "Every task: state, records, lag, why it is stopped");
  list->callback([=] { context->selected = [=] { return List(*context, *processor); }; });

  auto tasks = std::make_shared<std::vector<int32_t>>();
  CLI::App* restart = group->add_subcommand("restart", "Let stopped tasks go on, after the program was repaired");
  restart->add_option("tasks", *tasks, "Tasks; default: all that are stopped")->type_name("TASK");
  restart->callback([=] { context->selected = [=] { return Restart(*context, *processor, *tasks); }; });

  CLI::App* pause = group->add_subcommand("pause", "Handle nothing new; state stays and can be asked for");
  pause->callback([=] { context->selected = [=] { return Pause(*context, *processor, true); }; });
  CLI::App* resume = group->add_subcommand("resume", "Go on after pause, or after a start with desiredState: Paused");
  resume->callback([=] { context->selected = [=] { return Pause(*context, *processor, false); }; });

  for (CLI::App* command : {list, restart, pause, resume}) {
    command->add_option("--processor", *processor, "Processor, where several run")->type_name("NAME");
    context->AddDataOption(command);
    context->AddOutputOption(command);
  }
}

}  // namespace millstream::cli
