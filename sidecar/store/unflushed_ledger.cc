#include "sidecar/store/unflushed_ledger.h"

namespace millstream::store {
namespace {
// Batches are added up to entries of about this size, so that the ledger stays short (64 MiB unflushed: 256 entries).
// Costs precision only: an entry is counted until all of it is on disk.
constexpr int64_t kEntryBytes = 256 << 10;
}  // namespace

UnflushedLedger::~UnflushedLedger() { Change(-bytes()); }

void UnflushedLedger::Change(int64_t by) {
  bytes_.fetch_add(by, std::memory_order_relaxed);
  total_->fetch_add(by, std::memory_order_relaxed);
}

void UnflushedLedger::Written(uint64_t sequence, int64_t bytes) {
  absl::MutexLock lock(&mutex_);
  if (sequence <= flushed_) return;
  if (!entries_.empty() && entries_.back().bytes < kEntryBytes) {
    entries_.back().sequence = sequence;
    entries_.back().bytes += bytes;
  } else {
    entries_.push_back({sequence, bytes});
  }
  Change(bytes);
}

void UnflushedLedger::Flushed(uint64_t sequence) {
  absl::MutexLock lock(&mutex_);
  if (sequence > flushed_) flushed_ = sequence;
  while (!entries_.empty() && entries_.front().sequence <= flushed_) {
    Change(-entries_.front().bytes);
    entries_.pop_front();
  }
}

}  // namespace millstream::store
