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

// The thread that decides when this process is a member of a shared group: from when it has a worker (a member without
// one would hold tasks that others could run) until that has been away for a while, and again when one is back. Joining
// that fails is tried again, after 100 ms doubled up to 5 s.
class Joiner {
 public:
  // `worker_away` says for how long there has been no worker; nullopt: there is one. `before_first_join` is called
  // once, and may take some seconds; may be empty. What all three refer to outlives it.
  Joiner(std::function<std::optional<absl::Duration>()> worker_away, absl::Duration patience,
         group::Membership* membership, std::function<void()> before_first_join = nullptr);
  ~Joiner();

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

  const std::function<std::optional<absl::Duration>()> worker_away_;
  const absl::Duration patience_;
  group::Membership* const membership_;
  std::function<void()> before_first_join_;  // the thread's; empty once called
  absl::Duration pause_;                     // the thread's: before the next attempt to join
  mutable absl::Mutex mutex_;
  Phase phase_ ABSL_GUARDED_BY(mutex_) = Phase::kOut;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace millstream::host

#endif  // MILLSTREAM_SIDECAR_HOST_JOINER_H_
