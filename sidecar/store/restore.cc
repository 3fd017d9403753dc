#include "sidecar/store/restore.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "common/base/log_line.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "sidecar/store/timed_value.h"

namespace millstream::store {
namespace {

// Between looks at cancellation and the stall deadline.
constexpr absl::Duration kPollWait = absl::Milliseconds(50);
constexpr absl::Duration kProgressInterval = absl::Milliseconds(100);
// Rebuilds from scratch within one call. The log start may move once under a slow restore; more often means that
// retention deletes faster than we read, or that the disk damages what is written.
constexpr int kMaxRebuilds = 2;
constexpr int64_t kDefaultDeleteRetentionMs = 24 * 60 * 60 * 1000;  // Kafka's
// A stamp from further in the future than this was written under a wrong clock and says nothing about age.
constexpr int64_t kMaxClockSkewMs = 60 * 60 * 1000;

// One changelog partition on its way to its end.
struct Changelog {
  StoreIndex store = 0;
  TopicPartition from;
  std::string store_name;
  Offset start, end;  // log start; high watermark taken at the beginning
  bool timed = false;
  int64_t delete_retention_ms = kDefaultDeleteRetentionMs;
  std::optional<Offset> stored;  // where the store stands; nullopt: it is empty
  Offset position;               // read and staged up to here
  int64_t records = 0, bytes = 0;
  absl::Duration last_advance, last_report;

  bool Done() const { return position >= end; }
};

class Restorer {
 public:
  Restorer(log::Log* log, TaskStore* store, const TaskIdentity& identity, const RestoreOptions& options)
      : log_(log), store_(store), identity_(identity), options_(options) {}

  absl::Status Run();

 private:
  bool Cancelled() const {
    return options_.cancelled != nullptr && options_.cancelled->load(std::memory_order_relaxed);
  }
  absl::Status CancelledError() const {
    return absl::CancelledError("restore was cancelled; it goes on from where it is");
  }

  // One attempt: ends, positions, reading. kRebuild: the state is not usable, wipe it and try again from the log start.
  enum class Outcome { kDone, kRebuild };
  absl::StatusOr<Outcome> Attempt();

  absl::Status FindChangelogs();
  absl::StatusOr<Changelog> Describe(StoreIndex store);
  // Why the stored state cannot be continued from; empty if it can.
  absl::StatusOr<std::string> WhyRebuild(const Changelog& changelog, const Positions& positions);

  absl::StatusOr<Outcome> ReadToTheEnd();
  absl::StatusOr<Outcome> Take(log::ReaderEvent event);
  absl::Status TakeRecords(log::RecordsRead read);
  absl::StatusOr<Outcome> TakeFailure(const log::PartitionFailed& failure);
  void Advance(Changelog* changelog, Offset to);
  absl::Status ApplyStaged(int64_t wall_ms);
  absl::Status CheckStalled();
  absl::Status StallError(const Changelog& changelog);
  void Report(Changelog* changelog, bool always);

  log::Log* const log_;
  TaskStore* const store_;
  const TaskIdentity& identity_;
  const RestoreOptions& options_;

  std::vector<Changelog> changelogs_;
  absl::flat_hash_map<TopicPartition, size_t> by_partition_;  // into changelogs_
  int64_t begun_ms_ = 0;                                      // wall time before the ends were read
  int64_t partial_ms_ = 0;                                    // wall time stamped until all of the ends are reached
  std::vector<StoreWrite> staged_;
  int64_t staged_bytes_ = 0;
};

absl::Status Restorer::Run() {
  for (int rebuilds = 0;; ++rebuilds) {
    auto outcome = Attempt();
    if (absl::IsDataLoss(outcome.status())) {
      LogWarning(
          "state on disk is damaged: wiped, rebuilt from the changelog",
          {{"group", identity_.group}, {"task", identity_.task.value()}, {"cause", outcome.status().ToString()}});
      outcome = Outcome::kRebuild;
    }
    MS_RETURN_IF_ERROR(outcome.status());
    if (*outcome == Outcome::kDone) return absl::OkStatus();
    if (rebuilds == kMaxRebuilds) {
      return absl::UnavailableError(StrCat("task ", identity_.task.value(), " of ", identity_.group,
                                           ": state had to be rebuilt ", rebuilds + 1,
                                           " times in a row; see the warnings before this"));
    }
    MS_RETURN_IF_ERROR(store_->Wipe());
  }
}

absl::StatusOr<Restorer::Outcome> Restorer::Attempt() {
  changelogs_.clear();
  by_partition_.clear();
  staged_.clear();
  staged_bytes_ = 0;
  if (Cancelled()) return CancelledError();
  begun_ms_ = options_.clock->WallMillis();
  MS_RETURN_IF_ERROR(FindChangelogs());
  const Positions positions = store_->positions();
  for (Changelog& changelog : changelogs_) {
    MS_ASSIGN_OR_RETURN(const std::string why, WhyRebuild(changelog, positions));
    if (!why.empty()) {
      LogWarning("stored state cannot be continued: wiped, rebuilt from the changelog",
                 {{"group", identity_.group},
                  {"task", identity_.task.value()},
                  {"store", changelog.store_name},
                  {"reason", why}});
      return Outcome::kRebuild;
    }
    changelog.position = changelog.stored.value_or(changelog.start);
  }
  // A tombstone stays in the log for delete.retention.ms after compaction could first see it. So state read on the way
  // is as old as the older of what it continues and this beginning; only at the end it is as new as the end.
  partial_ms_ = positions.changelog.empty() ? begun_ms_ : std::min(begun_ms_, positions.wall_ms);
  return ReadToTheEnd();
}

absl::Status Restorer::FindChangelogs() {
  const Positions positions = store_->positions();
  for (StoreIndex i = 0; i < identity_.stores.size(); ++i) {
    if (identity_.stores[i].changelog_topic.empty()) continue;
    MS_ASSIGN_OR_RETURN(Changelog changelog, Describe(i));
    if (const auto found = positions.changelog.find(i); found != positions.changelog.end())
      changelog.stored = found->second;
    by_partition_[changelog.from] = changelogs_.size();
    changelogs_.push_back(std::move(changelog));
  }
  return absl::OkStatus();
}

absl::StatusOr<Changelog> Restorer::Describe(StoreIndex store) {
  const StoreDefinition& definition = identity_.stores[store];
  const std::string& topic = definition.changelog_topic;
  auto info = log_->admin().DescribeTopic(topic);
  if (!info.ok()) return Annotate(info.status(), StrCat("changelog of store '", definition.name, "'"));
  if (!info->id.empty() && !definition.changelog_topic_id.empty() && info->id != definition.changelog_topic_id) {
    return absl::UnavailableError(StrCat("changelog topic ", topic,
                                         " was created anew while its task was being opened (id ", info->id,
                                         ", expected ", definition.changelog_topic_id, "); the task is opened again"));
  }
  if (identity_.task.value() >= info->partitions) {
    return absl::NotFoundError(StrCat("changelog topic ", topic, " has ", info->partitions, " partitions; task ",
                                      identity_.task.value(), " needs partition ", identity_.task.value()));
  }
  Changelog changelog;
  changelog.store = store;
  changelog.store_name = definition.name;
  changelog.timed = definition.timed;
  changelog.from = {topic, Partition(identity_.task.value())};
  changelog.delete_retention_ms = DeleteRetentionMs(*info);
  const log::Isolation end = definition.foreign ? log::Isolation::kReadCommitted : log::Isolation::kReadUncommitted;
  MS_ASSIGN_OR_RETURN(changelog.end, log_->admin().EndOffset(changelog.from, end));
  MS_ASSIGN_OR_RETURN(changelog.start, log_->admin().StartOffset(changelog.from));
  changelog.last_advance = changelog.last_report = options_.clock->Monotonic();
  return changelog;
}

absl::StatusOr<std::string> Restorer::WhyRebuild(const Changelog& changelog, const Positions& positions) {
  if (!changelog.stored) {
    // Nothing is known about it, so it has to be empty.
    ScanRequest any;
    any.store = changelog.store;
    any.max_rows = 1;
    MS_ASSIGN_OR_RETURN(const ScanPage page, store_->Scan(any));
    return page.rows.empty() ? "" : "it has rows but no position";
  }
  const Offset at = *changelog.stored;
  const std::string where = StrCat("position ", at.value(), " in ", changelog.from.ToString());
  if (at < changelog.start) return StrCat(where, " is before the log start ", changelog.start.value());
  if (at > changelog.end) return StrCat(where, " is beyond the log end ", changelog.end.value());
  if (at == changelog.end) return "";  // nothing was written since, tombstones neither
  const int64_t age_ms = begun_ms_ - positions.wall_ms;
  if (age_ms > changelog.delete_retention_ms) {
    return StrCat("it was written ", age_ms / 1000, " s ago, and tombstones are only kept for ",
                  changelog.delete_retention_ms / 1000, " s (delete.retention.ms)");
  }
  if (age_ms < -kMaxClockSkewMs)
    return StrCat("it was written ", -age_ms / 1000, " s in the future: its age is unknown");
  return "";
}

// ---------------------------------------------------------------- reading

absl::StatusOr<Restorer::Outcome> Restorer::ReadToTheEnd() {
  log::ReaderOptions reader_options;
  reader_options.isolation = log::Isolation::kReadCommitted;
  reader_options.max_buffered_bytes = options_.batch_bytes;
  reader_options.max_read_bytes = std::min<int64_t>(reader_options.max_read_bytes, options_.batch_bytes);
  const std::unique_ptr<log::Reader> reader = log_->NewReader(reader_options);
  size_t open = 0;
  for (const Changelog& changelog : changelogs_) {
    if (changelog.Done()) continue;
    MS_RETURN_IF_ERROR(reader->Add(changelog.from, changelog.position));
    ++open;
  }
  while (open > 0) {
    if (Cancelled()) {
      MS_RETURN_IF_ERROR(ApplyStaged(partial_ms_));
      MS_RETURN_IF_ERROR(store_->Flush());
      return CancelledError();
    }
    MS_ASSIGN_OR_RETURN(std::vector<log::ReaderEvent> events, reader->Poll(kPollWait));
    for (log::ReaderEvent& event : events) {
      MS_ASSIGN_OR_RETURN(const Outcome outcome, Take(std::move(event)));
      if (outcome == Outcome::kRebuild) return outcome;
    }
    open = 0;
    for (const Changelog& changelog : changelogs_) {
      if (!changelog.Done()) ++open;
      if (changelog.Done()) reader->Remove(changelog.from);
    }
    if (const absl::Status stalled = CheckStalled(); !stalled.ok()) {
      MS_RETURN_IF_ERROR(ApplyStaged(partial_ms_));
      return stalled;
    }
  }
  MS_RETURN_IF_ERROR(ApplyStaged(begun_ms_));
  MS_RETURN_IF_ERROR(store_->Flush());
  for (Changelog& changelog : changelogs_) Report(&changelog, /*always=*/true);
  return Outcome::kDone;
}

absl::StatusOr<Restorer::Outcome> Restorer::Take(log::ReaderEvent event) {
  if (auto* read = std::get_if<log::RecordsRead>(&event)) {
    MS_RETURN_IF_ERROR(TakeRecords(std::move(*read)));
  } else if (auto* end = std::get_if<log::EndOfPartition>(&event)) {
    // At the last stable offset: the end only if that has reached the high watermark.
    if (const auto found = by_partition_.find(end->from); found != by_partition_.end()) {
      Advance(&changelogs_[found->second], end->position);
    }
  } else {
    return TakeFailure(std::get<log::PartitionFailed>(event));
  }
  return Outcome::kDone;
}

absl::Status Restorer::TakeRecords(log::RecordsRead read) {
  const auto found = by_partition_.find(read.from);
  if (found == by_partition_.end()) return absl::OkStatus();
  Changelog& changelog = changelogs_[found->second];
  for (log::Record& record : read.records) {
    if (!record.key) continue;  // not ours: state has no null key, and compaction would refuse it
    const int64_t bytes = static_cast<int64_t>(record.key->size() + (record.value ? record.value->size() : 0));
    staged_bytes_ += bytes;
    changelog.bytes += bytes;
    ++changelog.records;
    if (record.value && changelog.timed) record.value = TimedValue(record.timestamp_ms, *record.value);
    staged_.push_back({changelog.store, *std::move(record.key), std::move(record.value)});
  }
  Advance(&changelog, read.next);
  if (staged_bytes_ >= options_.batch_bytes) MS_RETURN_IF_ERROR(ApplyStaged(partial_ms_));
  Report(&changelog, /*always=*/false);
  return absl::OkStatus();
}

absl::StatusOr<Restorer::Outcome> Restorer::TakeFailure(const log::PartitionFailed& failure) {
  const std::string what = StrCat("read changelog ", failure.from.ToString());
  if (absl::IsOutOfRange(failure.status)) {
    LogWarning(
        "the log start has passed the restore: state is rebuilt from the changelog",
        {{"group", identity_.group}, {"changelog", failure.from.ToString()}, {"cause", failure.status.ToString()}});
    return Outcome::kRebuild;
  }
  // Not DATA_LOSS: that means damaged state, and wiping the state would not mend the log.
  if (absl::IsDataLoss(failure.status)) {
    return absl::FailedPreconditionError(StrCat(what, ": the log itself is damaged: ", ToStd(failure.status.message()),
                                                ". Restore the log from a copy"));
  }
  return Annotate(failure.status, what);
}

void Restorer::Advance(Changelog* changelog, Offset to) {
  if (to <= changelog->position) return;
  changelog->position = to;
  changelog->last_advance = options_.clock->Monotonic();
}

absl::Status Restorer::ApplyStaged(int64_t wall_ms) {
  Positions positions;
  for (const Changelog& changelog : changelogs_) positions.changelog[changelog.store] = changelog.position;
  positions.wall_ms = wall_ms;
  MS_RETURN_IF_ERROR(store_->Apply(staged_, positions));
  staged_.clear();
  staged_bytes_ = 0;
  return absl::OkStatus();
}

absl::Status Restorer::CheckStalled() {
  const absl::Duration now = options_.clock->Monotonic();
  // Partitions take turns: one that waits while another moves is not stalled.
  const Changelog* waiting = nullptr;
  for (const Changelog& changelog : changelogs_) {
    if (now - changelog.last_advance < options_.stall_deadline && !changelog.Done()) return absl::OkStatus();
    if (!changelog.Done() && waiting == nullptr) waiting = &changelog;
  }
  return waiting == nullptr ? absl::OkStatus() : StallError(*waiting);
}

absl::Status Restorer::StallError(const Changelog& changelog) {
  std::string message = StrCat("restore of store '", changelog.store_name, "': changelog ", changelog.from.ToString(),
                               " stands at offset ", changelog.position.value(), " of ", changelog.end.value(), " for ",
                               absl::FormatDuration(options_.stall_deadline));
  const auto stable = log_->admin().EndOffset(changelog.from, log::Isolation::kReadCommitted);
  if (stable.ok() && *stable < changelog.end) {
    StrAppend(&message, "; a transaction left open keeps the last stable offset at ", stable->value(),
              ": it ends when its writer comes back or its timeout passes");
  } else {
    StrAppend(&message, "; the log sends nothing: look at the brokers of this partition");
  }
  return absl::DeadlineExceededError(message);
}

void Restorer::Report(Changelog* changelog, bool always) {
  if (!options_.on_progress) return;
  const absl::Duration now = options_.clock->Monotonic();
  if (!always && now - changelog->last_report < kProgressInterval) return;
  changelog->last_report = now;
  options_.on_progress({changelog->store, changelog->position, changelog->end, changelog->records, changelog->bytes});
}

}  // namespace

int64_t DeleteRetentionMs(const log::TopicInfo& topic) {
  const auto found = topic.config.find("delete.retention.ms");
  int64_t value = 0;
  if (found == topic.config.end() || !absl::SimpleAtoi(found->second, &value) || value < 0)
    return kDefaultDeleteRetentionMs;
  return value;
}

absl::Status RestoreTask(log::Log* log, TaskStore* store, const TaskIdentity& identity, const RestoreOptions& options) {
  return Restorer(log, store, identity, options).Run();
}

}  // namespace millstream::store
