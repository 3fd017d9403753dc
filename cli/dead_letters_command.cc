#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/escaping.h"
#include "cli/commands.h"
#include "cli/text_format.h"
#include "cli/tools/dead_letters.h"
#include "cli/tools/tool.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::cli {
namespace {

using Json = nlohmann::json;

struct DeadLetterOptions {
  std::vector<int32_t> partitions;
  bool all = false, skip_foreign = false, execute = false;
  int64_t list_limit = 100, replay_limit = 0;
};

log::KeyHash HashOf(spec::Partitioner partitioner) {
  switch (partitioner) {
    case spec::Partitioner::kMurmur2:
      break;
    case spec::Partitioner::kCrc32:
      return log::KeyHash::kCrc32;
    case spec::Partitioner::kFnv1a:
      return log::KeyHash::kFnv1a;
  }
  return log::KeyHash::kMurmur2;
}

absl::StatusOr<DeadLetterRequest> RequestOf(const Context& context, const DeadLetterOptions& options) {
  MS_ASSIGN_OR_RETURN(const spec::StreamProcessorSpec processor, context.Processor());
  DeadLetterRequest request;
  request.group = processor.group;
  request.owner = processor.OwnerStamp(context.cluster);
  request.topic = processor.errors.dead_letter_topic;
  for (const spec::InputSpec& input : processor.inputs) request.hashes[input.topic] = HashOf(input.partitioner);
  request.partitions = options.partitions;
  request.all = options.all;
  request.skip_foreign = options.skip_foreign;
  return request;
}

MaybeBytes BytesOf(const Json& base64) {
  if (base64.is_null()) return std::nullopt;
  std::string bytes;
  absl::Base64Unescape(ToAbsl(base64.get_ref<const std::string&>()), &bytes);
  return bytes;
}

std::string Shortened(const std::string& text, size_t most) {
  const std::string line = text.substr(0, text.find('\n'));
  return line.size() <= most ? line : line.substr(0, most) + "...";
}

// One letter as `consume` would show it, with its origin beside it.
void PrintJson(const Json& letter) {
  std::string line =
      StrCat("{\"partition\":", letter.at("partition").dump(), ",\"offset\":", letter.at("offset").dump(),
             ",\"timestamp\":", JsonQuote(HumanTime(letter.at("timestampMs"))),
             ",\"key\":", ToJsonText(BytesOf(letter.at("key")), ByteFormat::kAuto),
             ",\"value\":", ToJsonText(BytesOf(letter.at("value")), ByteFormat::kAuto), ",\"headers\":[");
  bool first = true;
  for (const Json& header : letter.at("headers")) {
    StrAppend(&line, first ? "" : ",", "{\"name\":", JsonQuote(*BytesOf(header.at("name"))),
              ",\"value\":", ToJsonText(BytesOf(header.at("value")), ByteFormat::kUtf8), "}");
    first = false;
  }
  StrAppend(
      &line, "],\"origin\":",
      letter.contains("origin") ? letter.at("origin").dump(-1, ' ', false, Json::error_handler_t::replace) : "null",
      ",\"replayed\":", letter.at("replayed").dump(), "}");
  std::cout << line << '\n';
}

void PrintTable(const Json& answer) {
  std::vector<std::vector<std::string>> rows = {{"LETTER", "TIME", "FROM", "KEY", "CLASS", "ATTEMPTS", "ERROR"}};
  for (const Json& letter : answer.at("letters")) {
    const std::string place = StrCat(letter.at("partition").get<int>(), ":", letter.at("offset").get<int64_t>(),
                                     letter.at("replayed").get<bool>() ? " (replayed)" : "");
    const std::string key = Shortened(ToPlainText(BytesOf(letter.at("key")), ByteFormat::kAuto), 30);
    if (!letter.contains("origin")) {
      rows.push_back({place, HumanTime(letter.at("timestampMs")), "?", key, "?", "?", "no dead letter of Millstream"});
      continue;
    }
    const Json& origin = letter.at("origin");
    rows.push_back({place, HumanTime(letter.at("timestampMs")),
                    StrCat(origin.at("topic").get<std::string>(), "-", origin.at("partition").get<int>(), " @",
                           origin.at("offset").get<int64_t>()),
                    key, origin.at("class"), origin.at("attempts"), Shortened(origin.at("error"), 80)});
  }
  if (rows.size() == 1) {
    std::cout << "no dead letters that were not replayed yet (--all shows those too)\n";
  } else {
    std::cout << Table(rows);
  }
}

int List(const Context& context, const DeadLetterOptions& options) {
  absl::StatusOr<DeadLetterRequest> request = RequestOf(context, options);
  if (!request.ok()) return context.Fail(request.status());
  request->limit = options.list_limit;
  const absl::StatusOr<std::string> text =
      context.RunTool("dead-letters", kListDeadLettersTool, ToJson(*request).dump());
  if (!text.ok()) return context.Fail(text.status());
  const Json answer = Json::parse(*text);
  if (context.json) {
    for (const Json& letter : answer.at("letters")) PrintJson(letter);
  } else {
    PrintTable(answer);
  }
  std::cout.flush();
  if (answer.at("more").get<bool>()) std::cerr << "there are more; raise --limit, or choose a --partition" << std::endl;
  return kExitOk;
}

int Replay(const Context& context, const DeadLetterOptions& options) {
  absl::StatusOr<DeadLetterRequest> request = RequestOf(context, options);
  if (!request.ok()) return context.Fail(request.status());
  request->limit = options.replay_limit;
  Json json = ToJson(*request);
  json["execute"] = options.execute;
  const absl::StatusOr<std::string> text = context.RunTool("dead-letters", kReplayDeadLettersTool, json.dump());
  if (!text.ok()) return context.Fail(text.status());
  if (context.json) {
    std::cout << *text << std::endl;
    return kExitOk;
  }
  const Json answer = Json::parse(*text);
  std::vector<std::vector<std::string>> rows = {{"TO", "PARTITION", "RECORDS"}};
  for (const Json& to : answer.at("to"))
    rows.push_back({to.at("topic"), to.at("partition").dump(), WithCommas(to.at("records"))});
  if (rows.size() > 1) std::cout << Table(rows);
  const int64_t records = answer.at("records"), foreign = answer.at("foreign");
  if (foreign > 0) std::cout << WithCommas(foreign) << " records that are no dead letters of Millstream passed over\n";
  std::cout << WithCommas(records) << (records == 1 ? " dead letter" : " dead letters");
  if (answer.at("more").get<bool>()) std::cout << ", and more beyond --limit";
  std::cout << (options.execute ? " sent back" : " to send back; nothing was sent, run it again with --execute")
            << std::endl;
  return kExitOk;
}

}  // namespace

void RegisterDeadLetters(CLI::App* app, Context* context) {
  CLI::App* group = app->add_subcommand("dead-letters", "Records a processor gave up on: list them, send them back");
  group->require_subcommand(1);
  group->footer(
      "Examples:\n  millstream dead-letters list\n  millstream dead-letters replay --execute\n"
      "  millstream dead-letters list -f processor.yaml --kafka localhost:9092 -o json");

  auto options = std::make_shared<DeadLetterOptions>();
  CLI::App* list = group->add_subcommand("list", "Dead letters that were not replayed yet: where from, and why");
  list->add_flag("--all", options->all, "Those that were replayed, too");
  list->add_option("-n,--limit", options->list_limit, "At most so many")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  list->callback([=] { context->selected = [=] { return List(*context, *options); }; });

  CLI::App* replay = group->add_subcommand("replay", "Send dead letters back to the topics they came from, each once");
  replay->add_flag("--execute", options->execute, "Do it; without this only show what would be sent");
  replay->add_option("-n,--limit", options->replay_limit, "The oldest so many; default: all")
      ->check(CLI::PositiveNumber)
      ->type_name("N");
  replay->add_flag("--skip-foreign", options->skip_foreign,
                   "Pass over records that are no dead letters of Millstream instead of ending there");
  replay->footer(
      "Key, value, headers and time are sent as they were, without the millstream.error headers, to the partition they "
      "came from. The offsets of group <group>-dead-letters say what was sent, and commit in the same transaction: a "
      "replay that is killed and started again sends nothing twice. The processor may run meanwhile.");
  replay->callback([=] { context->selected = [=] { return Replay(*context, *options); }; });

  for (CLI::App* command : {list, replay}) {
    command
        ->add_option("-p,--partition", options->partitions,
                     "Only this partition of the dead-letter topic, may be repeated")
        ->check(CLI::NonNegativeNumber)
        ->allow_extra_args(false);
    context->AddClusterOption(command);
    context->AddLogOptions(command, Context::ManifestFlag::kShort);
    context->AddOutputOption(command);
  }
}

}  // namespace millstream::cli
