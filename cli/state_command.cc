#include <algorithm>
#include <iostream>
#include <map>
#include <optional>
#include <span>

#include "CLI/CLI.hpp"
#include "cli/access/http_state.h"
#include "cli/commands.h"
#include "cli/state_source.h"
#include "cli/text_format.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::cli {
namespace {

struct StateOptions {
  StateQuery query;
  std::string key;
  std::optional<std::string> from, to, prefix;
  std::string key_format = "utf8", value_format = "auto";
  std::string url;
  StateSource source;
};

std::string RowJson(const StateRow& row, ByteFormat key_format, ByteFormat value_format) {
  std::string window;
  if (row.window) {
    window = StrCat(",\"start\":", row.window->start_ms, ",\"end\":", row.window->end_ms, ",\"startTime\":\"",
                    HumanTime(row.window->start_ms), "\",\"endTime\":\"", HumanTime(row.window->end_ms), "\"");
  }
  return StrCat("{\"key\":", ToJsonText(row.key, key_format), window,
                ",\"value\":", ToJsonText(row.value, value_format), ",\"task\":", row.task, "}");
}

// Rows as a table: with the times of windows where there are any.
std::string RowTable(std::span<const StateRow> rows, ByteFormat key_format, ByteFormat value_format) {
  const bool windows =
      std::any_of(rows.begin(), rows.end(), [](const StateRow& row) { return row.window.has_value(); });
  std::vector<std::vector<std::string>> table = {windows
                                                     ? std::vector<std::string>{"KEY", "START", "END", "VALUE", "TASK"}
                                                     : std::vector<std::string>{"KEY", "VALUE", "TASK"}};
  for (const StateRow& row : rows) {
    std::vector<std::string>& line = table.emplace_back();
    line.push_back(ToPlainText(row.key, key_format));
    if (windows) {
      line.push_back(row.window ? HumanTime(row.window->start_ms) : "");
      line.push_back(row.window ? HumanTime(row.window->end_ms) : "");
    }
    line.push_back(ToPlainText(row.value, value_format));
    line.push_back(StrCat(row.task));
  }
  return Table(table);
}

// Where state is asked for: a running sidecar, Kafka's changelogs, or the data folder, whoever holds it.
class Source {
 public:
  static absl::StatusOr<Source> Open(const Context& context, const StateOptions& options) {
    Source source;
    if (options.source.open) {
      MS_ASSIGN_OR_RETURN(source.http_, options.source.open());
      return source;
    }
    if (!options.url.empty()) {
      source.http_ = NewHttpState(options.url);
      return source;
    }
    if (context.OnKafka() && !context.json)
      std::cerr << "reading the changelog topic: committed state, whether the processor runs or not" << std::endl;
    MS_ASSIGN_OR_RETURN(source.access_, context.Open("state", false));
    return source;
  }
  absl::StatusOr<std::vector<StateRow>> Get(const StateQuery& query) {
    return http_ != nullptr ? http_->GetState(query) : access_->GetState(query);
  }
  absl::StatusOr<std::vector<StateRow>> Scan(const StateQuery& query) {
    return http_ != nullptr ? http_->ScanState(query) : access_->ScanState(query);
  }

 private:
  std::unique_ptr<ProcessorBackend> http_;
  std::unique_ptr<LogAccess> access_;
};

int Get(const Context& context, StateOptions options) {
  const ByteFormat key_format = *ParseByteFormat(options.key_format);
  absl::StatusOr<Bytes> key = FromText(options.key, key_format);
  if (!key.ok()) return context.Misuse(std::string(key.status().message()));
  options.query.key = *std::move(key);
  options.query.processor = context.processor;
  absl::StatusOr<Source> source = Source::Open(context, options);
  if (!source.ok()) return context.Fail(source.status());
  const absl::StatusOr<std::vector<StateRow>> rows = source->Get(options.query);
  if (!rows.ok()) return context.Fail(rows.status());
  const ByteFormat value_format = *ParseByteFormat(options.value_format);
  if (context.json) {
    for (const StateRow& row : *rows) std::cout << RowJson(row, key_format, value_format) << '\n';
  } else if (rows->front().window) {
    std::cout << RowTable(*rows, key_format, value_format);
  } else {
    std::cout << ToPlainText(rows->front().value, value_format) << '\n';
  }
  std::cout.flush();
  return kExitOk;
}

absl::Status ResolveRange(StateOptions* options, ByteFormat key_format) {
  if (options->prefix.has_value()) {
    MS_ASSIGN_OR_RETURN(options->query.from, FromText(*options->prefix, key_format));
    options->query.to = PrefixEnd(*options->query.from);
  }
  if (options->from.has_value()) {
    MS_ASSIGN_OR_RETURN(options->query.from, FromText(*options->from, key_format));
  }
  if (options->to.has_value()) {
    MS_ASSIGN_OR_RETURN(options->query.to, FromText(*options->to, key_format));
  }
  return absl::OkStatus();
}

int Scan(const Context& context, StateOptions options) {
  const ByteFormat key_format = *ParseByteFormat(options.key_format);
  if (const absl::Status range = ResolveRange(&options, key_format); !range.ok())
    return context.Misuse(std::string(range.message()));
  options.query.processor = context.processor;
  absl::StatusOr<Source> source = Source::Open(context, options);
  if (!source.ok()) return context.Fail(source.status());
  const size_t wanted = options.query.limit;
  ++options.query.limit;  // one more tells whether there are more
  const absl::StatusOr<std::vector<StateRow>> rows = source->Scan(options.query);
  if (!rows.ok()) return context.Fail(rows.status());
  const ByteFormat value_format = *ParseByteFormat(options.value_format);
  const std::span<const StateRow> shown = std::span(*rows).first(std::min(rows->size(), wanted));
  if (context.json) {
    for (const StateRow& row : shown) std::cout << RowJson(row, key_format, value_format) << '\n';
  } else {
    std::cout << RowTable(shown, key_format, value_format);
  }
  if (rows->size() > wanted)
    std::cerr << "there are more; raise --limit, or narrow with --from, --to or --prefix" << std::endl;
  std::cout.flush();
  return kExitOk;
}

}  // namespace

void RegisterState(CLI::App* app, Context* context) { RegisterState(app, context, StateSource()); }

void RegisterState(CLI::App* app, Context* context, const StateSource& source) {
  const bool elsewhere = source.open != nullptr;
  CLI::App* group = app->add_subcommand("state", elsewhere ? "Look into the stores of a processor"
                                                           : "Look into the stores of a processor, running or not");
  group->require_subcommand(1);
  if (!elsewhere) {
    group->footer(
        "Examples:\n  millstream state get totals alice\n  millstream state scan totals --prefix a --limit 20 -o json\n"
        "  millstream state get totals 42 --key-format int64\n"
        "  millstream state get totals alice -f processor.yaml --kafka localhost:9092");
  }

  auto options = std::make_shared<StateOptions>();
  options->source = source;
  CLI::App* get = group->add_subcommand(
      "get", "The committed value of one key; of a store with windows or sessions all of the key");
  if (source.add_options) source.add_options(get);
  get->add_option("store", options->query.store, "Store")->required();
  get->add_option("key", options->key, "Key, see --key-format")->required();
  get->callback([=] { context->selected = [=] { return Get(*context, *options); }; });

  CLI::App* scan = group->add_subcommand("scan", "Keys and values, task by task, in the order of the key's bytes");
  if (source.add_options) source.add_options(scan);
  scan->add_option("store", options->query.store, "Store")->required();
  scan->add_option("--from", options->from, "First key")->type_name("KEY");
  scan->add_option("--to", options->to, "End before this key")->type_name("KEY");
  scan->add_option("--prefix", options->prefix, "Keys that begin so")
      ->type_name("KEY")
      ->excludes("--from")
      ->excludes("--to");
  scan->add_flag("--reverse", options->query.reverse, "From the last key down");
  scan->add_option(elsewhere ? "--limit" : "-n,--limit", options->query.limit, "At most so many")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  scan->callback([=] { context->selected = [=] { return Scan(*context, *options); }; });

  for (CLI::App* command : {get, scan}) {
    command->add_option("--key-format", options->key_format, "How keys are written and shown")
        ->check(CLI::IsMember({"utf8", "json", "hex", "base64", "int64"}))
        ->capture_default_str()
        ->type_name("utf8|json|hex|base64|int64");
    command->add_option("--value-format", options->value_format, "How values are shown")
        ->check(CLI::IsMember({"auto", "utf8", "json", "hex", "base64", "int64"}))
        ->capture_default_str()
        ->type_name(kByteFormatWords);
    if (!elsewhere) {
      command
          ->add_option("--url", options->url,
                       "Ask a running sidecar over HTTP, as http://HOST:PORT; it answers for the tasks it has")
          ->type_name("URL");
      context->AddLogOptions(command, Context::ManifestFlag::kShort);
    }
    context->AddOutputOption(command);
  }
}

}  // namespace millstream::cli
