#ifndef MILLSTREAM_COMMON_LOG_EMBEDDED_PARTITION_H_
#define MILLSTREAM_COMMON_LOG_EMBEDDED_PARTITION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/log/embedded/topic_config.h"
#include "common/log/record.h"

namespace millstream::log::embedded {

// An aborted transaction's stretch of a partition: records of the producer from `first` to `last` (its marker) are
// void.
struct AbortedTransaction {
  int64_t producer_id = 0;
  int64_t first = 0;
  int64_t last = 0;
};

// The aborted transactions of a partition. Never changes once made, so readers use it without a lock.
class AbortedIndex {
 public:
  AbortedIndex() = default;
  bool Covers(int64_t producer_id, int64_t offset) const;
  std::shared_ptr<const AbortedIndex> With(const AbortedTransaction& added) const;
  // Without those that end before `offset`.
  std::shared_ptr<const AbortedIndex> From(int64_t offset) const;
  // Those that end before `offset`.
  std::vector<AbortedTransaction> Before(int64_t offset) const;
  size_t size() const { return entries_.size(); }

 private:
  std::vector<AbortedTransaction> entries_;  // by producer, then last offset; those of one producer do not overlap
};

// What a partition has in one segment of the log.
struct SegmentRef {
  uint32_t segment = 0;
  int64_t first_offset = 0;
  int64_t bytes = 0;  // appended
  int64_t dead = 0;   // of these, removed by retention and compaction
  int64_t max_timestamp_ms = INT64_MIN;
  int64_t last_append_ms = 0;
};

// Told when what a reader may see of a partition has changed. Called with the log's state lock held: must not call
// back.
class PartitionWatcher {
 public:
  virtual ~PartitionWatcher() = default;
  virtual void OnPartitionChanged() = 0;
};

// The state of one partition in memory. Guarded by Core::state_mutex unless said otherwise.
struct PartitionState {
  PartitionState(uint32_t uid_in, TopicPartition name_in, const TopicConfig& config_in)
      : uid(uid_in), name(std::move(name_in)), config(config_in) {}

  const uint32_t uid;  // never used again, also when the topic is deleted
  const TopicPartition name;
  const TopicConfig config;

  int64_t next_offset = 0;  // guarded by Core::write_mutex

  bool deleted = false;
  int64_t start = 0;
  int64_t high_watermark = 0;
  int64_t cleaned_to = 0;   // compacted up to here
  int64_t dirty_bytes = 0;  // appended behind it
  struct OpenTransaction {
    int64_t first = 0;
    int64_t producer_id = 0;
  };
  std::vector<OpenTransaction> open;
  std::shared_ptr<const AbortedIndex> aborted = std::make_shared<AbortedIndex>();
  std::vector<SegmentRef> refs;  // ascending
  struct Watch {
    PartitionWatcher* watcher;
    Isolation isolation;
  };
  std::vector<Watch> watches;

  // First offset whose fate is not decided yet.
  int64_t LastStable() const;
  int64_t End(Isolation isolation) const {
    return isolation == Isolation::kReadCommitted ? LastStable() : high_watermark;
  }
  // Index of the ref that has `offset` or what follows it; refs.size() if there are none.
  size_t RefOf(int64_t offset) const;
  // On disk, without what was removed.
  int64_t LiveBytes() const;
};

}  // namespace millstream::log::embedded

#endif  // MILLSTREAM_COMMON_LOG_EMBEDDED_PARTITION_H_
