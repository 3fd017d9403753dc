#ifndef MILLSTREAM_SIDECAR_HOST_MEMORY_BUDGET_H_
#define MILLSTREAM_SIDECAR_HOST_MEMORY_BUDGET_H_

#include <cstdint>
#include <string>

namespace millstream::host {

// Who gets how much of the one number that bounds the process (engine.md, "Memory"), in bytes. The first four are
// shared by all processors of the process, the rest is per processor.
struct MemoryShares {
  int64_t log_cache = 0, log_memtables = 0;      // embedded log; none on Kafka
  int64_t state_cache = 0, state_memtables = 0;  // task databases
  int64_t overlays = 0;                          // staged and committed-not-applied state
  int64_t fetch_buffer = 0;                      // records the log's reader holds
  int64_t fetched = 0;                           // records the engine holds
  int64_t frames = 0;                            // on their way to one worker
  int64_t unflushed = 0;                         // changelog applied and not on disk
  int64_t restore = 0;                           // changelog being read back, all tasks
};

// Half of the number is left for code, stacks, frames being decoded and what the allocator cannot reuse.
// `on_kafka`: the embedded log's part goes to what is read.
MemoryShares SplitMemory(int64_t total_bytes, int processors, bool on_kafka = false);

// The bound when nothing is said: the memory limit of the cgroup; without one the lesser of 512 MiB and a quarter of
// the RAM. `root` is where /proc and /sys are, for tests.
int64_t DefaultMemoryBytes(const std::string& root = "");

}  // namespace millstream::host

#endif  // MILLSTREAM_SIDECAR_HOST_MEMORY_BUDGET_H_
