#include "common/log/embedded/reader.h"

#include <algorithm>
#include <utility>

#include "common/base/clock.h"
#include "common/base/log_line.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::log::embedded {
namespace {

// A poll gives way after so much scanned without a visible record (aborted stretches), so that Wake and others get a
// turn.
constexpr int64_t kMostBytesScanned = 8 << 20;

// After a read that may succeed later.
constexpr absl::Duration kRetryPause = absl::Milliseconds(20);

bool IsTransient(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsResourceExhausted(status);
}

int64_t CostOf(const Record& record) {
  int64_t cost = sizeof(Record) + record.headers.size() * sizeof(Header);
  if (record.key) cost += record.key->size();
  if (record.value) cost += record.value->size();
  for (const Header& header : record.headers) cost += header.name.size() + (header.value ? header.value->size() : 0);
  return cost;
}

}  // namespace

// One partition being read.
struct EmbeddedReader::Source : public PartitionWatcher {
  Source(EmbeddedReader* reader_in, std::shared_ptr<PartitionState> partition_in, int64_t start)
      : reader(reader_in), partition(std::move(partition_in)), position(start) {}
  void OnPartitionChanged() override { reader->MarkReady(this); }

  EmbeddedReader* const reader;
  const std::shared_ptr<PartitionState> partition;
  int64_t position;
  int64_t end_reported_at = -1;
  bool paused = false;
  bool failed = false;
  bool troubled = false;  // the last read failed and is repeated
  bool queued = false;    // guarded by reader->mutex_
};

// What the log's state says about a source at one moment.
struct EmbeddedReader::View {
  bool deleted;
  int64_t start, end, high_watermark;
  std::shared_ptr<const AbortedIndex> aborted;
  // Where the position lies, and where what follows it begins.
  bool has_segment = false;
  uint32_t segment = 0;
  int64_t next_segment_offset = 0;
};

EmbeddedReader::EmbeddedReader(Core* core, const ReaderOptions& options) : core_(core), options_(options) {}

EmbeddedReader::~EmbeddedReader() {
  for (auto& [name, source] : sources_) Forget(source.get());
}

absl::Status EmbeddedReader::Add(const TopicPartition& from, Offset start) {
  if (sources_.contains(from)) return absl::AlreadyExistsError(StrCat(from.ToString(), " is read already"));
  std::unique_ptr<Source> source;
  {
    absl::MutexLock lock(&core_->state_mutex);
    MS_ASSIGN_OR_RETURN(auto partition, core_->FindLocked(from));
    source = std::make_unique<Source>(this, std::move(partition), start.value());
    source->partition->watches.push_back({source.get(), options_.isolation});
  }
  MarkReady(source.get());
  sources_[from] = std::move(source);
  return absl::OkStatus();
}

void EmbeddedReader::Forget(Source* source) {
  {
    absl::MutexLock lock(&core_->state_mutex);
    std::erase_if(source->partition->watches, [&](const auto& watch) { return watch.watcher == source; });
  }
  absl::MutexLock lock(&mutex_);
  if (source->queued) std::erase(ready_, source);
}

void EmbeddedReader::Remove(const TopicPartition& from) {
  const auto it = sources_.find(from);
  if (it == sources_.end()) return;
  Forget(it->second.get());
  sources_.erase(it);
}

absl::Status EmbeddedReader::Seek(const TopicPartition& from, Offset to) {
  const auto it = sources_.find(from);
  if (it == sources_.end()) return absl::NotFoundError(StrCat(from.ToString(), " is not read: add it first"));
  Source& source = *it->second;
  source.position = to.value();
  source.end_reported_at = -1;
  source.failed = false;
  MarkReady(&source);
  return absl::OkStatus();
}

void EmbeddedReader::Pause(const TopicPartition& from) {
  const auto it = sources_.find(from);
  if (it != sources_.end()) it->second->paused = true;
}

void EmbeddedReader::Resume(const TopicPartition& from) {
  const auto it = sources_.find(from);
  if (it == sources_.end() || !it->second->paused) return;
  it->second->paused = false;
  MarkReady(it->second.get());
}

void EmbeddedReader::MarkReady(Source* source) {
  absl::MutexLock lock(&mutex_);
  if (source->queued) return;
  source->queued = true;
  ready_.push_back(source);
  ready_or_woken_.Signal();
}

void EmbeddedReader::Wake() {
  absl::MutexLock lock(&mutex_);
  woken_ = true;
  ready_or_woken_.Signal();
}

bool EmbeddedReader::TakeWake() {
  absl::MutexLock lock(&mutex_);
  return std::exchange(woken_, false);
}

size_t EmbeddedReader::ReadyCount() {
  absl::MutexLock lock(&mutex_);
  return ready_.size();
}

EmbeddedReader::Source* EmbeddedReader::NextReady(absl::Duration wait) {
  absl::MutexLock lock(&mutex_);
  const absl::Duration until = wait > absl::ZeroDuration() ? SystemClock().Monotonic() + wait : absl::ZeroDuration();
  while (ready_.empty() && !woken_) {
    const absl::Duration left = wait > absl::ZeroDuration() ? until - SystemClock().Monotonic() : absl::ZeroDuration();
    if (left <= absl::ZeroDuration()) return nullptr;
    ready_or_woken_.WaitWithTimeout(&mutex_, left);
  }
  if (woken_) return nullptr;
  Source* source = ready_.front();
  ready_.pop_front();
  source->queued = false;
  return source;
}

absl::StatusOr<std::vector<ReaderEvent>> EmbeddedReader::Poll(absl::Duration wait) {
  std::vector<ReaderEvent> events;
  const absl::Duration until = SystemClock().Monotonic() + wait;
  int64_t bytes = 0;
  while (!TakeWake()) {
    // One round over those that are ready now; the rest of a long partition queues up behind the others.
    for (size_t left = ReadyCount(); left > 0 && bytes < options_.max_buffered_bytes; --left) {
      Source* source = NextReady(absl::ZeroDuration());
      if (source == nullptr) break;
      if (!source->paused && !source->failed)
        bytes += Serve(source, std::min(options_.max_read_bytes, options_.max_buffered_bytes - bytes), &events);
    }
    if (!events.empty()) break;
    const absl::Duration left = until - SystemClock().Monotonic();
    if (left <= absl::ZeroDuration()) break;
    if (Source* source = NextReady(left)) {
      if (!source->paused && !source->failed)
        bytes += Serve(source, std::min(options_.max_read_bytes, options_.max_buffered_bytes - bytes), &events);
      if (!events.empty() && bytes >= options_.max_buffered_bytes) break;
    }
  }
  return events;
}

EmbeddedReader::View EmbeddedReader::Look(const Source& source) {
  absl::MutexLock lock(&core_->state_mutex);
  const PartitionState& partition = *source.partition;
  View view{partition.deleted, partition.start, partition.End(options_.isolation), partition.high_watermark,
            partition.aborted};
  const size_t ref = partition.RefOf(source.position);
  if (ref == partition.refs.size()) return view;
  view.has_segment = true;
  view.segment = partition.refs[ref].segment;
  view.next_segment_offset =
      ref + 1 < partition.refs.size() ? partition.refs[ref + 1].first_offset : view.high_watermark;
  return view;
}

void EmbeddedReader::Fail(Source* source, absl::Status status, std::vector<ReaderEvent>* events) {
  source->failed = true;
  events->push_back(PartitionFailed{source->partition->name, std::move(status)});
}

// Whatever was read is read again: the source queues up behind the others.
void EmbeddedReader::RetryLater(Source* source, int64_t position, const absl::Status& status) {
  source->position = position;
  if (!std::exchange(source->troubled, true)) {
    LogWarning("read failed, it is tried again",
               {{"from", source->partition->name.ToString()}, {"error", status.message()}});
  }
  MarkReady(source);
  absl::MutexLock lock(&mutex_);
  const absl::Duration until = SystemClock().Monotonic() + kRetryPause;
  for (absl::Duration left = kRetryPause; !woken_ && left > absl::ZeroDuration();) {
    ready_or_woken_.WaitWithTimeout(&mutex_, left);
    left = until - SystemClock().Monotonic();
  }
}

int64_t EmbeddedReader::Serve(Source* source, int64_t limit, std::vector<ReaderEvent>* events) {
  const TopicPartition& name = source->partition->name;
  const auto check = [&](const View& view, int64_t position) {
    if (view.deleted) return absl::NotFoundError(StrCat("topic ", name.topic, " was deleted"));
    if (position >= view.start && position <= view.high_watermark) return absl::OkStatus();
    return absl::OutOfRangeError(StrCat("offset ", position, " of ", name.ToString(), " is not there: it has ",
                                        view.start, " to ", view.high_watermark));
  };
  const int64_t started_at = source->position;
  View view = Look(*source);
  if (absl::Status status = check(view, started_at); !status.ok()) return Fail(source, std::move(status), events), 0;

  RecordsRead read;
  int64_t bytes = 0;
  if (source->position < view.end) {
    absl::Status status = ReadRecords(source, view, limit, &read, &bytes);
    if (IsTransient(status)) return RetryLater(source, started_at, status), 0;
    source->troubled = false;
    // Retention or deletion may have come between: what was read then may lack its beginning.
    view = Look(*source);
    status.Update(check(view, started_at));
    if (!status.ok()) {
      source->position = started_at;
      return Fail(source, Annotate(status, StrCat("read ", name.ToString())), events), 0;
    }
  }
  if (!read.records.empty()) {
    read.from = name;
    read.next = Offset(source->position);
    events->push_back(std::move(read));
  }
  if (source->position < view.end) {
    MarkReady(source);
  } else if (source->end_reported_at != source->position) {
    source->end_reported_at = source->position;
    events->push_back(EndOfPartition{name, Offset(source->position)});
  }
  return bytes;
}

absl::Status EmbeddedReader::ReadRecords(Source* source, const View& view, int64_t limit, RecordsRead* read,
                                         int64_t* bytes) {
  const bool committed_only = options_.isolation == Isolation::kReadCommitted;
  if (!view.has_segment) {
    source->position = view.end;
    return absl::OkStatus();
  }
  int64_t scanned = 0;
  BatchCursor cursor = core_->storage->NewCursor(view.segment, source->partition->uid);
  for (cursor.SeekAtOrBefore(source->position); cursor.Valid(); cursor.Next()) {
    const int64_t base = cursor.base();
    if (base >= view.end) {
      source->position = view.end;
      return absl::OkStatus();
    }
    if (*bytes >= limit || scanned >= kMostBytesScanned) return absl::OkStatus();
    scanned += static_cast<int64_t>(cursor.value().size());
    MS_ASSIGN_OR_RETURN(BatchReader batch, BatchReader::Parse(cursor.value()));
    const BatchHeader& header = batch.header();
    const int64_t last = base + header.last_delta;
    if (last < source->position) continue;
    const bool visible = !header.control() &&
                         !(committed_only && header.transactional && view.aborted->Covers(header.producer_id, base));
    if (visible && !TakeBatch(source, base, limit, &batch, read, bytes)) return absl::OkStatus();
    MS_RETURN_IF_ERROR(batch.status());
    source->position = last + 1;
  }
  MS_RETURN_IF_ERROR(cursor.status());
  source->position = std::max(source->position, std::min(view.next_segment_offset, view.end));
  return absl::OkStatus();
}

bool EmbeddedReader::TakeBatch(Source* source, int64_t base, int64_t limit, BatchReader* batch, RecordsRead* read,
                               int64_t* bytes) {
  RecordView record;
  while (batch->Next(&record)) {
    const int64_t offset = base + record.delta;
    if (offset < source->position) continue;
    if (*bytes >= limit) {
      source->position = offset;
      return false;
    }
    read->records.push_back(MakeRecord(base, record));
    *bytes += CostOf(read->records.back());
  }
  return true;
}

}  // namespace millstream::log::embedded
