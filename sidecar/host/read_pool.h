#ifndef MILLSTREAM_SIDECAR_HOST_READ_POOL_H_
#define MILLSTREAM_SIDECAR_HOST_READ_POOL_H_

#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "sidecar/host/event_sink.h"
#include "sidecar/host/table_follower.h"
#include "sidecar/host/task_table.h"

namespace millstream::host {

// Threads that read state for the engine and post KeysRead or RangeScanned. Its queue is bounded by what the engine
// asks for at a time: a few reads per batch in flight and per query.
class ReadPool {
 public:
  // Readable ids from `first_lookup` on are those of `tables` (null: there are none). All pointers outlive it.
  ReadPool(const TaskTable* tasks, const TableFollower* tables, size_t first_lookup, EventSink* sink, int threads);
  ~ReadPool();

  using Job = std::variant<engine::ReadKeys, engine::ScanRange>;
  void Read(Job job);
  // The same for whoever is not the engine: `done` is called on a thread of the pool. Of lookups.
  void ReadLookup(size_t lookup, std::function<void(absl::StatusOr<std::shared_ptr<store::TaskStore>>)> done);
  // Ends the threads; what is queued is dropped. Idempotent.
  void Stop();

 private:
  // A store and which of its families is meant.
  struct Place {
    std::shared_ptr<store::TaskStore> store;
    store::StoreIndex index = 0;
  };
  using Call = std::function<void()>;

  void Push(std::variant<engine::ReadKeys, engine::ScanRange, Call> job);
  void Run();
  absl::StatusOr<Place> Find(TaskId task, store::StoreIndex readable) const;
  void Execute(const engine::ReadKeys& job);
  void Execute(const engine::ScanRange& job);
  void Execute(const Call& job) { job(); }

  const TaskTable* const tasks_;
  const TableFollower* const tables_;
  const size_t first_lookup_;
  EventSink* const sink_;
  absl::Mutex mutex_;
  std::deque<std::variant<engine::ReadKeys, engine::ScanRange, Call>> queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace millstream::host

#endif  // MILLSTREAM_SIDECAR_HOST_READ_POOL_H_
