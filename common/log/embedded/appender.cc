#include "common/log/embedded/appender.h"

#include <algorithm>
#include <utility>

#include "common/base/crash_point.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::log::embedded {
namespace {

int64_t SizeOf(const OutgoingRecord& record) {
  size_t size = 0;
  if (record.key) size += record.key->size();
  if (record.value) size += record.value->size();
  for (const Header& header : record.headers) {
    size += header.name.size();
    if (header.value) size += header.value->size();
  }
  return static_cast<int64_t>(size);
}

absl::Status Check(const OutgoingRecord& record, const PartitionState& partition) {
  const int64_t size = SizeOf(record);
  if (size > partition.config.max_message_bytes) {
    return absl::InvalidArgumentError(StrCat(
        "record of ", size, " bytes with key ", record.key ? Readable(*record.key) : "null", " is too large for topic ",
        record.to.topic, ", whose max.message.bytes is ", partition.config.max_message_bytes));
  }
  if (partition.config.compact && !record.key) {
    return absl::InvalidArgumentError(StrCat("record without a key for topic ", record.to.topic,
                                             ", which is compacted by key: give it one, or use cleanup.policy=delete"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RecordSorter::Sort(const std::vector<OutgoingRecord>& records) {
  used_ = 0;
  for (auto& [to, slot] : slots_) slot.current = -1;
  for (const OutgoingRecord& record : records) {
    const absl::StatusOr<Slot*> slot = FindSlot(record.to);
    const absl::Status status = slot.ok() ? Add(record, *slot) : slot.status();
    if (status.ok()) continue;
    used_ = 0;
    return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<RecordSorter::Slot*> RecordSorter::FindSlot(const TopicPartition& to) {
  Slot& slot = slots_[to];
  if (slot.current >= 0) return &slot;
  // Once per call: the topic may have been deleted, and made again, since.
  auto partition = core_->Find(to);
  if (!partition.ok()) {
    slots_.erase(to);
    return partition.status();
  }
  slot.partition = *std::move(partition);
  return &slot;
}

absl::Status RecordSorter::Add(const OutgoingRecord& record, Slot* slot) {
  MS_RETURN_IF_ERROR(Check(record, *slot->partition));
  if (slot->current < 0 || batches_[slot->current].batch.payload().size() >= kBatchTargetBytes) {
    if (used_ == batches_.size()) batches_.emplace_back();
    slot->current = static_cast<int>(used_++);
    PendingBatch& fresh = batches_[slot->current];
    fresh.partition = slot->partition;
    fresh.batch.Clear();
    fresh.base = -1;
  }
  batches_[slot->current].batch.Add(record);
  return absl::OkStatus();
}

AppendPlan::AppendPlan(Core* core, WriteSet* set) : core_(core), set_(set), now_ms_(core->clock->WallMillis()) {
  if (core_->bytes_in_segment < core_->segment_bytes) return;
  ++core_->segment;
  core_->bytes_in_segment = 0;
}

AppendPlan::Progress& AppendPlan::ProgressOf(const std::shared_ptr<PartitionState>& partition) {
  const auto [it, fresh] = progress_.try_emplace(partition);
  Progress& progress = it->second;
  if (!fresh) return progress;
  progress.next_offset = partition->next_offset;
  const std::vector<SegmentRef>& refs = partition->refs;
  if (!refs.empty() && refs.back().segment == core_->segment) {
    progress.ref = refs.back();
    return progress;
  }
  // The figures of a ref are final, and written, when the next one begins.
  if (!refs.empty()) PutSegmentRef(partition->uid, refs.back(), set_);
  progress.new_ref = true;
  progress.ref.segment = core_->segment;
  progress.ref.first_offset = progress.next_offset;
  PutSegmentRef(partition->uid, progress.ref, set_);
  return progress;
}

int64_t AppendPlan::Put(const std::shared_ptr<PartitionState>& partition, BatchHeader header,
                        const std::string& payload) {
  Progress& progress = ProgressOf(partition);
  const int64_t base = progress.next_offset;
  header.append_ms = now_ms_;
  header.segment_bytes_before = progress.ref.bytes;
  char encoded[kBatchHeaderBytes];
  EncodeBatchHeader(header, payload, encoded);
  set_->PutBatch(progress.ref.segment, partition->uid, base, {encoded, sizeof encoded}, payload);
  const int64_t bytes = static_cast<int64_t>(kBatchHeaderBytes + payload.size());
  progress.next_offset = base + header.last_delta + 1;
  progress.bytes += bytes;
  progress.ref.bytes += bytes;
  progress.ref.max_timestamp_ms = std::max(progress.ref.max_timestamp_ms, header.max_timestamp);
  progress.ref.last_append_ms = now_ms_;
  core_->bytes_in_segment += bytes;
  return base;
}

void AppendPlan::Add(PendingBatch* pending) {
  pending->base = Put(pending->partition, pending->batch.header(), pending->batch.payload());
}

int64_t AppendPlan::AddMarker(const std::shared_ptr<PartitionState>& partition, BatchKind kind, int64_t producer_id) {
  BatchHeader header;
  header.kind = kind;
  header.transactional = true;
  header.producer_id = producer_id;
  return Put(partition, header, "");
}

void AppendPlan::Publish() {
  for (const auto& [partition, progress] : progress_) {
    const int64_t old_high_watermark = partition->high_watermark;
    const int64_t old_last_stable = partition->LastStable();
    partition->next_offset = progress.next_offset;
    partition->high_watermark = progress.next_offset;
    partition->dirty_bytes += progress.bytes;
    if (progress.new_ref) {
      partition->refs.push_back(progress.ref);
    } else {
      partition->refs.back() = progress.ref;
    }
    NotifyIfMoved(*partition, old_high_watermark, old_last_stable);
  }
}

absl::Status AppendPlain(Core& core, absl::Span<PendingBatch> batches) {
  if (batches.empty()) return absl::OkStatus();
  WriteSet set = core.storage->NewWriteSet();
  absl::MutexLock lock(&core.write_mutex);
  AppendPlan plan(&core, &set);
  for (PendingBatch& pending : batches) {
    if (pending.partition->deleted)
      return absl::NotFoundError(StrCat("topic ", pending.partition->name.topic, " was deleted"));
    plan.Add(&pending);
  }
  MS_RETURN_IF_ERROR(core.storage->Write(set));
  CrashPoint("log-append-written");
  absl::MutexLock state_lock(&core.state_mutex);
  plan.Publish();
  return absl::OkStatus();
}

void NoteAcknowledged(absl::Span<const PendingBatch> batches, AcknowledgedOffsets* offsets) {
  for (const PendingBatch& pending : batches) {
    Offset& last = offsets->try_emplace(pending.partition->name, kNoOffset).first->second;
    last = std::max(last, Offset(pending.base + pending.batch.header().last_delta));
  }
}

}  // namespace millstream::log::embedded
