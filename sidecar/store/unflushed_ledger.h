#ifndef MILLSTREAM_SIDECAR_STORE_UNFLUSHED_LEDGER_H_
#define MILLSTREAM_SIDECAR_STORE_UNFLUSHED_LEDGER_H_

#include <atomic>
#include <cstdint>
#include <deque>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "rocksdb/write_batch.h"

// Internal to sidecar/store.
namespace millstream::store {

// The batches written to a database and not yet flushed, oldest first. They count towards the memtable budget for as
// long as they are here, and a database that failed is opened again and given them once more. Thread-safe.
class UnflushedLedger {
 public:
  struct Entry {
    uint64_t sequence = 0;  // the batch's last
    int64_t bytes = 0;
    rocksdb::WriteBatch batch;
  };

  // `total` is raised and lowered along; outlives the ledger.
  explicit UnflushedLedger(std::atomic<int64_t>* total) : total_(total) {}
  ~UnflushedLedger();

  // A batch was written that counts as so many bytes. In rising order of sequence numbers.
  void Written(uint64_t sequence, int64_t bytes, rocksdb::WriteBatch batch);
  // Everything up to `sequence` is on disk. May come before Written of the same number.
  void Flushed(uint64_t sequence);
  int64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

  // For a ledger that belongs to no database any more. Takes all entries of `other`, which are older than its own.
  void TakeFrom(UnflushedLedger* other);
  // The oldest entry, or null. Valid until it is dropped.
  Entry* Oldest();
  void DropOldest();
  void Clear();

 private:
  void Change(int64_t by);

  std::atomic<int64_t>* const total_;
  std::atomic<int64_t> bytes_{0};
  absl::Mutex mutex_;
  uint64_t flushed_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millstream::store

#endif  // MILLSTREAM_SIDECAR_STORE_UNFLUSHED_LEDGER_H_
