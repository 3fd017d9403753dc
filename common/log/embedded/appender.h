#ifndef MILLSTREAM_COMMON_LOG_EMBEDDED_APPENDER_H_
#define MILLSTREAM_COMMON_LOG_EMBEDDED_APPENDER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/log/embedded/batch.h"
#include "common/log/embedded/core.h"
#include "common/log/record.h"
#include "common/log/writer.h"

namespace millstream::log::embedded {

// A batch on its way into a partition.
struct PendingBatch {
  std::shared_ptr<PartitionState> partition;
  BatchBuilder batch;
  int64_t base = -1;  // given by the append
};

// Sorts records into batches, one or more per partition. One per writer; keeps its memory between uses.
class RecordSorter {
 public:
  explicit RecordSorter(Core* core) : core_(core) {}

  // NOT_FOUND for an unknown partition; INVALID_ARGUMENT for a record that is too large for its topic or lacks the key
  // its compacted topic needs. Then no batch is left.
  absl::Status Sort(const std::vector<OutgoingRecord>& records);
  // Valid until the next Sort.
  absl::Span<PendingBatch> batches() { return absl::MakeSpan(batches_.data(), used_); }

 private:
  struct Slot {
    std::shared_ptr<PartitionState> partition;
    int current = -1;  // index of the batch that is filled
  };
  absl::Status Add(const OutgoingRecord& record, Slot* slot);
  absl::StatusOr<Slot*> FindSlot(const TopicPartition& to);

  Core* const core_;
  absl::flat_hash_map<TopicPartition, Slot> slots_;
  std::vector<PendingBatch> batches_;  // those behind used_ wait to be used again
  size_t used_ = 0;
};

// Puts batches into a write set and, once that is written, makes them visible. Use under Core::write_mutex, all of it:
// offsets are taken for good by Publish only, so a failed write leaves no trace.
class AppendPlan {
 public:
  AppendPlan(Core* core, WriteSet* set) ABSL_EXCLUSIVE_LOCKS_REQUIRED(core->write_mutex);
  // Gives the batch its base offset.
  void Add(PendingBatch* pending);
  // Adds a marker to the partition and returns its offset.
  int64_t AddMarker(const std::shared_ptr<PartitionState>& partition, BatchKind kind, int64_t producer_id);
  // Requires state_mutex too. Wakes readers.
  void Publish();

 private:
  struct Progress {
    int64_t next_offset = 0;
    int64_t bytes = 0;
    SegmentRef ref;
    bool new_ref = false;
  };
  Progress& ProgressOf(const std::shared_ptr<PartitionState>& partition);
  int64_t Put(const std::shared_ptr<PartitionState>& partition, BatchHeader header, const std::string& payload);

  Core* const core_;
  WriteSet* const set_;
  const int64_t now_ms_;
  absl::flat_hash_map<std::shared_ptr<PartitionState>, Progress> progress_;
};

// Appends outside of transactions.
absl::Status AppendPlain(Core& core, absl::Span<PendingBatch> batches);

// Raises `offsets` to the last offset of each batch.
void NoteAcknowledged(absl::Span<const PendingBatch> batches, AcknowledgedOffsets* offsets);

}  // namespace millstream::log::embedded

#endif  // MILLSTREAM_COMMON_LOG_EMBEDDED_APPENDER_H_
