#include "sidecar/host/table_follower.h"

#include <algorithm>
#include <utility>

#include "common/base/log_line.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/base/thread_name.h"

namespace millstream::host {
namespace {

// Nothing waits for this: commands wake the reader.
constexpr absl::Duration kPollWait = absl::Seconds(10);
// Between attempts at what failed: a full disk, a topic that is not there.
constexpr absl::Duration kPause = absl::Seconds(1);
constexpr absl::Duration kTouchInterval = absl::Hours(1);
// Between looks whether waiting is still wanted.
constexpr absl::Duration kLook = absl::Milliseconds(50);

log::ReaderOptions ReaderOptionsOf(int64_t buffered_bytes) {
  return {.isolation = log::Isolation::kReadCommitted,
          .max_buffered_bytes = buffered_bytes,
          .max_read_bytes = std::clamp<int64_t>(buffered_bytes / 4, 64 << 10, 1 << 20)};
}

}  // namespace

TableFollower::TableFollower(const TableFollowerOptions& options, Applier* applier, MetricsRegistry* metrics,
                             EventSink* sink)
    : options_(options),
      applier_(applier),
      sink_(sink),
      reader_options_(ReaderOptionsOf(options.buffered_bytes)),
      reader_(options.log->NewReader(reader_options_)),
      resumed_(options.spec->lookups.size()),
      resume_at_(-absl::InfiniteDuration()),
      next_touch_(options.clock->Monotonic() + kTouchInterval),
      missing_(options.spec->lookups.size()),
      loaded_(options.spec->lookups.size()) {
  for (size_t table = options.spec->stores.size(); table < options.spec->readables(); ++table) {
    records_.push_back(metrics->GetCounter("millstream_table_records_total", "Records read into joins and lookups.",
                                           {{"table", options.spec->ReadableName(table)}}));
  }
}

TableFollower::~TableFollower() { Stop(); }

absl::Status TableFollower::Start() {
  const spec::StreamProcessorSpec& spec = *options_.spec;
  std::vector<std::unique_ptr<LookupTable>> lookups;
  for (size_t i = 0; i < spec.lookups.size(); ++i) {
    LookupDefinition definition{.group = spec.group,
                                .name = spec.lookups[i].name,
                                .topic = spec.lookups[i].topic,
                                .topic_id = options_.topics.lookup_ids[i],
                                .partitions = options_.topics.lookup_partitions[i]};
    const std::string directory = StrCat(options_.directory, "/lookup-", spec.lookups[i].name);
    MS_ASSIGN_OR_RETURN(lookups.emplace_back(),
                        LookupTable::Open(options_.environment, directory, std::move(definition), options_.clock));
  }
  absl::MutexLock lock(&mutex_);
  lookups_ = std::move(lookups);
  thread_ = std::thread([this] {
    NameThread("tables");
    Run();
  });
  return absl::OkStatus();
}

void TableFollower::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    reader_->Wake();
  }
  if (!thread_.joinable()) return;
  thread_.join();
  for (const std::unique_ptr<LookupTable>& lookup : lookups_) {
    const absl::Status flushed = lookup->store()->Flush();
    if (!flushed.ok())
      LogWarning("a lookup was not flushed; the rest of it is read again",
                 {{"lookup", lookup->definition().name}, {"error", flushed.ToString()}});
  }
}

// ---------------------------------------------------------------- asked from other threads

void TableFollower::Follow(TaskId task, const store::Positions& positions) {
  const spec::StreamProcessorSpec& spec = *options_.spec;
  absl::MutexLock lock(&mutex_);
  const Life life = followed_[task] = next_life_++;
  for (size_t table = spec.stores.size(); table < spec.first_lookup(); ++table) {
    const auto restored = positions.changelog.find(static_cast<store::StoreIndex>(table));
    const TopicPartition from{spec.joins[table - spec.stores.size()].topic, Partition(task.value())};
    Source source;
    source.table = table;
    source.task = task;
    source.life = life;
    source.position = Offset(0);
    if (restored != positions.changelog.end()) source.position = restored->second;
    commands_.emplace_back(Begin{from, source});
  }
  reader_->Wake();
}

void TableFollower::Forget(TaskId task) {
  absl::MutexLock lock(&mutex_);
  followed_.erase(task);
  commands_.emplace_back(End{task});
  reader_->Wake();
}

bool TableFollower::Lives(TaskId task, Life life) const {
  const auto found = followed_.find(task);
  return found != followed_.end() && found->second == life;
}

absl::Status TableFollower::WaitForLookups(const std::atomic<bool>* cancelled) const {
  absl::MutexLock lock(&mutex_);
  const auto done = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || std::find(loaded_.begin(), loaded_.end(), false) == loaded_.end();
  };
  while (!mutex_.AwaitWithTimeout(absl::Condition(&done), kLook)) {
    if (cancelled != nullptr && *cancelled) return absl::CancelledError("waiting for lookups was cancelled");
  }
  return stopping_ ? absl::CancelledError("the sidecar stops") : absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<store::TaskStore>> TableFollower::Lookup(size_t index) const {
  absl::MutexLock lock(&mutex_);
  if (index >= lookups_.size() || !loaded_[index]) {
    return absl::UnavailableError(
        StrCat("lookup ", options_.spec->lookups[index].name, " is still being read: ask again"));
  }
  return lookups_[index]->store();
}

std::vector<Condition> TableFollower::Conditions() const {
  absl::MutexLock lock(&mutex_);
  std::vector<Condition> conditions;
  for (const auto& [topic, problem] : problems_) conditions.push_back({"TableNotRead", problem});
  for (size_t i = 0; i < loaded_.size(); ++i) {
    if (loaded_[i] || problems_.contains(options_.spec->lookups[i].topic)) continue;
    conditions.push_back({"LookupsLoading", StrCat("lookup ", options_.spec->lookups[i].name, " is being read, ",
                                                   missing_[i].size(), " partitions are left; tasks start behind it")});
  }
  return conditions;
}

// ---------------------------------------------------------------- the thread

void TableFollower::Run() {
  while (TakeCommands()) {
    ResumeLookups();
    RetryIfDue();
    TouchIfDue();
    absl::StatusOr<std::vector<log::ReaderEvent>> events = reader_->Poll(NextWait());
    if (!events.ok()) {
      Renew(events.status());
      continue;
    }
    for (log::ReaderEvent& event : *events) Pass(std::move(event));
  }
}

bool TableFollower::TakeCommands() {
  std::vector<Command> commands;
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return false;
    commands.swap(commands_);
  }
  for (Command& command : commands) Carry(std::move(command));
  return true;
}

void TableFollower::Carry(Command command) {
  if (const auto* begin = std::get_if<Begin>(&command)) {
    sources_[begin->from] = begin->source;
    Add(begin->from, begin->source);
  } else if (const auto* end = std::get_if<End>(&command)) {
    absl::erase_if(sources_, [&](const auto& entry) {
      const Source& source = entry.second;
      if (source.lookup || source.task != end->task) return false;
      {
        absl::MutexLock lock(&mutex_);
        if (Lives(source.task, source.life)) return false;  // it was opened again since
      }
      reader_->Remove(entry.first);
      retries_.erase(entry.first);
      return true;
    });
  } else if (const auto* applied = std::get_if<Applied>(&command)) {
    const auto source = sources_.find(applied->from);
    if (source == sources_.end() || source->second.life != applied->life) return;
    OnApplied(applied->from, source->second, applied->status, applied->next);
  }
}

void TableFollower::Add(const TopicPartition& from, const Source& source) {
  reader_->Remove(from);
  retries_.erase(from);
  const absl::Status added = reader_->Add(from, source.position);
  if (!added.ok()) return OnFailed(from, added);
  if (source.waits) reader_->Pause(from);
}

void TableFollower::AddLater(const TopicPartition& from) {
  reader_->Remove(from);
  retries_[from] = options_.clock->Monotonic() + kPause;
}

void TableFollower::RetryIfDue() {
  std::vector<TopicPartition> due;
  for (const auto& [from, at] : retries_) {
    if (at <= options_.clock->Monotonic()) due.push_back(from);
  }
  for (const TopicPartition& from : due) {
    const auto source = sources_.find(from);  // one that fails may take others with it
    if (source != sources_.end()) Add(from, source->second);
  }
}

absl::Duration TableFollower::NextWait() const {
  absl::Duration wake = options_.clock->Monotonic() + kPollWait;
  for (const auto& [from, at] : retries_) wake = std::min(wake, at);
  if (std::find(resumed_.begin(), resumed_.end(), false) != resumed_.end()) wake = std::min(wake, resume_at_);
  return std::max(wake - options_.clock->Monotonic(), absl::Milliseconds(1));
}

void TableFollower::Pass(log::ReaderEvent event) {
  if (auto* read = std::get_if<log::RecordsRead>(&event)) {
    const auto source = sources_.find(read->from);
    if (source != sources_.end()) TakeRecords(read->from, source->second, std::move(read->records), read->next);
  } else if (const auto* end = std::get_if<log::EndOfPartition>(&event)) {
    const auto source = sources_.find(end->from);
    if (source == sources_.end()) return;
    Complain(end->from.topic, "");
    if (source->second.lookup)
      Reached(source->second.table - options_.spec->first_lookup(), end->from.partition, end->position);
  } else if (const auto* failed = std::get_if<log::PartitionFailed>(&event)) {
    if (sources_.contains(failed->from)) OnFailed(failed->from, failed->status);
  }
}

void TableFollower::TakeRecords(const TopicPartition& from, Source& source, std::vector<log::Record> records,
                                Offset next) {
  records_[source.table - options_.spec->stores.size()]->Add(static_cast<double>(records.size()));
  if (!source.lookup) {
    if (records.empty()) return;
    source.waits = true;
    reader_->Pause(from);
    return ApplyJoin(from, source, std::move(records), next);
  }
  const size_t lookup = source.table - options_.spec->first_lookup();
  OnApplied(from, source, lookups_[lookup]->Apply(from.partition.value(), std::move(records), next), next);
}

void TableFollower::ApplyJoin(const TopicPartition& from, const Source& source, std::vector<log::Record> records,
                              Offset next) {
  const auto store = static_cast<store::StoreIndex>(source.table);
  engine::ApplyState apply;
  apply.task = source.task;
  apply.writes = TableWrites(store, std::move(records));
  apply.positions.changelog[store] = next;
  apply.positions.wall_ms = options_.clock->WallMillis();
  // Under the mutex: behind Forget nothing of that life may come to the applier, where the task may be opened anew.
  absl::MutexLock lock(&mutex_);
  if (!Lives(source.task, source.life)) return;
  applier_->Apply(std::move(apply), [this, from, life = source.life, next](const absl::Status& status) {
    absl::MutexLock applied_lock(&mutex_);
    commands_.emplace_back(Applied{from, life, status, next});
    reader_->Wake();
  });
}

void TableFollower::OnApplied(const TopicPartition& from, Source& source, const absl::Status& status, Offset next) {
  const bool waited = std::exchange(source.waits, false);
  if (status.ok()) {
    source.position = next;
    Complain(from.topic, "");
    if (waited) reader_->Resume(from);
    if (source.lookup) Reached(source.table - options_.spec->first_lookup(), from.partition, next);
    return;
  }
  if (absl::IsDataLoss(status) && source.lookup) return ReadAnew(source.table - options_.spec->first_lookup(), status);
  if (absl::IsDataLoss(status)) {
    sink_->Post(engine::StateFailed{source.task, Annotate(status, StrCat("join ", from.ToString()))});
    return;
  }
  Complain(from.topic, StrCat("what was read of ", from.ToString(), " cannot be kept: ", status.ToString(),
                              "; tried again every second"));
  AddLater(from);
}

// Records that are no longer there leave a table that may be wrong: it is read anew from what there is.
void TableFollower::OnFailed(const TopicPartition& from, const absl::Status& status) {
  const Source& source = sources_.at(from);
  const absl::Status cause = Annotate(status, from.ToString());
  if (absl::IsOutOfRange(status) || absl::IsDataLoss(status)) {
    if (source.lookup) return ReadAnew(source.table - options_.spec->first_lookup(), cause);
    sink_->Post(engine::StateFailed{source.task, cause});
    return;
  }
  Complain(from.topic, StrCat(from.ToString(), " cannot be read: ", cause.ToString(), "; tried again every second"));
  AddLater(from);
}

void TableFollower::Renew(const absl::Status& cause) {
  LogWarning("reading joins and lookups failed; a new reader goes on where this one was",
             {{"error", cause.ToString()}});
  {
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(&stopping_), kPause);
    if (stopping_) return;
    reader_.reset();
    reader_ = options_.log->NewReader(reader_options_);
  }
  std::vector<TopicPartition> all;
  for (const auto& [from, source] : sources_) all.push_back(from);
  for (const TopicPartition& from : all) {
    const auto source = sources_.find(from);
    if (source != sources_.end()) Add(from, source->second);
  }
}

void TableFollower::Complain(const std::string& topic, std::string problem) {
  absl::MutexLock lock(&mutex_);
  const auto known = problems_.find(topic);
  if (problem.empty()) {
    if (known != problems_.end()) problems_.erase(known);
  } else {
    if (known == problems_.end()) LogWarning(problem);
    problems_[topic] = std::move(problem);
  }
}

// ---------------------------------------------------------------- lookups

void TableFollower::ResumeLookups() {
  const absl::Duration now = options_.clock->Monotonic();
  if (now < resume_at_) return;
  for (size_t i = 0; i < lookups_.size(); ++i) {
    if (resumed_[i]) continue;
    const LookupDefinition& definition = lookups_[i]->definition();
    const absl::StatusOr<std::vector<LookupTable::Span>> spans = lookups_[i]->Resume(options_.log->admin());
    if (!spans.ok()) {
      Complain(definition.topic, StrCat("lookup ", definition.name, " cannot be read: ", spans.status().ToString(),
                                        "; tried again every second"));
      resume_at_ = options_.clock->Monotonic() + kPause;
      continue;
    }
    resumed_[i] = true;
    Complain(definition.topic, "");
    {
      absl::MutexLock lock(&mutex_);
      missing_[i].clear();
      for (int partition = 0; partition < definition.partitions; ++partition)
        missing_[i][partition] = (*spans)[static_cast<size_t>(partition)].end;
    }
    for (int partition = 0; partition < definition.partitions; ++partition) {
      const TopicPartition from{definition.topic, Partition(partition)};
      Source source;
      source.table = options_.spec->first_lookup() + i;
      source.lookup = true;
      source.position = (*spans)[static_cast<size_t>(partition)].next;
      sources_[from] = source;
      Add(from, source);
      Reached(i, Partition(partition), source.position);
    }
  }
}

// The lookup is complete once it has been read to where every partition ended when that began.
void TableFollower::Reached(size_t lookup, Partition partition, Offset position) {
  absl::MutexLock lock(&mutex_);
  if (loaded_[lookup] || !resumed_[lookup]) return;
  std::map<int, Offset>& missing = missing_[lookup];
  const auto end = missing.find(partition.value());
  if (end != missing.end() && position >= end->second) missing.erase(end);
  loaded_[lookup] = missing.empty();
}

// Tasks must not see it while it is filled again.
void TableFollower::ReadAnew(size_t lookup, const absl::Status& cause) {
  const LookupDefinition& definition = lookups_[lookup]->definition();
  LogWarning("a lookup is read anew", {{"lookup", definition.name}, {"cause", cause.ToString()}});
  for (int partition = 0; partition < definition.partitions; ++partition) {
    const TopicPartition from{definition.topic, Partition(partition)};
    reader_->Remove(from);
    retries_.erase(from);
    sources_.erase(from);
  }
  resumed_[lookup] = false;
  resume_at_ = options_.clock->Monotonic() + kPause;
  std::vector<TaskId> tasks;
  {
    absl::MutexLock lock(&mutex_);
    loaded_[lookup] = false;
    for (const auto& [task, life] : followed_) tasks.push_back(task);
  }
  const absl::Status wiped = lookups_[lookup]->store()->Wipe();
  if (!wiped.ok()) Complain(definition.topic, StrCat("lookup ", definition.name, ": ", wiped.ToString()));
  for (const TaskId task : tasks)
    sink_->Post(engine::StateFailed{task, Annotate(cause, StrCat("lookup ", definition.name, " is read anew"))});
}

void TableFollower::TouchIfDue() {
  const absl::Duration now = options_.clock->Monotonic();
  if (now < next_touch_) return;
  next_touch_ = now + kTouchInterval;
  for (const std::unique_ptr<LookupTable>& lookup : lookups_) {
    const absl::Status touched = lookup->Touch();
    if (!touched.ok())
      LogWarning("refreshing the time of a lookup's stamp failed",
                 {{"lookup", lookup->definition().name}, {"error", touched.ToString()}});
  }
}

}  // namespace millstream::host
