#ifndef MILLSTREAM_SIDECAR_HOST_READ_POOL_H_
#define MILLSTREAM_SIDECAR_HOST_READ_POOL_H_

#include <deque>
#include <thread>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "sidecar/host/event_sink.h"
#include "sidecar/host/task_table.h"

namespace millstream::host {

// Threads that read state for the engine and post KeysRead or RangeScanned. Its queue is bounded by what the engine
// asks for at a time: a few reads per batch in flight and per query.
class ReadPool {
 public:
  // `tasks` and `sink` outlive it.
  ReadPool(const TaskTable* tasks, EventSink* sink, int threads);
  ~ReadPool();

  using Job = std::variant<engine::ReadKeys, engine::ScanRange>;
  void Read(Job job);
  // Ends the threads; what is queued is dropped. Idempotent.
  void Stop();

 private:
  void Run();
  void Execute(const engine::ReadKeys& job);
  void Execute(const engine::ScanRange& job);

  const TaskTable* const tasks_;
  EventSink* const sink_;
  absl::Mutex mutex_;
  std::deque<Job> queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace millstream::host

#endif  // MILLSTREAM_SIDECAR_HOST_READ_POOL_H_
