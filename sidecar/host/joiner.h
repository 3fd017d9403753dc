#ifndef MILLSTREAM_SIDECAR_HOST_JOINER_H_
#define MILLSTREAM_SIDECAR_HOST_JOINER_H_

#include <functional>
#include <optional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "sidecar/group/membership.h"

namespace millstream::host {

struct JoinerOptions {
  // For how long there has been no worker; nullopt: there is one.
  std::function<std::optional<absl::Duration>()> worker_away;
  absl::Duration patience;                  // a member without a worker for longer leaves
  std::function<void()> before_first_join;  // called once, and may take some seconds; may be empty
  bool joined = false;                      // it is a member already
  bool drain = false;                       // as Order says
};

// The thread that decides when this process is a member of a group: from when it has a worker (a member without one
// would hold tasks that others could run) until that has been away for a while, and again when one is back; and never
// while it is ordered to be drained. Joining that fails is tried again, after 100 ms doubled up to 5 s.
class Joiner {
 public:
  // What the options and `membership` refer to outlives it.
  Joiner(JoinerOptions options, group::Membership* membership);
  ~Joiner();
  // Once, when whoever hands on what the membership tells can reach this object.
  void Start();

  // Thread-safe. True: give all tasks away, leave the group, stay out. False: take part again, if it is not too late
  // without having left.
  void Order(bool drain);
  // Drain is ordered, and this process is out of the group. Thread-safe.
  bool drained() const;
  // The membership's OnDrained.
  void Drained();
  // Why it is not joined yet; OK: it is, or waits for a worker. Thread-safe.
  absl::Status status() const;
  // Nothing is asked of the membership after this returns. Idempotent.
  void Stop();

 private:
  enum class Phase { kOut, kIn, kDraining };

  void Run();
  // One look; returns how long to wait until the next.
  absl::Duration Look();
  absl::Duration Join();

  const JoinerOptions options_;
  group::Membership* const membership_;
  std::function<void()> before_first_join_;  // the thread's; empty once called
  absl::Duration pause_;                     // the thread's: before the next attempt to join
  mutable absl::Mutex mutex_;
  // kIn is set before the membership is asked to join: what it tells afterwards counts.
  Phase phase_ ABSL_GUARDED_BY(mutex_);
  bool drain_ ABSL_GUARDED_BY(mutex_);            // is ordered
  bool ordered_ ABSL_GUARDED_BY(mutex_) = false;  // the drain under way is by order: it is taken back with it
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace millstream::host

#endif  // MILLSTREAM_SIDECAR_HOST_JOINER_H_
