#include <iostream>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "cli/commands.h"
#include "cli/input_reader.h"
#include "cli/progress.h"
#include "cli/text_format.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/log/partitioner.h"
#include "common/spec/manifest.h"

namespace millstream::cli {
namespace {

struct ProduceOptions {
  std::string topic;
  std::string file = "-";
  RecordParserOptions parser;
  std::string delimiter = ",";
  std::string null_text;
  bool has_null_text = false;
  std::vector<std::string> headers;
  int partition = -1;
  std::optional<int> partitions;
  std::string partitioner;  // empty: as the manifest declares, else murmur2
  bool skip_bad = false;
};

constexpr size_t kBatchRecords = 2000;
constexpr size_t kBatchBytes = 1 << 20;
// What a crash in the middle can lose of what was sent and not reported as durable.
constexpr size_t kRecordsPerFlush = 100'000;
// A slow pipe: so long nothing new means "show what there is"; and at most so often durable.
constexpr absl::Duration kStall = absl::Milliseconds(20);
constexpr absl::Duration kFlushInterval = absl::Milliseconds(100);

absl::StatusOr<Headers> ParseHeaders(const std::vector<std::string>& pairs) {
  Headers headers;
  for (const std::string& pair : pairs) {
    const size_t at = pair.find('=');
    if (at == std::string::npos || at == 0)
      return absl::InvalidArgumentError(StrCat("--header ", pair, ": give it as NAME=VALUE"));
    headers.push_back({pair.substr(0, at), pair.substr(at + 1)});
  }
  return headers;
}

constexpr int kDefaultPartitions = 4;

// The topic's partition count; the topic is made if it is not there. On a Kafka, which others use, only when asked for.
absl::StatusOr<int> EnsureTopic(LogAccess* access, const Context& context, const ProduceOptions& options) {
  const std::string& topic = options.topic;
  absl::StatusOr<TopicDetail> detail = access->DescribeTopic(topic);
  if (detail.ok()) return detail->info.partitions;
  if (!absl::IsNotFound(detail.status())) return detail.status();
  if (context.OnKafka() && !options.partitions.has_value()) {
    return absl::NotFoundError(StrCat("there is no topic ", topic, " at ", access->Holder(),
                                      "; --partitions N makes it, unless the name is wrong"));
  }
  const int partitions = options.partitions.value_or(kDefaultPartitions);
  const absl::Status created = access->CreateTopic({.name = topic, .partitions = partitions, .config = {}});
  if (created.ok()) {
    std::cerr << "topic " << topic << " made with " << partitions << " partitions" << std::endl;
    return partitions;
  }
  if (!absl::IsAlreadyExists(created)) return created;
  detail = access->DescribeTopic(topic);
  return detail.ok() ? absl::StatusOr<int>(detail->info.partitions) : detail.status();
}

// The time before which the topic's brokers delete records (a Kafka goes by the records' own times); lowest: they do
// not.
int64_t KeptSince(LogAccess* access, const Context& context, const std::string& topic) {
  constexpr int64_t kForEver = std::numeric_limits<int64_t>::min();
  if (!context.OnKafka()) return kForEver;
  const absl::StatusOr<TopicDetail> detail = access->DescribeTopic(topic);
  if (!detail.ok()) return kForEver;
  const auto setting = [&](const char* name) {
    const auto found = detail->info.config.find(name);
    return found == detail->info.config.end() ? std::string() : found->second;
  };
  int64_t retention = -1;
  if (setting("cleanup.policy").find("delete") == std::string::npos) return kForEver;
  if (setting("message.timestamp.type") == "LogAppendTime") return kForEver;
  if (!absl::SimpleAtoi(setting("retention.ms"), &retention) || retention < 0) return kForEver;
  const int64_t now = SystemClock().WallMillis();
  return retention > now ? kForEver : now - retention;
}

// Chooses partitions: by the key's hash; records without a key go to one partition per batch, in turn.
class Router {
 public:
  Router(const ProduceOptions& options, int count) : fixed_(options.partition), count_(count) {
    if (options.partitioner == "crc32") hash_ = log::KeyHash::kCrc32;
    if (options.partitioner == "fnv1a") hash_ = log::KeyHash::kFnv1a;
  }
  Partition Of(const MaybeBytes& key) const {
    if (fixed_ >= 0) return Partition(fixed_);
    if (!key.has_value()) return Partition(turn_ % count_);
    return log::PartitionOfKey(hash_, *key, count_);
  }
  void NextBatch() { ++turn_; }

 private:
  const int fixed_;
  const int count_;
  log::KeyHash hash_ = log::KeyHash::kMurmur2;
  int turn_ = 0;
};

class Producer {
 public:
  // `kept_since`: see KeptSince.
  Producer(const ProduceOptions& options, Headers headers, int partitions, int64_t kept_since, LineReader* lines,
           RecordSink* sink)
      : options_(options),
        headers_(std::move(headers)),
        router_(options, partitions),
        kept_since_(kept_since),
        lines_(lines),
        sink_(sink),
        parser_(options.parser, lines),
        progress_(options.topic) {}

  // Everything of the input; on an error what came before it is durable all the same.
  absl::Status Run() {
    const absl::Status outcome = Loop();
    const absl::Status sent = SendBatch();
    const absl::Status flushed = sink_->Flush();
    if (flushed.ok()) durable_ = sent_;
    if (!outcome.ok()) return outcome;
    return sent.ok() ? flushed : sent;
  }

  int64_t durable() const { return durable_; }
  int64_t skipped() const { return skipped_; }
  int64_t too_old() const { return too_old_; }  // records that the brokers delete soon
  int64_t bytes() const { return bytes_; }

 private:
  absl::Status Loop() {
    while (true) {
      if (!lines_->Ready(absl::ZeroDuration()) && !lines_->Ready(kStall)) MS_RETURN_IF_ERROR(ShowWhatThereIs());
      absl::StatusOr<std::optional<ParsedRecord>> record = parser_.Next();
      if (absl::IsInvalidArgument(record.status()) && options_.skip_bad) {
        ++skipped_;
        if (skipped_ <= 10) std::cerr << "skipped: " << record.status().message() << std::endl;
        continue;
      }
      MS_RETURN_IF_ERROR(record.status());
      if (!record->has_value()) return absl::OkStatus();
      Add(**std::move(record));
      if (batch_.size() >= kBatchRecords || batch_bytes_ >= kBatchBytes) MS_RETURN_IF_ERROR(SendBatch());
      if (sent_ - durable_ >= static_cast<int64_t>(kRecordsPerFlush)) MS_RETURN_IF_ERROR(Flush());
      progress_.Update(lines_->bytes_read(), lines_->total_bytes(), sent_);
    }
  }

  void Add(ParsedRecord record) {
    log::OutgoingRecord out;
    out.to = {options_.topic, router_.Of(record.key)};
    out.timestamp_ms = record.timestamp_ms.value_or(SystemClock().WallMillis());
    if (out.timestamp_ms < kept_since_) ++too_old_;
    batch_bytes_ += (record.key ? record.key->size() : 0) + (record.value ? record.value->size() : 0) + 64;
    out.key = std::move(record.key);
    out.value = std::move(record.value);
    out.headers = headers_;
    batch_.push_back(std::move(out));
  }

  absl::Status SendBatch() {
    if (batch_.empty()) return absl::OkStatus();
    const int64_t count = static_cast<int64_t>(batch_.size());
    bytes_ += static_cast<int64_t>(batch_bytes_);
    batch_bytes_ = 0;
    router_.NextBatch();
    MS_RETURN_IF_ERROR(sink_->Append(std::exchange(batch_, {})));
    sent_ += count;
    return absl::OkStatus();
  }

  absl::Status Flush() {
    MS_RETURN_IF_ERROR(sink_->Flush());
    durable_ = sent_;
    flushed_at_ = SystemClock().Monotonic();
    return absl::OkStatus();
  }

  // The input pauses (a person types, a slow program writes): what came so far becomes readable.
  absl::Status ShowWhatThereIs() {
    MS_RETURN_IF_ERROR(SendBatch());
    if (sent_ == durable_) return absl::OkStatus();
    const absl::Duration since = SystemClock().Monotonic() - flushed_at_;
    if (since < kFlushInterval && lines_->Ready(kFlushInterval - since)) return absl::OkStatus();
    return Flush();
  }

  const ProduceOptions& options_;
  const Headers headers_;
  Router router_;
  const int64_t kept_since_;
  LineReader* const lines_;
  RecordSink* const sink_;
  RecordParser parser_;
  ProgressBar progress_;
  std::vector<log::OutgoingRecord> batch_;
  size_t batch_bytes_ = 0;
  int64_t sent_ = 0, durable_ = 0, skipped_ = 0, too_old_ = 0, bytes_ = 0;
  absl::Duration flushed_at_ = absl::ZeroDuration();
};

// How the producers of the topic hash keys, as the manifest declares it for the input (or output) of that topic.
absl::StatusOr<std::string> DeclaredPartitioner(const Context& context, const std::string& topic) {
  spec::Partitioner declared = spec::Partitioner::kMurmur2;
  if (!context.manifest.empty()) {
    const spec::ParseResult parsed = spec::ValidateFiles({context.manifest});
    if (!parsed.ok()) return absl::InvalidArgumentError(spec::ToText(parsed.diagnostics));
    for (const spec::Manifest& manifest : parsed.manifests) {
      for (const spec::OutputSpec& output : manifest.processor.outputs)
        if (output.topic == topic) declared = output.partitioner;
      for (const spec::InputSpec& input : manifest.processor.inputs)
        if (input.topic == topic) declared = input.partitioner;
    }
  }
  if (declared == spec::Partitioner::kCrc32) return "crc32";
  return declared == spec::Partitioner::kFnv1a ? "fnv1a" : "murmur2";
}

int Produce(const Context& context, ProduceOptions options) {
  if (options.partitioner.empty()) {
    absl::StatusOr<std::string> declared = DeclaredPartitioner(context, options.topic);
    if (!declared.ok()) return context.Fail(declared.status());
    options.partitioner = *std::move(declared);
  }
  const absl::StatusOr<Headers> headers = ParseHeaders(options.headers);
  if (!headers.ok()) return context.Misuse(std::string(headers.status().message()));
  absl::StatusOr<LineReader> lines = LineReader::Open(options.file);
  if (!lines.ok()) return context.Fail(lines.status());
  absl::StatusOr<std::unique_ptr<LogAccess>> access = context.Open("produce", true);
  if (!access.ok()) return context.Fail(access.status());
  const absl::StatusOr<int> partitions = EnsureTopic(access->get(), context, options);
  if (!partitions.ok()) return context.Fail(partitions.status());
  if (options.partition >= *partitions) {
    return context.Fail(absl::InvalidArgumentError(
        StrCat("topic ", options.topic, " has the partitions 0 to ", *partitions - 1, ", not ", options.partition)));
  }
  absl::StatusOr<std::unique_ptr<RecordSink>> sink = (*access)->OpenSink();
  if (!sink.ok()) return context.Fail(sink.status());

  const absl::Duration start = SystemClock().Monotonic();
  Producer producer(options, *headers, *partitions, KeptSince(access->get(), context, options.topic), &*lines,
                    sink->get());
  const absl::Status outcome = producer.Run();
  const double seconds = absl::ToDoubleSeconds(SystemClock().Monotonic() - start);
  if (!outcome.ok()) {
    const bool bad_line = absl::IsInvalidArgument(outcome) && !options.skip_bad;
    return context.Fail(absl::Status(
        outcome.code(),
        StrCat(std::string(outcome.message()), "; ", WithCommas(producer.durable()),
               " records before it are in the topic", bad_line ? " (--skip-bad passes over bad lines)" : "")));
  }
  if (producer.too_old() > 0) {
    std::cerr << "warning: " << WithCommas(producer.too_old()) << " of the records are older than retention.ms of "
              << options.topic << ": the brokers delete them within minutes. To keep old records make the topic with "
              << "`millstream topics create " << options.topic << " --config retention.ms=-1`" << std::endl;
  }
  if (context.json) {
    std::cout << "{\"topic\":" << JsonQuote(options.topic) << ",\"records\":" << producer.durable()
              << ",\"skipped\":" << producer.skipped() << ",\"partitions\":" << *partitions
              << ",\"seconds\":" << seconds << "}" << std::endl;
  } else {
    std::cerr << WithCommas(producer.durable()) << " records written to " << options.topic << " (" << *partitions
              << " partitions) in " << absl::FormatDuration(absl::Milliseconds(static_cast<int64_t>(seconds * 1000)));
    if (producer.skipped() > 0) std::cerr << "; " << producer.skipped() << " bad lines skipped";
    std::cerr << std::endl;
  }
  return kExitOk;
}

}  // namespace

void RegisterProduce(CLI::App* app, Context* context) {
  auto options = std::make_shared<ProduceOptions>();
  CLI::App* command = app->add_subcommand("produce", "Write records to a topic, from a file or standard input");
  command->add_option("topic", options->topic, "Topic; made if it is not there (on Kafka: with --partitions)")
      ->required();
  command->add_option("file", options->file, "File to read; - is standard input")->capture_default_str();
  const std::map<std::string, InputFormat> formats = {{"json", InputFormat::kJson},
                                                      {"csv", InputFormat::kCsv},
                                                      {"keyvalue", InputFormat::kKeyValue},
                                                      {"raw", InputFormat::kRaw},
                                                      {"base64", InputFormat::kBase64}};
  command
      ->add_option(
          "-f,--format", options->parser.format,
          "json: one value per line; csv: with a heading, rows become JSON objects; "
          "keyvalue: KEY=VALUE; raw: KEY<TAB>VALUE or VALUE alone; "
          "base64: TIMESTAMP KEY VALUE with tabs between, - for null (what consume --format base64 prints is read too)")
      ->transform(CLI::CheckedTransformer(formats).description(""))
      ->type_name("json|csv|keyvalue|raw|base64");
  command
      ->add_option("-k,--key", options->parser.key_field,
                   "json, csv: field that is the record's key (a.b goes into objects); default: no key")
      ->type_name("FIELD");
  command
      ->add_option("--timestamp", options->parser.timestamp_field,
                   "json, csv: field with the record's time: milliseconds since 1970 or RFC 3339; default: now")
      ->type_name("FIELD");
  command->add_option("--delimiter", options->delimiter, "csv: the character between cells (\\t for a tab)")
      ->capture_default_str();
  command->add_flag("--strings", options->parser.strings_only,
                    "csv: keep every cell a string (default: numbers, true, false and empty cells become JSON's)");
  command
      ->add_option_function<std::string>(
          "--null",
          [options](const std::string& text) {
            options->null_text = text;
            options->has_null_text = true;
          },
          "keyvalue, raw: a key or value that is this text is null (a null value deletes a key)")
      ->type_name("TEXT");
  command->add_option("-H,--header", options->headers, "Header of every record, may be repeated")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  command
      ->add_option("-p,--partition", options->partition,
                   "Write everything to this partition; default: by the key's hash")
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option(
          "--partitioner", options->partitioner,
          "How keys are hashed: murmur2 as the Java client, crc32 as librdkafka, fnv1a as Sarama, bit for bit; "
          "default: as the manifest declares for the topic, else murmur2")
      ->check(CLI::IsMember({"murmur2", "crc32", "fnv1a"}))
      ->type_name("murmur2|crc32|fnv1a");
  command
      ->add_option("--partitions", options->partitions,
                   "Partitions of a topic that has to be made; default: 4. On Kafka a topic is made only with this")
      ->check(CLI::Range(1, 10000));
  command->add_flag("--skip-bad", options->skip_bad, "Pass over lines that cannot be read instead of ending there");
  context->AddLogOptions(command, Context::ManifestFlag::kLong);
  context->AddOutputOption(command);
  command->footer(
      "Examples:\n"
      "  echo '{\"customer\": \"alice\", \"amount\": 12.5}' | millstream produce orders --key customer\n"
      "  millstream produce flights flights.csv --format csv --key origin --timestamp date\n"
      "  echo 'alice=hello' | millstream produce greetings --format keyvalue");
  command->callback([=] {
    context->selected = [=]() -> int {
      if (options->delimiter == "\\t") options->delimiter = "\t";
      if (options->delimiter.size() != 1) return context->Misuse("--delimiter: give one character");
      const bool has_fields =
          options->parser.format == InputFormat::kJson || options->parser.format == InputFormat::kCsv;
      if (!has_fields && !(options->parser.key_field.empty() && options->parser.timestamp_field.empty())) {
        return context->Misuse(
            "--key and --timestamp name fields of json and csv; the key of keyvalue and raw stands in the line");
      }
      options->parser.delimiter = options->delimiter[0];
      if (options->has_null_text) options->parser.null_text = options->null_text;
      return Produce(*context, *options);
    };
  });
}

}  // namespace millstream::cli
