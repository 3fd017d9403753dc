#ifndef MILLSTREAM_SIDECAR_ENGINE_WORKER_TABLE_H_
#define MILLSTREAM_SIDECAR_ENGINE_WORKER_TABLE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "sidecar/engine/io.h"

namespace millstream::engine {

// One connection of user code.
struct Worker {
  WorkerId id = 0;
  std::string name;
  int parallel = 1;                                         // batches it takes at once
  bool writable = true;                                     // its outgoing queue has room
  bool goodbye = false;                                     // it (or we) said so: no further batch
  bool dropped = false;                                     // closed by us; what it still says is ignored
  bool tracing = false;                                     // its only batch has the trace flag
  bool begin = false, finalize = false, committed = false;  // the hooks it wants
  int tasks = 0;                                            // open at it
  absl::flat_hash_map<uint64_t, TaskId> out;                // batches it holds, by sequence number
  // Batches it was told to forget, whose RESULT may still come. Bounded: see Cancelled().
  absl::flat_hash_set<uint64_t> cancelled;
  std::deque<uint64_t> cancelled_order;
  std::deque<TaskId> waiting;  // tasks with a batch ready, for want of a slot

  // Transactions hold whole batches of it. With an external store every worker is: its FINALIZE is STORE.
  bool hooked() const { return begin || finalize; }
  bool usable() const { return !goodbye && !dropped; }
  bool HasSlot(bool trace) const {
    if (!usable() || !writable || tracing) return false;
    return trace ? out.empty() : static_cast<int>(out.size()) < parallel;
  }
  void Cancelled(uint64_t seq);
};

// The workers, and which one a task is best given to.
class WorkerTable {
 public:
  Worker& Add(WorkerId id, const protocol::Hello& hello);
  // nullptr: unknown.
  Worker* Find(WorkerId id);
  void Remove(WorkerId id) { workers_.erase(id); }
  // The usable worker with the fewest tasks, the earliest of them; nullptr if there is none.
  Worker* LeastLoaded();
  int usable() const;
  // All but those we have closed.
  int connected() const;
  size_t size() const { return workers_.size(); }
  std::map<WorkerId, Worker>& all() { return workers_; }

 private:
  std::map<WorkerId, Worker> workers_;  // sidecar.workers.max of them: a handful
};

}  // namespace millstream::engine

#endif  // MILLSTREAM_SIDECAR_ENGINE_WORKER_TABLE_H_
