#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "cli/commands.h"
#include "cli/text_format.h"
#include "cli/tools/adopt.h"
#include "cli/tools/tool.h"
#include "common/base/strings.h"

namespace millstream::cli {
namespace {

using Json = nlohmann::json;

void Print(const Json& plan, const AdoptRequest& request, bool execute) {
  if (plan.at("partitions").empty()) {
    std::cout << "group " << request.group << " belongs to " << request.owner << " already, or has no offsets"
              << std::endl;
    return;
  }
  std::vector<std::vector<std::string>> rows = {{"TOPIC", "PARTITION", "OFFSET", "OWNER", "NEW OWNER"}};
  for (const Json& row : plan.at("partitions")) {
    const Json& owner = row.at("owner");
    rows.push_back({row.at("topic"), row.at("partition").dump(), row.at("offset").dump(),
                    owner.is_null() ? "-" : owner.get<std::string>(), request.owner});
  }
  std::cout << "group " << request.group << "\n" << Table(rows);
  if (execute) {
    std::cout << "adopted" << std::endl;
    return;
  }
  for (const Json& member : plan.at("members"))
    std::cout << "--execute will be refused while this member is alive: " << member.get<std::string>() << "\n";
  std::cout << "nothing was changed; if the old owner is gone for good, run it again with --execute" << std::endl;
}

int Adopt(const Context& context, bool execute) {
  const absl::StatusOr<spec::StreamProcessorSpec> processor = context.Processor();
  if (!processor.ok()) return context.Fail(processor.status());
  AdoptRequest request{.group = processor->group, .owner = processor->OwnerStamp(context.cluster), .topics = {}};
  for (const spec::InputSpec& input : processor->inputs) request.topics.push_back(input.topic);
  Json json = ToJson(request);
  json["execute"] = execute;
  const absl::StatusOr<std::string> text = context.RunTool("adopt", kAdoptTool, json.dump());
  if (!text.ok()) return context.Fail(text.status());
  if (context.json) {
    std::cout << *text << std::endl;
  } else {
    Print(Json::parse(*text), request, execute);
  }
  return kExitOk;
}

}  // namespace

void RegisterAdopt(CLI::App* app, Context* context) {
  auto execute = std::make_shared<bool>(false);
  CLI::App* command = app->add_subcommand("adopt", "Take over a group that belonged to another processor");
  command->add_flag("--execute", *execute, "Do it; without this only show whose it is");
  context->AddClusterOption(command);
  context->AddLogOptions(command, Context::ManifestFlag::kShort);
  context->AddOutputOption(command);
  command->footer(
      "A group belongs to the processor whose name is in the metadata of its offsets; another one of that group "
      "refuses "
      "to start (GroupOwnedByAnother). After a processor was renamed or moved, adopting goes on where it ended: "
      "offsets "
      "and state stay, the name changes. Refused while members are alive.\n\n"
      "Example:\n  millstream adopt -f processor.yaml --kafka localhost:9092");
  command->callback([=] { context->selected = [=] { return Adopt(*context, *execute); }; });
}

}  // namespace millstream::cli
