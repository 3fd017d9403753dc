#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <iostream>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "CLI/CLI.hpp"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "cli/text_format.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::cli {
namespace {

enum class Shape { kJson, kRaw, kBase64 };

struct ConsumeOptions {
  ConsumeRequest request;
  std::string offset = "beginning";
  std::vector<int> partitions;
  std::string isolation = "committed";
  Shape shape = Shape::kJson;
  std::string key_format = "auto", value_format = "auto";
  bool follow = false, from_beginning = false;
  int64_t max_records = -1;
};

// "beginning", "end", "120", "-10" (the last ten), or an RFC 3339 time.
absl::StatusOr<StartAt> ParseStart(const std::string& text) {
  if (text == "beginning") return StartAt{};
  if (text == "end") return StartAt{.where = StartAt::Where::kEnd};
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size()) {
    if (number < 0) return StartAt{.where = StartAt::Where::kLast, .number = -number};
    return StartAt{.where = StartAt::Where::kOffset, .number = number};
  }
  absl::Time time;
  std::string problem;
  if (absl::ParseTime(absl::RFC3339_full, text, &time, &problem))
    return StartAt{.where = StartAt::Where::kTime, .number = absl::ToUnixMillis(time)};
  return absl::InvalidArgumentError(StrCat(
      "--offset ", text, ": give beginning, end, an offset, -N for the last N of each partition, or an RFC 3339 time"));
}

class Printer {
 public:
  Printer(Shape shape, ByteFormat key, ByteFormat value) : shape_(shape), key_(key), value_(value) {}

  // False when nobody reads our output any more.
  bool Print(const ConsumedRecord& consumed) {
    const log::Record& record = consumed.record;
    line_.clear();
    switch (shape_) {
      case Shape::kJson:
        StrAppend(&line_, "{\"partition\":", consumed.partition.value(), ",\"offset\":", record.offset.value(),
                  ",\"timestamp\":\"", HumanTime(record.timestamp_ms), "\",\"key\":", ToJsonText(record.key, key_),
                  ",\"value\":", ToJsonText(record.value, value_));
        AppendHeaders(record.headers);
        line_ += '}';
        break;
      case Shape::kRaw:
        if (record.key.has_value()) StrAppend(&line_, *record.key, "\t");
        if (record.value.has_value()) line_ += *record.value;
        break;
      case Shape::kBase64:
        StrAppend(&line_, consumed.partition.value(), "\t", record.offset.value(), "\t", record.timestamp_ms, "\t",
                  record.key.has_value() ? ToBase64(*record.key) : "-", "\t",
                  record.value.has_value() ? ToBase64(*record.value) : "-");
        break;
    }
    line_ += '\n';
    return std::fwrite(line_.data(), 1, line_.size(), stdout) == line_.size();
  }

 private:
  void AppendHeaders(const Headers& headers) {
    if (headers.empty()) return;
    line_ += ",\"headers\":[";
    for (size_t i = 0; i < headers.size(); ++i) {
      StrAppend(&line_, i == 0 ? "" : ",", "{\"name\":", JsonQuote(headers[i].name),
                ",\"value\":", ToJsonText(headers[i].value, ByteFormat::kUtf8), "}");
    }
    line_ += ']';
  }

  const Shape shape_;
  const ByteFormat key_, value_;
  std::string line_;
};

// The reading of one topic over the life of several holders of the folder.
class Consumer {
 public:
  Consumer(const Context& context, const ConsumeOptions& options, ConsumeRequest request, Printer printer)
      : context_(context), options_(options), request_(std::move(request)), printer_(printer) {}

  absl::Status Run() {
    while (true) {
      const absl::StatusOr<bool> finished = ReadWhileOpen();
      if (finished.ok() && *finished) return absl::OkStatus();
      // Only --follow comes here with an error worth outliving: the process that held the folder has ended.
      if (!finished.ok() && !(options_.follow && absl::IsUnavailable(finished.status()))) return finished.status();
      if (!WaitASecond()) return absl::OkStatus();
    }
  }

 private:
  // True: done. False: --follow is at the end of a folder that nobody else holds; it is let go meanwhile, so that
  // others can have it.
  absl::StatusOr<bool> ReadWhileOpen() {
    MS_ASSIGN_OR_RETURN(std::unique_ptr<LogAccess> access, context_.Open("consume", false));
    const bool ours = access->Holder() == "this process";
    MS_ASSIGN_OR_RETURN(std::vector<Reading> readings, Readings(access.get()));
    while (true) {
      bool at_end = true;
      for (Reading& reading : readings) {
        if (Interrupts() > 0) return true;
        MS_ASSIGN_OR_RETURN(const ConsumedChunk chunk,
                            reading.source->Next(absl::Milliseconds(reading.at_end ? 200 : 1000)));
        for (const ConsumedRecord& record : chunk.records) {
          if (printed_ == options_.max_records) return true;
          positions_[record.partition] = record.record.offset.Next();
          ++printed_;
          if (!printer_.Print(record)) return true;
        }
        for (const auto& [partition, next] : chunk.positions) positions_[partition] = next;
        reading.at_end = chunk.at_end;
        at_end = at_end && chunk.at_end;
      }
      if (std::fflush(stdout) != 0 || printed_ == options_.max_records) return true;
      if (at_end && !options_.follow) return true;
      if (at_end && ours) return false;
    }
  }

  struct Reading {
    std::unique_ptr<RecordSource> source;
    bool at_end = false;
  };

  // The first time one source from the wished start; later one per partition from where we were.
  absl::StatusOr<std::vector<Reading>> Readings(LogAccess* access) {
    std::vector<Reading> readings;
    if (positions_.empty()) {
      MS_ASSIGN_OR_RETURN(std::unique_ptr<RecordSource> source, access->OpenSource(request_));
      readings.push_back({std::move(source), false});
      return readings;
    }
    for (const auto& [partition, next] : positions_) {
      ConsumeRequest request = request_;
      request.partitions = {partition};
      request.start = {.where = StartAt::Where::kOffset, .number = next.value()};
      MS_ASSIGN_OR_RETURN(std::unique_ptr<RecordSource> source, access->OpenSource(request));
      readings.push_back({std::move(source), false});
    }
    return readings;
  }

  // False when interrupted meanwhile.
  static bool WaitASecond() {
    for (int i = 0; i < 20 && Interrupts() == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return Interrupts() == 0;
  }

  const Context& context_;
  const ConsumeOptions& options_;
  const ConsumeRequest request_;
  Printer printer_;
  std::map<Partition, Offset> positions_;
  int64_t printed_ = 0;
};

int Consume(const Context& context, const ConsumeOptions& options) {
  ConsumeRequest request = options.request;
  const absl::StatusOr<StartAt> start = ParseStart(options.offset);
  if (!start.ok()) return context.Misuse(std::string(start.status().message()));
  request.start = *start;
  for (const int partition : options.partitions) request.partitions.push_back(Partition(partition));
  request.isolation =
      options.isolation == "committed" ? log::Isolation::kReadCommitted : log::Isolation::kReadUncommitted;

  CatchInterrupts();
  Consumer consumer(
      context, options, std::move(request),
      Printer(options.shape, *ParseByteFormat(options.key_format), *ParseByteFormat(options.value_format)));
  const absl::Status outcome = consumer.Run();
  std::fflush(stdout);
  return outcome.ok() ? kExitOk : context.Fail(outcome);
}

}  // namespace

void RegisterConsume(CLI::App* app, Context* context) {
  auto options = std::make_shared<ConsumeOptions>();
  CLI::App* command = app->add_subcommand("consume", "Print the records of a topic, from its beginning to its end");
  command->add_option("topic", options->request.topic, "Topic")->required();
  command->add_flag("--follow", options->follow,
                    "Go on with what comes later, until Ctrl-C; also over restarts of `millstream run`");
  command
      ->add_option(
          "--offset", options->offset,
          "Where to begin: beginning, end, an offset, -N for the last N of each partition, or an RFC 3339 time")
      ->capture_default_str()
      ->type_name("WHERE");
  command->add_flag("--from-beginning", options->from_beginning, "The same as --offset beginning, which is the default")
      ->excludes("--offset");
  command->add_option("-p,--partition", options->partitions, "Only this partition, may be repeated")
      ->check(CLI::NonNegativeNumber)
      ->allow_extra_args(false);
  command->add_option("-n,--max", options->max_records, "End after so many records")
      ->check(CLI::PositiveNumber)
      ->type_name("N");
  command
      ->add_option("--isolation", options->isolation,
                   "committed: results of finished transactions; uncommitted: everything in the log")
      ->check(CLI::IsMember({"committed", "uncommitted"}))
      ->capture_default_str()
      ->type_name("committed|uncommitted");
  const std::map<std::string, Shape> shapes = {
      {"json", Shape::kJson}, {"raw", Shape::kRaw}, {"base64", Shape::kBase64}};
  command
      ->add_option(
          "-f,--format,-o,--output", options->shape,
          "json: one object per record; raw: KEY<TAB>VALUE as the bytes are (what produce --format raw reads); "
          "base64: PARTITION OFFSET TIMESTAMP KEY VALUE with tabs between, - for null")
      ->transform(CLI::CheckedTransformer(shapes).description(""))
      ->type_name("json|raw|base64");
  for (auto [name, format] :
       {std::pair("--key-format", &options->key_format), std::pair("--value-format", &options->value_format)}) {
    command->add_option(name, *format, "json: how the bytes are shown; auto is JSON, else text, else {\"base64\": ...}")
        ->check(CLI::IsMember({"auto", "utf8", "json", "hex", "base64", "int64"}))
        ->capture_default_str()
        ->type_name(kByteFormatWords);
  }
  context->AddLogOptions(command, Context::ManifestFlag::kLong);
  command->footer(
      "Examples:\n"
      "  millstream consume customer-totals --follow\n"
      "  millstream consume orders --offset -5 --partition 0\n"
      "  millstream consume orders --format raw | millstream produce orders-copy --format raw");
  command->callback([=] { context->selected = [=] { return Consume(*context, *options); }; });
}

}  // namespace millstream::cli
