#ifndef MILLSTREAM_SIDECAR_STORE_STATE_ENVIRONMENT_IMPL_H_
#define MILLSTREAM_SIDECAR_STORE_STATE_ENVIRONMENT_IMPL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "rocksdb/cache.h"
#include "rocksdb/env.h"
#include "rocksdb/write_buffer_manager.h"
#include "sidecar/store/state_environment.h"
#include "sidecar/store/value_cache.h"

// Internal to sidecar/store.
namespace millstream::store {

class Database;

// Keeps memtables of all databases within one bound. RocksDB's own manager only flushes the database that happens to
// write (or stalls it for ever while idle ones hold the memory); this one flushes whoever holds most.
struct StateEnvironment::Impl {
  explicit Impl(const StateMemory& memory);

  // Called before a write: starts a flush of the largest database above the soft bound; above the hard one waits for
  // it. A database whose flush fails (disk full) refuses its own next write and nobody else's: what it holds stays,
  // and the others are kept small beside it.
  void MakeRoom();
  void Register(const std::shared_ptr<Database>& database);

  const int64_t memtable_bytes;
  const std::shared_ptr<rocksdb::Cache> block_cache;
  const std::shared_ptr<rocksdb::WriteBufferManager> write_buffers;
  const std::shared_ptr<rocksdb::Logger> logger;
  std::atomic<int64_t> unflushed_bytes{0};  // sum over the databases
  std::atomic<int> open_families{0};        // of stores, over the databases
  std::atomic<uint32_t> next_cache_space{0};
  absl::Mutex values_mutex;  // held for a few hundred keys at a time
  ValueCache values ABSL_GUARDED_BY(values_mutex);

 private:
  bool Above(double fraction) const;
  // Open databases with something to flush, the largest first.
  std::vector<std::shared_ptr<Database>> ByUnflushedBytes();

  absl::Mutex mutex_;
  std::vector<std::weak_ptr<Database>> databases_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millstream::store

#endif  // MILLSTREAM_SIDECAR_STORE_STATE_ENVIRONMENT_IMPL_H_
