#include "sidecar/store/unflushed_ledger.h"

#include <utility>

namespace millstream::store {
namespace {
// What an entry costs beside its batch: a stream of tiny batches has a bound as well.
constexpr int64_t kEntryOverhead = 256;
}  // namespace

UnflushedLedger::~UnflushedLedger() { Change(-bytes()); }

void UnflushedLedger::Change(int64_t by) {
  bytes_.fetch_add(by, std::memory_order_relaxed);
  total_->fetch_add(by, std::memory_order_relaxed);
}

void UnflushedLedger::Written(uint64_t sequence, int64_t bytes, rocksdb::WriteBatch batch) {
  absl::MutexLock lock(&mutex_);
  if (sequence <= flushed_) return;
  entries_.push_back({sequence, bytes + kEntryOverhead, std::move(batch)});
  Change(bytes + kEntryOverhead);
}

void UnflushedLedger::Flushed(uint64_t sequence) {
  absl::MutexLock lock(&mutex_);
  if (sequence > flushed_) flushed_ = sequence;
  while (!entries_.empty() && entries_.front().sequence <= flushed_) {
    Change(-entries_.front().bytes);
    entries_.pop_front();
  }
}

std::deque<UnflushedLedger::Entry> UnflushedLedger::Take() {
  absl::MutexLock lock(&mutex_);
  for (const Entry& entry : entries_) Change(-entry.bytes);
  return std::exchange(entries_, {});
}

}  // namespace millstream::store
