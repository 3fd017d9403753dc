#include "common/log/embedded/compaction.h"

#include <algorithm>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/log/embedded/batch.h"

namespace millstream::log::embedded {
namespace {

// Keys known at a time: about 26 MB. More are done in several passes.
constexpr size_t kMostKeys = 800'000;
// Written in one go.
constexpr size_t kMostWriteBytes = 1 << 20;
// Less is not worth a pass in the background.
constexpr int64_t kLeastDirtyBytes = 16 << 20;

// 128 bits stand for a key, salted anew in every process: two keys taken for one would lose data.
class LastOffsets {
 public:
  LastOffsets() {
    std::random_device random;
    for (uint64_t& salt : salts_) salt = static_cast<uint64_t>(random()) << 32 | random();
  }
  void Note(std::string_view key, int64_t offset) {
    int64_t& last = offsets_.try_emplace(IdOf(key), offset).first->second;
    last = std::max(last, offset);
  }
  bool Superseded(std::string_view key, int64_t offset) const {
    const auto it = offsets_.find(IdOf(key));
    return it != offsets_.end() && it->second > offset;
  }
  size_t size() const { return offsets_.size(); }
  void Clear() { offsets_.clear(); }

 private:
  using Id = std::pair<uint64_t, uint64_t>;
  Id IdOf(std::string_view key) const {
    return {absl::HashOf(salts_[0], ToAbsl(key)), absl::HashOf(salts_[1], ToAbsl(key), salts_[2])};
  }

  uint64_t salts_[3];
  absl::flat_hash_map<Id, int64_t> offsets_;
};

// One compaction of one partition.
class Compactor {
 public:
  Compactor(Core& core, PartitionState* partition)
      : core_(core), partition_(*partition), now_ms_(core.clock->WallMillis()), set_(core.storage->NewWriteSet()) {}

  absl::Status Run() {
    Start();
    do {
      last_offsets_.Clear();
      MS_RETURN_IF_ERROR(Learn());
      for (const SegmentRef& ref : refs_) {
        if (ref.first_offset >= learned_to_) break;
        MS_RETURN_IF_ERROR(Rewrite(ref));
      }
      MS_RETURN_IF_ERROR(Finish());
    } while (learned_to_ < limit_ && !core_.stopping);
    return absl::OkStatus();
  }

 private:
  // Batches that become one.
  struct Merge {
    BatchBuilder builder;
    int64_t base = 0;             // of the first of them
    std::vector<int64_t> others;  // bases of the rest
    int64_t end = 0;
    int64_t bytes = 0;          // what they take now
    int64_t segment_bytes = 0;  // of the partition in the segment, up to their end
    int64_t append_ms = 0;
    int64_t delete_horizon_ms = 0;
    bool changed = false;
    bool empty() const { return bytes == 0; }
  };

  void Start() {
    absl::MutexLock lock(&core_.state_mutex);
    refs_ = partition_.refs;
    aborted_ = partition_.aborted;
    learned_to_ = std::max(partition_.cleaned_to, partition_.start);
    limit_ = std::max(partition_.LastStable(), learned_to_);
    end_ = partition_.high_watermark;
    dirty_at_start_ = partition_.dirty_bytes;
  }

  // Notes the last offset of every key from where the last pass ended, as far as memory allows.
  absl::Status Learn() {
    for (const SegmentRef& ref : refs_) {
      BatchCursor cursor = core_.storage->NewCursor(ref.segment, partition_.uid);
      for (cursor.SeekAtOrBefore(learned_to_); cursor.Valid() && cursor.base() < limit_; cursor.Next()) {
        if (last_offsets_.size() >= kMostKeys) return absl::OkStatus();
        MS_ASSIGN_OR_RETURN(BatchReader batch, Parse(cursor));
        const int64_t end = cursor.base() + batch.header().last_delta + 1;
        if (end <= learned_to_) continue;
        if (partition_.config.min_compaction_lag_ms > now_ms_ - batch.header().append_ms) {
          limit_ = cursor.base();
          break;
        }
        if (Committed(batch.header(), cursor.base())) {
          RecordView record;
          while (batch.Next(&record)) {
            if (record.key) last_offsets_.Note(*record.key, cursor.base() + record.delta);
          }
        }
        learned_to_ = end;
      }
      MS_RETURN_IF_ERROR(cursor.status());
    }
    learned_to_ = limit_;
    return absl::OkStatus();
  }

  absl::StatusOr<BatchReader> Parse(const BatchCursor& cursor) const {
    auto batch = BatchReader::Parse(cursor.value());
    if (!batch.ok()) return Annotate(batch.status(), StrCat(partition_.name.ToString(), " at ", cursor.base()));
    return batch;
  }

  bool Committed(const BatchHeader& header, int64_t base) const {
    return !header.control() && !(header.transactional && aborted_->Covers(header.producer_id, base));
  }

  absl::Status Rewrite(const SegmentRef& ref) {
    segment_ = ref.segment;
    bool anything_left = false;
    for (std::optional<int64_t> from = 0; from;) {
      MS_ASSIGN_OR_RETURN(from, MergeSome(*from, &anything_left));
      MS_RETURN_IF_ERROR(Write());
    }
    if (!anything_left) emptied_segments_.push_back(ref.segment);
    return absl::OkStatus();
  }

  // Merges batches of the segment until there is enough to write. Returns where to go on; nullopt at the end.
  absl::StatusOr<std::optional<int64_t>> MergeSome(int64_t from, bool* anything_left) {
    BatchCursor cursor = core_.storage->NewCursor(segment_, partition_.uid);
    for (cursor.SeekAtOrBefore(from); cursor.Valid(); cursor.Next()) {
      if (cursor.base() < from) continue;
      if (cursor.base() >= learned_to_) {
        *anything_left = true;
        break;
      }
      if (core_.stopping) return absl::CancelledError("compaction stopped");
      MS_ASSIGN_OR_RETURN(BatchReader batch, Parse(cursor));
      if (!MergeTakes(batch.header(), cursor.base())) {
        *anything_left = FlushMerge() || *anything_left;
        if (set_.bytes() >= kMostWriteBytes) return cursor.base();
      }
      AddToMerge(&batch, cursor.base(), static_cast<int64_t>(cursor.value().size()));
      MS_RETURN_IF_ERROR(batch.status());
    }
    MS_RETURN_IF_ERROR(cursor.status());
    *anything_left = FlushMerge() || *anything_left;
    return std::nullopt;
  }

  bool MergeTakes(const BatchHeader& header, int64_t base) const {
    return merge_.empty() || (merge_.builder.payload().size() < kBatchTargetBytes / 2 &&
                              base + header.last_delta - merge_.base < UINT32_MAX);
  }

  void AddToMerge(BatchReader* batch, int64_t base, int64_t bytes) {
    const BatchHeader& header = batch->header();
    if (merge_.empty()) {
      merge_.base = base;
    } else {
      merge_.others.push_back(base);
      merge_.changed = true;
    }
    merge_.bytes += bytes;
    merge_.segment_bytes = header.segment_bytes_before + bytes;
    merge_.end = base + header.last_delta + 1;
    merge_.append_ms = std::max(merge_.append_ms, header.append_ms);
    if (!Committed(header, base)) {
      merge_.changed = true;
      return;
    }
    const bool tombstones_go = header.delete_horizon_ms > 0 && now_ms_ > header.delete_horizon_ms;
    RecordView record;
    while (batch->Next(&record)) {
      const bool goes = (record.key && last_offsets_.Superseded(*record.key, base + record.delta)) ||
                        (!record.value && tombstones_go);
      if (goes) {
        merge_.changed = true;
        continue;
      }
      if (!record.value) NoteTombstone(header);
      merge_.builder.Add(record, static_cast<uint32_t>(base + record.delta - merge_.base));
    }
  }

  // A tombstone met for the first time stays delete.retention.ms from now: older values of its key are gone after this
  // pass, and a reader that has seen one has that long to see the tombstone too.
  void NoteTombstone(const BatchHeader& header) {
    const int64_t horizon =
        header.delete_horizon_ms > 0 ? header.delete_horizon_ms : now_ms_ + partition_.config.delete_retention_ms;
    if (header.delete_horizon_ms == 0) merge_.changed = true;
    merge_.delete_horizon_ms = std::max(merge_.delete_horizon_ms, horizon);
  }

  // Returns whether something is left of it.
  bool FlushMerge() {
    if (merge_.empty()) return false;
    const bool keep = !merge_.builder.empty() || merge_.end == end_;
    if (merge_.changed || !keep) PutMerge(keep);
    merge_.builder.Clear();
    BatchBuilder builder = std::move(merge_.builder);
    merge_ = {};
    merge_.builder = std::move(builder);
    return keep;
  }

  void PutMerge(bool keep) {
    for (int64_t other : merge_.others) set_.DeleteBatch(segment_, partition_.uid, other);
    freed_ += merge_.bytes;
    if (!keep) {
      set_.DeleteBatch(segment_, partition_.uid, merge_.base);
      return;
    }
    BatchHeader header = merge_.builder.header();
    header.last_delta = static_cast<uint32_t>(merge_.end - 1 - merge_.base);
    header.append_ms = merge_.append_ms;
    header.delete_horizon_ms = merge_.delete_horizon_ms;
    header.segment_bytes_before = merge_.segment_bytes - merge_.builder.bytes();
    char encoded[kBatchHeaderBytes];
    EncodeBatchHeader(header, merge_.builder.payload(), encoded);
    set_.PutBatch(segment_, partition_.uid, merge_.base, {encoded, sizeof encoded}, merge_.builder.payload());
    freed_ -= merge_.builder.bytes();
  }

  absl::Status Write() {
    if (set_.empty()) return absl::OkStatus();
    absl::MutexLock lock(&core_.write_mutex);
    if (partition_.deleted) return absl::CancelledError("topic deleted");
    PutDeadBytes(segment_, core_.dead_bytes[segment_] + freed_, &set_);
    MS_RETURN_IF_ERROR(core_.storage->Write(set_));
    core_.dead_bytes[segment_] += freed_;
    absl::MutexLock state_lock(&core_.state_mutex);
    for (SegmentRef& ref : partition_.refs) {
      if (ref.segment == segment_) ref.dead += freed_;
    }
    freed_ = 0;
    set_.Clear();
    return absl::OkStatus();
  }

  // Everything below learned_to_ is clean: what only served to read it goes too.
  absl::Status Finish() {
    absl::MutexLock lock(&core_.write_mutex);
    if (partition_.deleted) return absl::CancelledError("topic deleted");
    PutPartition({partition_.uid, partition_.start, partition_.start, learned_to_}, &set_);
    const std::vector<AbortedTransaction> settled = partition_.aborted->Before(learned_to_);
    for (const AbortedTransaction& aborted : settled) DeleteAborted(partition_.uid, aborted, &set_);
    std::vector<SegmentRef> refs = partition_.refs;
    // The last ref stays: appends go on in it.
    for (size_t i = 0; i + 1 < refs.size();) {
      const auto emptied = std::find(emptied_segments_.begin(), emptied_segments_.end(), refs[i].segment);
      // One that reaches beyond what was looked at may have got batches meanwhile.
      if (emptied == emptied_segments_.end() || refs[i + 1].first_offset > learned_to_) {
        PutSegmentRef(partition_.uid, refs[i++], &set_);
        continue;
      }
      DeleteSegmentRef(partition_.uid, refs[i].segment, &set_);
      refs.erase(refs.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (!refs.empty()) PutSegmentRef(partition_.uid, refs.back(), &set_);
    MS_RETURN_IF_ERROR(core_.storage->Write(set_));
    set_.Clear();
    absl::MutexLock state_lock(&core_.state_mutex);
    partition_.refs = std::move(refs);
    partition_.aborted = partition_.aborted->From(learned_to_);
    partition_.cleaned_to = learned_to_;
    if (learned_to_ == limit_) partition_.dirty_bytes -= std::exchange(dirty_at_start_, 0);
    refs_ = partition_.refs;
    emptied_segments_.clear();
    return absl::OkStatus();
  }

  Core& core_;
  PartitionState& partition_;
  const int64_t now_ms_;
  std::vector<SegmentRef> refs_;
  std::shared_ptr<const AbortedIndex> aborted_;
  int64_t learned_to_ = 0;  // keys are known, and the partition will be clean, up to here
  int64_t limit_ = 0;       // not beyond this
  int64_t end_ = 0;
  int64_t dirty_at_start_ = 0;
  LastOffsets last_offsets_;
  WriteSet set_;
  uint32_t segment_ = 0;  // that set_ is about
  int64_t freed_ = 0;     // by set_
  Merge merge_;
  std::vector<uint32_t> emptied_segments_;
};

}  // namespace

absl::Status Compact(Core& core, const std::shared_ptr<PartitionState>& partition) {
  if (!partition->config.compact) return absl::OkStatus();
  const absl::Status status = Compactor(core, partition.get()).Run();
  return absl::IsCancelled(status) ? absl::OkStatus() : status;
}

bool WorthCompacting(const PartitionState& partition) {
  if (!partition.config.compact || partition.dirty_bytes < kLeastDirtyBytes) return false;
  return static_cast<double>(partition.dirty_bytes) >=
         partition.config.min_cleanable_dirty_ratio * static_cast<double>(partition.LiveBytes());
}

}  // namespace millstream::log::embedded
