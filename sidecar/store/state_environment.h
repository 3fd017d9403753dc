#ifndef MILLSTREAM_SIDECAR_STORE_STATE_ENVIRONMENT_H_
#define MILLSTREAM_SIDECAR_STORE_STATE_ENVIRONMENT_H_

#include <cstdint>
#include <memory>

namespace millstream::store {

struct StateMemory {
  int64_t block_cache_bytes = 64 << 20;  // half of it for values of single keys
  // Over all tasks and stores: memtables and the batches in them, kept until they are flushed. Writes stall at it.
  int64_t memtable_bytes = 64 << 20;
};

// What all task databases of a process share: one block cache, one write-buffer manager, one thread pool.
// Thread-safe; outlives every TaskStore opened with it.
class StateEnvironment {
 public:
  explicit StateEnvironment(const StateMemory& memory);
  ~StateEnvironment();

  // Bytes in use now, for metrics.
  int64_t BlockCacheUsage() const;
  int64_t MemtableUsage() const;

  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace millstream::store

#endif  // MILLSTREAM_SIDECAR_STORE_STATE_ENVIRONMENT_H_
