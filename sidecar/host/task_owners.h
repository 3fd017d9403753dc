#ifndef MILLSTREAM_SIDECAR_HOST_TASK_OWNERS_H_
#define MILLSTREAM_SIDECAR_HOST_TASK_OWNERS_H_

#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/ids.h"

namespace millstream::host {

// Says which member of a shared group has a task, for questions that came to the wrong one. What the brokers answer is
// good for a second, so that many questions cost one call. Thread-safe.
class TaskOwners {
 public:
  // Questions that wait; beyond it the answer is "unknown" at once.
  static constexpr size_t kMaxPending = 1'000;

  struct Member {
    std::string where;  // "member NAME at HOST:PORT", as much of it as is known
    std::vector<TaskId> tasks;
  };
  // Asks for all members; may block.
  using MembersFn = std::function<absl::StatusOr<std::vector<Member>>()>;
  // Member::where; empty: nobody has the task now, or it cannot be found out.
  using Done = std::function<void(const std::string& where)>;

  // What `members` refers to, and `clock`, outlive it.
  TaskOwners(MembersFn members, const Clock* clock);
  ~TaskOwners();

  // Calls `done` on a thread of its own, or at once on this one where there is nothing to ask.
  void Find(TaskId task, Done done);
  // Answers what is pending as unknown. Idempotent.
  void Stop();

 private:
  void Run();
  void Refresh();
  std::string WhereIs(TaskId task) const;

  const MembersFn members_;
  const Clock* const clock_;

  // The thread's.
  std::vector<Member> known_;
  absl::Duration known_until_ = -absl::InfiniteDuration();

  absl::Mutex mutex_;
  std::deque<std::pair<TaskId, Done>> pending_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace millstream::host

#endif  // MILLSTREAM_SIDECAR_HOST_TASK_OWNERS_H_
