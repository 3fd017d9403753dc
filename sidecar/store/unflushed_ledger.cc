#include "sidecar/store/unflushed_ledger.h"

#include <utility>

namespace millstream::store {
namespace {
// What an entry costs beside its batch: a stream of tiny batches has a bound as well.
constexpr int64_t kEntryOverhead = 256;

int64_t CostOf(const UnflushedLedger::Entry& entry) { return entry.bytes + kEntryOverhead; }
}  // namespace

UnflushedLedger::~UnflushedLedger() { Change(-bytes()); }

void UnflushedLedger::Change(int64_t by) {
  bytes_.fetch_add(by, std::memory_order_relaxed);
  total_->fetch_add(by, std::memory_order_relaxed);
}

void UnflushedLedger::Written(uint64_t sequence, int64_t bytes, rocksdb::WriteBatch batch) {
  absl::MutexLock lock(&mutex_);
  if (sequence <= flushed_) return;
  entries_.push_back({sequence, bytes, std::move(batch)});
  Change(CostOf(entries_.back()));
}

void UnflushedLedger::Flushed(uint64_t sequence) {
  absl::MutexLock lock(&mutex_);
  if (sequence > flushed_) flushed_ = sequence;
  while (!entries_.empty() && entries_.front().sequence <= flushed_) {
    Change(-CostOf(entries_.front()));
    entries_.pop_front();
  }
}

void UnflushedLedger::TakeFrom(UnflushedLedger* other) {
  std::deque<Entry> older;
  {
    absl::MutexLock lock(&other->mutex_);
    older.swap(other->entries_);
    other->Change(-other->bytes());
  }
  absl::MutexLock lock(&mutex_);
  for (auto entry = older.rbegin(); entry != older.rend(); ++entry) {
    Change(CostOf(*entry));
    entries_.push_front(std::move(*entry));
  }
}

UnflushedLedger::Entry* UnflushedLedger::Oldest() {
  absl::MutexLock lock(&mutex_);
  return entries_.empty() ? nullptr : &entries_.front();
}

void UnflushedLedger::DropOldest() {
  absl::MutexLock lock(&mutex_);
  Change(-CostOf(entries_.front()));
  entries_.pop_front();
}

void UnflushedLedger::Clear() {
  absl::MutexLock lock(&mutex_);
  Change(-bytes());
  entries_.clear();
}

}  // namespace millstream::store
