#include "common/log/embedded/admin.h"

#include <algorithm>
#include <optional>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/log/embedded/batch.h"
#include "common/log/embedded/topics.h"

namespace millstream::log::embedded {
namespace {

// Offset of the first record of the batch that is not before `from` in offset and not before `timestamp_ms` in time.
std::optional<int64_t> FirstAtOrAfter(int64_t base, BatchReader* batch, int64_t from, int64_t timestamp_ms) {
  RecordView record;
  while (batch->Next(&record)) {
    if (base + record.delta >= from && record.timestamp_ms >= timestamp_ms) return base + record.delta;
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<std::vector<TopicInfo>> EmbeddedAdmin::ListTopics() {
  absl::MutexLock lock(&core_->state_mutex);
  std::vector<TopicInfo> topics;
  for (const auto& [name, topic] : core_->topics) topics.push_back(Describe(*topic));
  return topics;
}

absl::StatusOr<TopicInfo> EmbeddedAdmin::DescribeTopic(const std::string& topic) {
  absl::MutexLock lock(&core_->state_mutex);
  const auto it = core_->topics.find(topic);
  if (it == core_->topics.end()) return absl::NotFoundError(StrCat("topic ", topic, " does not exist"));
  return Describe(*it->second);
}

absl::Status EmbeddedAdmin::CreateTopic(const TopicSpec& spec) { return embedded::CreateTopic(*core_, spec); }
absl::Status EmbeddedAdmin::DeleteTopic(const std::string& topic) { return embedded::DeleteTopic(*core_, topic); }

absl::StatusOr<Offset> EmbeddedAdmin::StartOffset(const TopicPartition& of) {
  absl::MutexLock lock(&core_->state_mutex);
  MS_ASSIGN_OR_RETURN(const auto partition, core_->FindLocked(of));
  return Offset(partition->start);
}

absl::StatusOr<Offset> EmbeddedAdmin::EndOffset(const TopicPartition& of, Isolation isolation) {
  absl::MutexLock lock(&core_->state_mutex);
  MS_ASSIGN_OR_RETURN(const auto partition, core_->FindLocked(of));
  return Offset(partition->End(isolation));
}

absl::StatusOr<Offset> EmbeddedAdmin::OffsetForTime(const TopicPartition& of, int64_t timestamp_ms) {
  std::shared_ptr<PartitionState> partition;
  std::vector<SegmentRef> refs;
  int64_t start, end;
  {
    absl::MutexLock lock(&core_->state_mutex);
    MS_ASSIGN_OR_RETURN(partition, core_->FindLocked(of));
    refs = partition->refs;
    start = partition->start;
    end = partition->high_watermark;
  }
  for (const SegmentRef& ref : refs) {
    if (ref.max_timestamp_ms < timestamp_ms) continue;
    BatchCursor cursor = core_->storage->NewCursor(ref.segment, partition->uid);
    for (cursor.SeekAtOrBefore(start); cursor.Valid() && cursor.base() < end; cursor.Next()) {
      MS_ASSIGN_OR_RETURN(const BatchHeader header, BatchReader::ParseHeader(cursor.value()));
      if (header.control() || header.max_timestamp < timestamp_ms) continue;
      auto batch = BatchReader::Parse(cursor.value());
      if (!batch.ok()) return Annotate(batch.status(), of.ToString());
      if (const auto found = FirstAtOrAfter(cursor.base(), &*batch, start, timestamp_ms)) return Offset(*found);
      if (!batch->status().ok()) return Annotate(batch->status(), of.ToString());
    }
    MS_RETURN_IF_ERROR(cursor.status());
  }
  return Offset(end);
}

absl::StatusOr<std::map<TopicPartition, GroupOffset>> EmbeddedAdmin::StableGroupOffsets(
    const std::string& group, absl::Span<const TopicPartition> partitions) {
  const absl::Duration until = SystemClock().Monotonic() + core_->call_deadline;
  absl::MutexLock lock(&core_->state_mutex);
  for (;;) {
    const std::optional<TopicPartition> pending = core_->groups.FirstPending(group, partitions);
    if (!pending) return core_->groups.Offsets(group, partitions);
    const absl::Duration left = until - SystemClock().Monotonic();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(StrCat("offsets of group ", group,
                                                " are not stable: a transaction with the one of ", pending->ToString(),
                                                " is still open"));
    }
    core_->transaction_ended.WaitWithTimeout(&core_->state_mutex, left);
  }
}

absl::Status EmbeddedAdmin::SetGroupOffsets(const std::string& group,
                                            absl::Span<const std::pair<TopicPartition, GroupOffset>> offsets) {
  WriteSet set = core_->storage->NewWriteSet();
  absl::MutexLock lock(&core_->write_mutex);
  std::vector<OffsetChange> changes;
  {
    absl::MutexLock state_lock(&core_->state_mutex);
    if (core_->groups.HasMember(group)) {
      return absl::FailedPreconditionError(
          StrCat("group ", group, " has members: stop them before its offsets are set"));
    }
    for (const auto& [partition, offset] : offsets) MS_RETURN_IF_ERROR(core_->FindLocked(partition).status());
    changes = core_->groups.Direct(group, offsets);
    PutGroup(group, core_->groups.generation(group), &set);
  }
  for (const OffsetChange& change : changes) PutGroupOffset(group, change.partition, change.offset, &set);
  MS_RETURN_IF_ERROR(core_->storage->Write(set));
  {
    absl::MutexLock state_lock(&core_->state_mutex);
    core_->groups.Restore(group, core_->groups.generation(group));
    core_->groups.MarkWritten(changes);
    core_->groups.Apply(changes);
  }
  return core_->storage->Sync();
}

absl::StatusOr<std::vector<GroupInfo>> EmbeddedAdmin::ListGroups() {
  absl::MutexLock lock(&core_->state_mutex);
  return core_->groups.List();
}

absl::Status EmbeddedAdmin::DeleteGroup(const std::string& group) {
  WriteSet set = core_->storage->NewWriteSet();
  absl::MutexLock lock(&core_->write_mutex);
  {
    absl::MutexLock state_lock(&core_->state_mutex);
    if (!core_->groups.Contains(group)) return absl::NotFoundError(StrCat("group ", group, " does not exist"));
    if (core_->groups.HasMember(group))
      return absl::FailedPreconditionError(StrCat("group ", group, " has members: stop them first"));
    if (core_->groups.HasPending(group)) {
      return absl::FailedPreconditionError(
          StrCat("a transaction with offsets of group ", group, " is open: end it first"));
    }
    for (const TopicPartition& partition : core_->groups.PartitionsOf(group)) DeleteGroupOffset(group, partition, &set);
  }
  embedded::DeleteGroup(group, &set);
  MS_RETURN_IF_ERROR(core_->storage->Write(set));
  {
    absl::MutexLock state_lock(&core_->state_mutex);
    core_->groups.Remove(group);
  }
  return core_->storage->Sync();
}

}  // namespace millstream::log::embedded
