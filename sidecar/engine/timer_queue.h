#ifndef MILLSTREAM_SIDECAR_ENGINE_TIMER_QUEUE_H_
#define MILLSTREAM_SIDECAR_ENGINE_TIMER_QUEUE_H_

#include <optional>
#include <utility>

#include "absl/container/btree_set.h"
#include "absl/time/time.h"
#include "common/base/ids.h"

namespace millstream::engine {

// When to look at which task again: at most one time per task. A task re-evaluates all its deadlines when it is looked
// at, so looking too early costs a look and nothing else: a time that became later may stay as it is.
class TimerQueue {
 public:
  // Replaces the time `earlier`, at which `task` was entered (infinite: it was not).
  void Move(TaskId task, absl::Duration earlier, absl::Duration when) {
    times_.erase({earlier, task});
    times_.emplace(when, task);
  }
  void Remove(TaskId task, absl::Duration when) { times_.erase({when, task}); }
  std::optional<absl::Duration> Earliest() const {
    if (times_.empty()) return std::nullopt;
    return times_.begin()->first;
  }
  // The next task whose time has come.
  std::optional<TaskId> PopDue(absl::Duration now) {
    if (times_.empty() || times_.begin()->first > now) return std::nullopt;
    const TaskId task = times_.begin()->second;
    times_.erase(times_.begin());
    return task;
  }

 private:
  absl::btree_set<std::pair<absl::Duration, TaskId>> times_;
};

}  // namespace millstream::engine

#endif  // MILLSTREAM_SIDECAR_ENGINE_TIMER_QUEUE_H_
