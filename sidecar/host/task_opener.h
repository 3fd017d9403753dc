#ifndef MILLSTREAM_SIDECAR_HOST_TASK_OPENER_H_
#define MILLSTREAM_SIDECAR_HOST_TASK_OPENER_H_

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/metrics.h"
#include "common/log/log.h"
#include "common/spec/stream_processor.h"
#include "sidecar/host/abandoned_transactions.h"
#include "sidecar/host/event_sink.h"
#include "sidecar/host/table_follower.h"
#include "sidecar/host/task_table.h"
#include "sidecar/host/topics.h"
#include "sidecar/store/restore.h"
#include "sidecar/store/state_environment.h"

namespace millstream::host {

// What it takes to open the state of a processor's tasks.
struct TaskStateOptions {
  log::Log* log = nullptr;
  const spec::StreamProcessorSpec* spec = nullptr;
  PreparedTopics topics;
  std::string state_directory;  // one folder per task in it
  store::StateEnvironment* environment = nullptr;
  std::string owner_stamp;
  AbandonedTransactions* abandoned = nullptr;  // nullptr: nobody else writes to this log
  int64_t restore_batch_bytes = 4 << 20;       // per task that is restored; its reader may hold as much again
  const Clock* clock = &SystemClock();
};

// Where the task's state is.
std::string FolderOf(const TaskStateOptions& options, TaskId task);
store::TaskIdentity IdentityOf(const TaskStateOptions& options, TaskId task);

// Task databases that were wiped. Made before anything is: whoever looks at a metric has to see it rise from zero.
Counter* WipedCounter(MetricsRegistry* metrics);

struct OpenedTask {
  std::shared_ptr<store::TaskStore> store;
  std::vector<engine::InputStart> inputs;
};

// Opens and restores one task (engine.md, "Restore"): the stable offsets of its inputs first, then the stores up to the
// end of their changelogs, then where inputs without an offset start. Blocks. Besides the errors of RestoreTask:
// FAILED_PRECONDITION "GroupOwnedByAnother: ..." and "OffsetsLost: ...", each with the way out.
absl::StatusOr<OpenedTask> OpenTaskState(const TaskStateOptions& options, TaskId task, MetricsRegistry* metrics,
                                         const std::function<void(const store::RestoreProgress&)>& on_progress,
                                         const std::atomic<bool>* cancelled);

// The state alone, brought up to date, whatever offsets say: for reading it while the processor does not run.
absl::StatusOr<std::shared_ptr<store::TaskStore>> OpenStateForReading(const TaskStateOptions& options, TaskId task);

// FAILED_PRECONDITION "GroupOwnedByAnother: ..." if another processor has committed offsets in this group. To be asked
// before joining.
absl::Status CheckGroupOwner(const TaskStateOptions& options);

// How far a task's restore has come, over all its stores; `store` is the one with most left.
struct RestoreReport {
  TaskId task;
  std::string store;
  Offset position, end;
  int64_t bytes = 0;       // read so far
  int64_t bytes_left = 0;  // estimated from the bytes per offset so far
  std::optional<absl::Duration> time_left;
};

// Threads that carry out OpenTask and post TaskOpened.
class TaskOpener {
 public:
  // `tables` keeps joins up to date from then on; null without joins and lookups. All pointers outlive it.
  TaskOpener(const TaskStateOptions& options, int threads, TaskTable* tasks, MetricsRegistry* metrics,
             TableFollower* tables, EventSink* sink);
  ~TaskOpener();

  void Open(engine::OpenTask open);
  // Those under way. Thread-safe.
  std::vector<RestoreReport> Restoring() const;
  // What is under way and what comes ends with CANCELLED.
  void Cancel() { cancelled_ = true; }
  // Cancels and ends the threads. Idempotent.
  void Stop();

 private:
  struct Progress {
    store::RestoreProgress latest;
    Offset first;
    absl::Duration started, reported;
  };

  void Run();
  void OpenOne(TaskId task);
  void Note(TaskId task, const store::RestoreProgress& progress);
  std::vector<RestoreReport> Reports() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void UpdateGauges() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const TaskStateOptions options_;
  TaskTable* const tasks_;
  TableFollower* const tables_;
  MetricsRegistry* const metrics_;
  EventSink* const sink_;
  Gauge *const restoring_, *const bytes_left_, *const seconds_left_;
  Counter* const restored_bytes_;
  std::atomic<bool> cancelled_{false};
  mutable absl::Mutex mutex_;
  std::deque<TaskId> queue_ ABSL_GUARDED_BY(mutex_);  // bounded by the tasks of the process
  std::map<TaskId, std::map<store::StoreIndex, Progress>> progress_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace millstream::host

#endif  // MILLSTREAM_SIDECAR_HOST_TASK_OPENER_H_
