#include "sidecar/host/fetcher.h"

#include <utility>

#include "common/base/clock.h"
#include "common/base/crash_point.h"
#include "common/base/log_line.h"
#include "common/base/status.h"
#include "common/base/thread_name.h"

namespace millstream::host {
namespace {
// Nothing waits for this: commands wake the reader.
constexpr absl::Duration kPollWait = absl::Seconds(10);
constexpr absl::Duration kRenewPause = absl::Seconds(1);
// Between attempts to begin what no broker answered about.
constexpr absl::Duration kBeginPause = absl::Seconds(1);

// Without anybody repairing the topic: brokers are away, or the next secret is not mounted yet.
bool MayPass(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsUnauthenticated(status);
}
}  // namespace

Fetcher::Fetcher(log::Log* log, std::vector<std::string> topics, int64_t buffered_bytes, KeyCheck* keys,
                 EventSink* sink)
    : log_(log),
      topics_(std::move(topics)),
      options_{.isolation = log::Isolation::kReadCommitted,
               .max_buffered_bytes = buffered_bytes,
               .max_read_bytes = std::min<int64_t>(1 << 20, std::max<int64_t>(64 << 10, buffered_bytes / 4))},
      keys_(keys),
      sink_(sink),
      reader_(log_->NewReader(options_)),
      thread_([this] {
        NameThread("fetcher");
        Run();
      }) {}

Fetcher::~Fetcher() { Stop(); }

void Fetcher::Do(Command command) {
  absl::MutexLock lock(&mutex_);
  commands_.push_back(std::move(command));
  reader_->Wake();
}

void Fetcher::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    reader_->Wake();
  }
  if (thread_.joinable()) thread_.join();
}

void Fetcher::Run() {
  while (TakeCommands()) {
    BeginLater();
    absl::StatusOr<std::vector<log::ReaderEvent>> events = reader_->Poll(waiting_.empty() ? kPollWait : kBeginPause);
    if (!events.ok()) {
      Renew(events.status());
      continue;
    }
    for (log::ReaderEvent& event : *events) Pass(std::move(event));
  }
}

bool Fetcher::TakeCommands() {
  std::vector<Command> commands;
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return false;
    commands.swap(commands_);
  }
  for (const Command& command : commands) Carry(command);
  return true;
}

void Fetcher::Carry(const Command& command) {
  if (const auto* start = std::get_if<engine::StartFetch>(&command)) {
    const TopicPartition from = PartitionOf(start->task, start->input);
    const Source source{.task = start->task, .input = start->input, .fetch = start->fetch, .position = start->from};
    reader_->Remove(from);
    sources_[from] = source;
    Begin(from, source);
  } else if (const auto* seek = std::get_if<engine::SeekFetch>(&command)) {
    const TopicPartition from = PartitionOf(seek->task, seek->input);
    const auto source = sources_.find(from);
    if (source == sources_.end()) return;
    source->second.fetch = seek->fetch;
    source->second.position = seek->to;
    // A partition that failed to be added is not in the reader: adding it again finds out whether it is there by now.
    if (!reader_->Seek(from, seek->to).ok()) Begin(from, source->second);
  } else if (const auto* pause = std::get_if<engine::PauseFetch>(&command)) {
    const TopicPartition from = PartitionOf(pause->task, pause->input);
    const auto source = sources_.find(from);
    if (source == sources_.end()) return;
    source->second.paused = pause->paused;
    pause->paused ? reader_->Pause(from) : reader_->Resume(from);
  } else if (const auto* stop = std::get_if<engine::StopFetch>(&command)) {
    const TopicPartition from = PartitionOf(stop->task, stop->input);
    reader_->Remove(from);
    sources_.erase(from);
    waiting_.erase(from);
  }
}

void Fetcher::Begin(const TopicPartition& from, const Source& source) {
  reader_->Remove(from);
  const absl::Status added = reader_->Add(from, source.position);
  if (MayPass(added)) {
    if (waiting_.insert(from).second) {
      LogWarning("an input cannot be read yet; tried every second",
                 {{"from", from.ToString()}, {"error", added.ToString()}});
    }
    begin_at_ = SystemClock().Monotonic() + kBeginPause;
    return;
  }
  waiting_.erase(from);
  if (!added.ok()) {
    sink_->Post(
        engine::InputFailed{.task = source.task, .input = source.input, .status = added, .fetch = source.fetch});
    return;
  }
  if (source.paused) reader_->Pause(from);
}

// One at a time: an attempt may take as long as brokers are waited for, and commands come first.
void Fetcher::BeginLater() {
  if (waiting_.empty() || SystemClock().Monotonic() < begin_at_) return;
  const TopicPartition from = *waiting_.begin();
  Begin(from, sources_.at(from));
}

void Fetcher::Pass(log::ReaderEvent event) {
  if (auto* read = std::get_if<log::RecordsRead>(&event)) {
    const auto source = sources_.find(read->from);
    if (source == sources_.end()) return;
    source->second.position = read->next;
    const bool some = !read->records.empty();
    keys_->Look(source->second.input, read->from.partition, read->records);
    sink_->Post(engine::RecordsRead{.task = source->second.task,
                                    .input = source->second.input,
                                    .records = std::move(read->records),
                                    .next = read->next,
                                    .fetch = source->second.fetch});
    if (some) CrashPoint("after-fetch");
  } else if (auto* end = std::get_if<log::EndOfPartition>(&event)) {
    const auto source = sources_.find(end->from);
    if (source == sources_.end()) return;
    source->second.position = end->position;
    sink_->Post(engine::EndOfInput{.task = source->second.task,
                                   .input = source->second.input,
                                   .position = end->position,
                                   .fetch = source->second.fetch});
  } else if (auto* failed = std::get_if<log::PartitionFailed>(&event)) {
    const auto source = sources_.find(failed->from);
    if (source == sources_.end()) return;
    sink_->Post(engine::InputFailed{.task = source->second.task,
                                    .input = source->second.input,
                                    .status = Annotate(failed->status, failed->from.ToString()),
                                    .fetch = source->second.fetch});
  }
}

void Fetcher::Renew(const absl::Status& cause) {
  LogWarning("reading the inputs failed; a new reader goes on where this one was", {{"error", cause.ToString()}});
  {
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(&stopping_), kRenewPause);
    if (stopping_) return;
    reader_.reset();
    reader_ = log_->NewReader(options_);
  }
  for (const auto& [from, source] : sources_) Begin(from, source);
}

}  // namespace millstream::host
