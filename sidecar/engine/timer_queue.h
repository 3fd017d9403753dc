#ifndef MILLSTREAM_SIDECAR_ENGINE_TIMER_QUEUE_H_
#define MILLSTREAM_SIDECAR_ENGINE_TIMER_QUEUE_H_

#include <optional>
#include <queue>
#include <vector>

#include "absl/time/time.h"
#include "common/base/ids.h"

namespace millstream::engine {

// When to look at which task again. A task re-evaluates all its deadlines when it is looked at, so an entry that came
// true too early costs a look and nothing else: entries are never removed, and a task adds one only if it is earlier
// than the one it waits for. So there are at most a few per task.
class TimerQueue {
 public:
  void Add(absl::Duration when, TaskId task) { heap_.push({when, task}); }
  std::optional<absl::Duration> Earliest() const {
    if (heap_.empty()) return std::nullopt;
    return heap_.top().when;
  }
  // The next task whose time has come.
  std::optional<TaskId> PopDue(absl::Duration now) {
    if (heap_.empty() || heap_.top().when > now) return std::nullopt;
    const TaskId task = heap_.top().task;
    heap_.pop();
    return task;
  }

 private:
  struct Entry {
    absl::Duration when;
    TaskId task;
    bool operator>(const Entry& other) const { return when > other.when; }
  };
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> heap_;
};

}  // namespace millstream::engine

#endif  // MILLSTREAM_SIDECAR_ENGINE_TIMER_QUEUE_H_
