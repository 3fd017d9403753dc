#ifndef MILLSTREAM_SIDECAR_HOST_APPLIER_H_
#define MILLSTREAM_SIDECAR_HOST_APPLIER_H_

#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/base/clock.h"
#include "common/base/metrics.h"
#include "sidecar/host/event_sink.h"
#include "sidecar/host/task_table.h"

namespace millstream::host {

struct ApplierOptions {
  // Changelog applied and not flushed, over all tasks: what a kill -9 costs to replay (engine.md, "Disk").
  int64_t max_unflushed_bytes = 64 << 20;
  // How often the time of the stamps is refreshed, so that a state kept on disk does not look older than it is.
  absl::Duration touch_interval = absl::Hours(1);
};

// The thread that brings committed state to disk, in order per task, and posts StateApplied; it also closes tasks.
// Applies of one task that wait together become one batch. Its queue is bounded by the engine's overlays.
class Applier {
 public:
  // All pointers outlive it.
  Applier(const ApplierOptions& options, TaskTable* tasks, const Clock* clock, MetricsRegistry* metrics,
          EventSink* sink);
  ~Applier();

  void Apply(engine::ApplyState apply);
  // The same for writes the engine knows nothing of (joins): `done` is told instead, on the applier's thread.
  using Done = std::function<void(const absl::Status&)>;
  void Apply(engine::ApplyState apply, Done done);
  // Flushes and closes the store, posts TaskClosed.
  void Close(engine::CloseTask close);
  // Carries out what is queued, flushes and closes every store that is still open, ends the thread. Idempotent.
  void Stop();

 private:
  struct Job {
    engine::ApplyState apply;  // to close: its task alone counts
    bool close = false;
    Done done;  // empty: the engine is told
  };

  void Run();
  void ApplyRound(std::vector<Job> round);
  void ApplyTogether(TaskId task, std::vector<Job> applies);
  void CloseStore(TaskId task);
  void FlushIfDue();
  void TouchIfDue();

  const ApplierOptions options_;
  TaskTable* const tasks_;
  const Clock* const clock_;
  EventSink* const sink_;
  Gauge* const unflushed_bytes_;
  Counter* const flushes_;
  absl::Duration next_touch_;

  absl::Mutex mutex_;
  std::vector<Job> queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace millstream::host

#endif  // MILLSTREAM_SIDECAR_HOST_APPLIER_H_
