#ifndef MILLSTREAM_SIDECAR_STORE_UNFLUSHED_LEDGER_H_
#define MILLSTREAM_SIDECAR_STORE_UNFLUSHED_LEDGER_H_

#include <atomic>
#include <cstdint>
#include <deque>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

// Internal to sidecar/store.
namespace millstream::store {

// Counts the bytes written to a database and not yet flushed, by sequence number. Thread-safe.
class UnflushedLedger {
 public:
  // `total` is raised and lowered along; outlives the ledger.
  explicit UnflushedLedger(std::atomic<int64_t>* total) : total_(total) {}
  ~UnflushedLedger();

  // A batch of so many bytes was written; `sequence` is its last number. In rising order.
  void Written(uint64_t sequence, int64_t bytes);
  // Everything up to `sequence` is on disk. May come before Written of the same number.
  void Flushed(uint64_t sequence);
  int64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  struct Entry {
    uint64_t sequence;
    int64_t bytes;
  };
  void Change(int64_t by);

  std::atomic<int64_t>* const total_;
  std::atomic<int64_t> bytes_{0};
  absl::Mutex mutex_;
  uint64_t flushed_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millstream::store

#endif  // MILLSTREAM_SIDECAR_STORE_UNFLUSHED_LEDGER_H_
