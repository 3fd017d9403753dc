// reset, dead-letters list and replay: commands of `millstream` that run as Jobs beside the processor.
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "cli/kubernetes/commands.h"
#include "cli/kubernetes/tool_job.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "operator/kube/json.h"

namespace millstream::cli {
namespace {

struct ResetOptions {
  std::string to;
  std::optional<int64_t> by;
  std::vector<int32_t> partitions;
  std::vector<std::string> inputs;
  bool wipe_state = false, keep_state = false, execute = false;
};

struct DeadLetterOptions {
  std::vector<int32_t> partitions;
  bool all = false, skip_foreign = false, execute = false;
  int64_t limit = 0;
};

// Runs it and passes on what it says.
int RunJob(const ClusterContext& context, int64_t patience_seconds, std::vector<std::string> arguments,
           const std::function<absl::Status(const Json& processor)>& check = nullptr) {
  if (context.base.json) arguments.insert(arguments.end(), {"-o", "json"});
  int exit_code = kExitFailure;
  const int failed = context.WithProcessor([&](Cluster& cluster, const Json& processor) -> absl::Status {
    if (check) MS_RETURN_IF_ERROR(check(processor));
    const auto on_wait = [](const std::string& why) { std::cerr << "waiting: " << why << std::endl; };
    MS_ASSIGN_OR_RETURN(const ToolResult result,
                        RunTool(cluster, processor, arguments, absl::Seconds(patience_seconds), on_wait));
    exit_code = result.exit_code;
    (exit_code == 0 ? std::cout : std::cerr) << result.output << std::flush;
    return absl::OkStatus();
  });
  return failed == kExitOk ? exit_code : failed;
}

// The command itself refuses while members are alive; here it is said before a Job is made.
absl::Status CheckStopped(const Json& processor) {
  const int64_t replicas = kube::IntAt(processor, {"spec", "replicas"}, 1);
  if (replicas == 0) return absl::OkStatus();
  const std::string name = kube::KeyOf(processor).name;
  return absl::FailedPreconditionError(StrCat(name, " has spec.replicas ", replicas,
                                              ": a reset needs a group without members. Scale it to zero first "
                                              "(kubectl scale sp ",
                                              name, " --replicas=0), reset, and scale it back"));
}

int Reset(const ClusterContext& context, const ResetOptions& options, int64_t patience) {
  if (options.to.empty() && !options.by)
    return context.base.Misuse("where to? Give --to start, earliest, latest, an offset or a time, or --by N");
  std::vector<std::string> arguments = {"reset"};
  if (!options.to.empty()) arguments.insert(arguments.end(), {"--to", options.to});
  if (options.by) arguments.push_back(StrCat("--by=", *options.by));
  for (const int32_t partition : options.partitions) arguments.push_back(StrCat("--partition=", partition));
  for (const std::string& input : options.inputs) arguments.push_back(StrCat("--input=", input));
  if (options.wipe_state) arguments.push_back("--wipe-state");
  if (options.keep_state) arguments.push_back("--keep-state");
  if (options.execute) arguments.push_back("--execute");
  return RunJob(context, patience, std::move(arguments), options.execute ? CheckStopped : nullptr);
}

int DeadLetters(const ClusterContext& context, const std::string& what, const DeadLetterOptions& options,
                int64_t patience) {
  std::vector<std::string> arguments = {"dead-letters", what};
  for (const int32_t partition : options.partitions) arguments.push_back(StrCat("--partition=", partition));
  if (options.limit > 0) arguments.push_back(StrCat("--limit=", options.limit));
  if (options.all) arguments.push_back("--all");
  if (options.skip_foreign) arguments.push_back("--skip-foreign");
  if (options.execute) arguments.push_back("--execute");
  return RunJob(context, patience, std::move(arguments));
}

void RegisterReset(CLI::App* app, ClusterContext* context, const std::shared_ptr<int64_t>& patience) {
  auto options = std::make_shared<ResetOptions>();
  CLI::App* command =
      app->add_subcommand("reset", "Where a processor goes on reading, its state emptied; a preview unless --execute");
  context->AddName(command);
  CLI::Option* to =
      command->add_option("--to", options->to, "start, earliest, latest, an offset, or a time (RFC 3339)");
  command->add_option("--by", options->by, "So many records further, or back")->type_name("N")->excludes(to);
  command->add_option("-p,--partition", options->partitions, "Only this partition, may be repeated")
      ->check(CLI::NonNegativeNumber)
      ->allow_extra_args(false);
  command->add_option("--input", options->inputs, "Only this input, may be repeated")->allow_extra_args(false);
  CLI::Option* wipe = command->add_flag("--wipe-state", options->wipe_state,
                                        "Empty the stores; the default unless --input names some of the inputs");
  command->add_flag("--keep-state", options->keep_state, "Leave the stores as they are")->excludes(wipe);
  command->add_flag("--execute", options->execute, "Do it; without this only show what would be done");
  command->callback([=] { context->base.selected = [=] { return Reset(*context, *options, *patience); }; });
  command->footer(
      "Runs `millstream reset` as a Job with the processor's own access to Kafka. --execute needs spec.replicas: 0.\n\n"
      "Examples:\n  kubectl millstream reset totals --to earliest\n"
      "  kubectl scale sp totals --replicas=0 && kubectl millstream reset totals --to earliest --execute");
}

void RegisterDeadLetters(CLI::App* app, ClusterContext* context, const std::shared_ptr<int64_t>& patience) {
  CLI::App* group = app->add_subcommand("dead-letters", "Records a processor gave up on: list them, send them back");
  group->require_subcommand(1);
  auto options = std::make_shared<DeadLetterOptions>();
  CLI::App* list = group->add_subcommand("list", "Dead letters that were not replayed yet: where from, and why");
  CLI::App* replay = group->add_subcommand(
      "replay", "Send dead letters back to the topics they came from; a preview unless --execute");
  for (CLI::App* command : {list, replay}) {
    context->AddName(command);
    command->add_option("-p,--partition", options->partitions, "Only this partition, may be repeated")
        ->check(CLI::NonNegativeNumber)
        ->allow_extra_args(false);
    command->add_option("--limit", options->limit, "At most so many")->check(CLI::PositiveNumber)->type_name("N");
  }
  list->add_flag("--all", options->all, "Those that were replayed, too");
  replay->add_flag("--execute", options->execute, "Do it; without this only show what would be sent");
  replay->add_flag("--skip-foreign", options->skip_foreign,
                   "Pass over records that are no dead letters of Millstream instead of ending there");
  list->callback([=] { context->base.selected = [=] { return DeadLetters(*context, "list", *options, *patience); }; });
  replay->callback(
      [=] { context->base.selected = [=] { return DeadLetters(*context, "replay", *options, *patience); }; });
}

}  // namespace

void RegisterClusterJobs(CLI::App* app, ClusterContext* context) {
  auto patience = std::make_shared<int64_t>(300);
  RegisterReset(app, context, patience);
  RegisterDeadLetters(app, context, patience);
  CLI::App* letters = app->get_subcommand("dead-letters");
  for (CLI::App* command :
       {app->get_subcommand("reset"), letters->get_subcommand("list"), letters->get_subcommand("replay")}) {
    context->AddClusterOptions(command);
    command->add_option("--timeout", *patience, "Seconds to wait for the Job; it goes on without")
        ->check(CLI::Range(1, 86400))
        ->capture_default_str();
  }
}

}  // namespace millstream::cli
