#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "cli/commands.h"
#include "cli/text_format.h"
#include "cli/tools/empty_group.h"
#include "cli/tools/reset.h"
#include "cli/tools/tool.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::cli {
namespace {

using Json = nlohmann::json;

struct ResetOptions {
  std::string to;
  std::optional<int64_t> by;
  std::vector<std::string> inputs;
  std::vector<int32_t> partitions;
  bool keep_state = false, wipe_state = false, execute = false;
};

// Topics that hold the processor's state; a store without one is emptied whenever its task opens.
std::vector<std::string> ChangelogsOf(const spec::StreamProcessorSpec& processor) {
  std::vector<std::string> changelogs;
  for (const spec::InternalTopic& topic : spec::InternalTopicsOf(processor)) {
    if (topic.kind == spec::InternalTopic::Kind::kChangelog) changelogs.push_back(topic.topic);
  }
  return changelogs;
}

absl::Status AddInputs(const spec::StreamProcessorSpec& processor, const ResetOptions& options, ResetRequest* request) {
  for (const std::string& wanted : options.inputs) {
    const auto known = [&](const spec::InputSpec& input) { return input.name == wanted || input.topic == wanted; };
    if (std::none_of(processor.inputs.begin(), processor.inputs.end(), known)) {
      std::string names;
      for (const spec::InputSpec& input : processor.inputs) StrAppend(&names, names.empty() ? "" : ", ", input.name);
      return absl::InvalidArgumentError(StrCat("--input ", wanted, ": there are ", names));
    }
  }
  for (const spec::InputSpec& input : processor.inputs) {
    const auto wanted = [&](const std::string& name) { return input.name == name || input.topic == name; };
    const bool named = std::any_of(options.inputs.begin(), options.inputs.end(), wanted);
    // What is in the loop was made of the other inputs' records, as state was: with the state it goes, without it
    // stays.
    if (!named && (input.loop ? options.keep_state : !options.inputs.empty())) continue;
    request->inputs.push_back(
        {.topic = input.topic, .start_from = input.start_from, .to_end = input.loop && !options.keep_state});
  }
  return absl::OkStatus();
}

absl::StatusOr<ResetRequest> RequestOf(const Context& context, const spec::StreamProcessorSpec& processor,
                                       const ResetOptions& options) {
  ResetRequest request;
  request.group = processor.group;
  request.owner = processor.OwnerStamp(context.cluster);
  request.partitions = options.partitions.empty() ? processor.manual_partitions : options.partitions;
  if (options.by.has_value()) {
    request.target = {ResetTarget::Kind::kBy, *options.by};
  } else {
    MS_ASSIGN_OR_RETURN(request.target, ParseResetTarget(options.to));
  }
  MS_RETURN_IF_ERROR(AddInputs(processor, options, &request));
  const std::vector<std::string> changelogs = ChangelogsOf(processor);
  const auto left_out = [&](const spec::InputSpec& input) {
    return !input.loop && std::none_of(request.inputs.begin(), request.inputs.end(),
                                       [&](const ResetRequest::Input& moved) { return moved.topic == input.topic; });
  };
  const bool some_inputs = std::any_of(processor.inputs.begin(), processor.inputs.end(), left_out);
  if (some_inputs && !changelogs.empty() && !options.keep_state && !options.wipe_state) {
    return absl::InvalidArgumentError(
        "--input moves some of the inputs, but the stores hold what all of them have put there: --wipe-state empties "
        "them (what the other inputs put there is gone), --keep-state leaves them (records that are read again count "
        "twice)");
  }
  if (!options.keep_state) request.changelogs = changelogs;
  return request;
}

void PrintPlan(const Json& plan, const spec::StreamProcessorSpec& processor, const ResetRequest& request) {
  std::vector<std::vector<std::string>> rows = {{"TOPIC", "PARTITION", "FROM", "TO", "RECORDS", ""}};
  for (const Json& row : plan.at("partitions")) {
    const Json& from = row.at("from");
    const int64_t to = row.at("to"), distance = from.is_null() ? 0 : to - from.get<int64_t>();
    std::string note = row.at("clamped").get<bool>() ? "as far as there are records" : "";
    if (distance > 0) note = StrCat("skipped", note.empty() ? "" : "; ", note);
    if (distance < 0) note = StrCat("read again", note.empty() ? "" : "; ", note);
    rows.push_back({row.at("topic"), row.at("partition").dump(), from.is_null() ? "-" : from.dump(), StrCat(to),
                    WithCommas(std::abs(distance)), note});
  }
  std::cout << "group " << request.group << " of " << processor.QualifiedName() << "\n" << Table(rows);
  const bool has_state = !ChangelogsOf(processor).empty();
  if (!request.changelogs.empty()) {
    std::cout << "state: every store of these tasks is emptied (tombstones in ";
    for (size_t i = 0; i < request.changelogs.size(); ++i) std::cout << (i == 0 ? "" : ", ") << request.changelogs[i];
    std::cout << "; at most " << WithCommas(plan.at("changelogOffsets")) << " records)\n";
  } else if (has_state) {
    std::cout << "state: kept as it is; records that are read again count twice, skipped ones never\n";
  }
  std::cout << "outputs: what was sent stays; records that are read again are sent again\n";
}

std::string Listed(const Json& names) {
  std::string list;
  for (const Json& name : names) StrAppend(&list, list.empty() ? "" : ", ", name.get<std::string>());
  return list;
}

// The partitions of a plan that an execution which ended early has not come to.
std::string Left(const Json& answer) {
  std::string list;
  const Json& done = answer.at("done").at("tasks");
  for (const Json& task : answer.at("tasks")) {
    if (std::find(done.begin(), done.end(), task) == done.end()) StrAppend(&list, " --partition ", task.get<int>());
  }
  return list;
}

int Reset(const Context& context, const ResetOptions& options) {
  const absl::StatusOr<spec::StreamProcessorSpec> processor = context.Processor();
  if (!processor.ok()) return context.Fail(processor.status());
  const absl::StatusOr<ResetRequest> request = RequestOf(context, *processor, options);
  if (!request.ok()) return context.Misuse(std::string(request.status().message()));
  Json json = ToJson(*request);
  json["execute"] = options.execute;
  const absl::StatusOr<std::string> text = context.RunTool("reset", kResetTool, json.dump());
  if (!text.ok()) return context.Fail(text.status());
  const Json answer = Json::parse(*text);
  if (options.execute && answer.at("done").contains("error")) {
    return context.Fail(
        absl::AbortedError(StrCat(answer.at("done").at("error").get<std::string>(), "; ",
                                  answer.at("done").at("tasks").size(), " of ", answer.at("tasks").size(),
                                  " tasks are reset, the others are as they "
                                  "were: go on with",
                                  Left(answer))));
  }
  if (context.json) {
    std::cout << *text << std::endl;
    return kExitOk;
  }
  PrintPlan(answer, *processor, *request);
  if (options.execute) {
    std::cout << "done: " << answer.at("done").at("tasks").size() << " tasks, "
              << WithCommas(answer.at("done").at("tombstones")) << " state records emptied" << std::endl;
    return kExitOk;
  }
  if (!answer.at("members").empty())
    std::cout << "--execute will be refused while members are alive: " << Listed(answer.at("members")) << "\n";
  std::cout << "nothing was changed; run it again with --execute" << std::endl;
  return kExitOk;
}

}  // namespace

void RegisterReset(CLI::App* app, Context* context) {
  auto options = std::make_shared<ResetOptions>();
  CLI::App* command = app->add_subcommand("reset", "Read inputs again or skip: offsets and state move together");
  CLI::Option* to =
      command
          ->add_option("--to", options->to,
                       "Where to: start (as startFrom in the manifest says), earliest, latest, an offset, "
                       "or an RFC 3339 time")
          ->type_name("WHERE");
  command->add_option("--by", options->by, "So many records on, or back with -N, from what is committed")
      ->excludes(to)
      ->type_name("N");
  command->add_option("--input", options->inputs, "Only this input, may be repeated; default: all")
      ->allow_extra_args(false)
      ->type_name("NAME");
  command->add_option("-p,--partition", options->partitions, "Only this partition (task), may be repeated")
      ->check(CLI::NonNegativeNumber)
      ->allow_extra_args(false);
  CLI::Option* wipe = command->add_flag("--wipe-state", options->wipe_state,
                                        "Empty the stores; the default unless --input names some of the inputs");
  command->add_flag("--keep-state", options->keep_state, "Leave the stores as they are")->excludes(wipe);
  command->add_flag("--execute", options->execute, "Do it; without this only show what would be done");
  context->AddClusterOption(command);
  context->AddLogOptions(command, Context::ManifestFlag::kShort);
  context->AddOutputOption(command);
  command->footer(
      "Every task is reset in one transaction: its offsets and a tombstone for every key of its stores. Refused while "
      "the processor runs. Why state goes with offsets: docs/guides/reset.md.\n\n"
      "Examples:\n"
      "  millstream reset --to earliest\n"
      "  millstream reset -f processor.yaml --kafka localhost:9092 --to 2024-05-01T00:00:00Z --execute\n"
      "  millstream reset --by 1 --partition 3 --keep-state --execute     # jump over one record");
  command->callback([=] {
    context->selected = [=]() -> int {
      if (options->to.empty() && !options->by.has_value())
        return context->Misuse("where to? Give --to start, earliest, latest, an offset or a time, or --by N");
      return Reset(*context, *options);
    };
  });
}

}  // namespace millstream::cli
