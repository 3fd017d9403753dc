#ifndef MILLSTREAM_COMMON_LOG_EMBEDDED_CORE_H_
#define MILLSTREAM_COMMON_LOG_EMBEDDED_CORE_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/log/embedded/catalog.h"
#include "common/log/embedded/group_table.h"
#include "common/log/embedded/partition.h"
#include "common/log/embedded/storage.h"

namespace millstream::log::embedded {

struct Topic {
  TopicEntry entry;
  std::vector<std::shared_ptr<PartitionState>> partitions;
};

// A transactional id: its current epoch and its transaction.
struct Producer {
  enum class State {
    kIdle,
    kOpen,        // records or offsets have been appended
    kCommitting,  // markers written, sync under way
    kUnwritten,   // writing the markers failed: they are not on disk after Storage::Heal
    kUnsynced,    // markers written, sync failed: they are on disk after Storage::Heal
  };

  std::string transactional_id;
  int64_t id = 0;
  int32_t epoch = 0;
  int32_t expired_epoch = -1;  // the epoch that lost its transaction by timeout, for the message
  absl::Duration timeout;
  State state = State::kIdle;
  absl::Duration opened_at;                                                     // monotonic
  absl::flat_hash_map<std::shared_ptr<PartitionState>, int64_t> first_offsets;  // of the transaction
  std::vector<OffsetChange> winning;  // kCommitting, kUnsynced: becomes visible at the end
};

// The state of an embedded log: the database and, in memory, topics, producers and groups. Its parts work on it under
// two locks, taken in this order:
//
//   write_mutex  gives appends their order: held while offsets are taken and the write is made (no sync)
//   state_mutex  guards everything in memory; never held during I/O. Readers take no other lock
//
// What both locks guard is changed under both, so holding one is enough to read it. What is written is in memory before
// it is synced: if the sync fails it has happened all the same (Storage), and memory must not deny it.
struct Core {
  Core(const Clock* clock_in, std::unique_ptr<Storage> storage_in) : clock(clock_in), storage(std::move(storage_in)) {}

  const Clock* const clock;
  const std::unique_ptr<Storage> storage;
  int64_t segment_bytes = 64 << 20;
  absl::Duration call_deadline = absl::Seconds(30);

  absl::Mutex maintenance_mutex ABSL_ACQUIRED_BEFORE(write_mutex);  // one maintenance at a time
  std::atomic<bool> stopping = false;                               // maintenance gives up early

  absl::Mutex write_mutex ABSL_ACQUIRED_BEFORE(state_mutex);
  uint32_t segment ABSL_GUARDED_BY(write_mutex) = 1;
  int64_t bytes_in_segment ABSL_GUARDED_BY(write_mutex) = 0;
  std::map<uint32_t, int64_t> dead_bytes ABSL_GUARDED_BY(write_mutex);
  CounterEntry counters ABSL_GUARDED_BY(write_mutex);

  absl::Mutex state_mutex;
  std::map<std::string, std::shared_ptr<Topic>> topics ABSL_GUARDED_BY(state_mutex);
  std::map<std::string, std::shared_ptr<Producer>> producers ABSL_GUARDED_BY(state_mutex);
  GroupTable groups ABSL_GUARDED_BY(state_mutex);
  absl::CondVar transaction_ended;  // with state_mutex

  // NOT_FOUND names what is missing: the topic or the partition.
  absl::StatusOr<std::shared_ptr<PartitionState>> Find(const TopicPartition& name) ABSL_LOCKS_EXCLUDED(state_mutex);
  absl::StatusOr<std::shared_ptr<PartitionState>> FindLocked(const TopicPartition& name)
      ABSL_SHARED_LOCKS_REQUIRED(state_mutex);
};

// Loads the state from disk and ends the transactions a crash has left open.
absl::Status Recover(Core& core);

// Tells the readers of the partition whose end is not any more what it was.
void NotifyIfMoved(const PartitionState& partition, int64_t old_high_watermark, int64_t old_last_stable);
void NotifyAll(const PartitionState& partition);

}  // namespace millstream::log::embedded

#endif  // MILLSTREAM_COMMON_LOG_EMBEDDED_CORE_H_
