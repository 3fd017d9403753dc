#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/text_format.h"
#include "cli/tools/lag.h"
#include "cli/tools/tool.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::cli {
namespace {

using Json = nlohmann::json;

struct LagOptions {
  std::string group;
  bool watch = false;
  double interval = 2;
};

absl::StatusOr<LagRequest> RequestOf(const Context& context, const LagOptions& options) {
  LagRequest request{.group = options.group, .topics = {}, .partitions = {}};
  if (!options.group.empty()) return request;
  MS_ASSIGN_OR_RETURN(const spec::StreamProcessorSpec processor, context.Processor());
  request.group = processor.group;
  for (const spec::InputSpec& input : processor.inputs) request.topics.push_back(input.topic);
  request.partitions = processor.manual_partitions;
  return request;
}

void Print(const Json& report) {
  std::vector<std::vector<std::string>> rows = {{"TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "OWNER"}};
  std::string notes;
  for (const Json& row : report.at("partitions")) {
    const std::string of = StrCat(row.at("topic").get<std::string>(), "-", row.at("partition").get<int>());
    const Json& committed = row.at("committed");
    const Json& owner = row.at("owner");
    rows.push_back({row.at("topic"), row.at("partition").dump(), committed.is_null() ? "-" : committed.dump(),
                    row.at("end").dump(), WithCommas(row.at("lag")), owner.is_null() ? "-" : owner.get<std::string>()});
    if (row.at("lost").get<bool>()) {
      StrAppend(&notes, of, ": OffsetsLost: ", committed.dump(), " is not in the log, which holds ",
                row.at("start").dump(), " to ", row.at("end").dump(), "; see `millstream reset`\n");
    } else if (row.at("stableEnd") < row.at("end")) {
      StrAppend(&notes, of, ": a transaction of a producer is open at ", row.at("stableEnd").dump(),
                ": what follows cannot be read before it ends\n");
    }
  }
  const size_t members = report.at("members").size();
  std::cout << "group " << report.at("group").get<std::string>() << ": " << report.at("state").get<std::string>()
            << ", " << members << (members == 1 ? " member" : " members") << ", lag " << WithCommas(report.at("lag"))
            << "\n"
            << Table(rows) << notes << std::flush;
}

// False when interrupted meanwhile.
bool Wait(double seconds) {
  const absl::Time until = absl::Now() + absl::Seconds(seconds);
  while (Interrupts() == 0 && absl::Now() < until) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  return Interrupts() == 0;
}

int Lag(const Context& context, const LagOptions& options) {
  const absl::StatusOr<LagRequest> request = RequestOf(context, options);
  if (!request.ok()) return context.Fail(request.status());
  if (options.watch) CatchInterrupts();
  do {
    const absl::StatusOr<std::string> answer = context.RunTool("lag", kLagTool, ToJson(*request).dump());
    if (!answer.ok()) return context.Fail(answer.status());
    if (context.json) {
      std::cout << *answer << std::endl;
    } else {
      Print(Json::parse(*answer));
    }
  } while (options.watch && Wait(options.interval));
  return kExitOk;
}

}  // namespace

void RegisterLag(CLI::App* app, Context* context) {
  auto options = std::make_shared<LagOptions>();
  CLI::App* command = app->add_subcommand("lag", "How far a processor is behind, per partition of its inputs");
  command
      ->add_option("--group", options->group,
                   "A group instead of a processor: every topic it has offsets of; no manifest needed")
      ->type_name("GROUP");
  command->add_flag("-w,--watch", options->watch, "Again and again, until Ctrl-C");
  command->add_option("--interval", options->interval, "Seconds between two looks of --watch")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str()
      ->type_name("SECONDS");
  context->AddLogOptions(command, Context::ManifestFlag::kShort);
  context->AddOutputOption(command);
  command->footer(
      "Committed is the next offset to process; lag counts offsets up to the end, those of transaction markers "
      "included. Owner is the member that reads the partition, where Kafka knows.\n\n"
      "Examples:\n"
      "  millstream lag\n"
      "  millstream lag -f processor.yaml --kafka localhost:9092 --watch\n"
      "  millstream lag --group orders-totals --kafka localhost:9092 -o json");
  command->callback([=] { context->selected = [=] { return Lag(*context, *options); }; });
}

}  // namespace millstream::cli
