#ifndef MILLSTREAM_SIDECAR_HOST_JOINER_H_
#define MILLSTREAM_SIDECAR_HOST_JOINER_H_

#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace millstream::host {

// The thread that joins a shared group: when there is a worker to do the work (a member without one would hold tasks
// that others could run), and again and again while joining fails, every 100 ms doubled up to 5 s.
class Joiner {
 public:
  // Both are called on its thread. `join` may block.
  Joiner(std::function<bool()> has_worker, std::function<absl::Status()> join);
  ~Joiner();

  // Why it is not joined yet; OK: it is, or waits for a worker. Thread-safe.
  absl::Status status() const;
  // No join begins after this returns. Idempotent.
  void Stop();

 private:
  void Run();

  const std::function<bool()> has_worker_;
  const std::function<absl::Status()> join_;
  mutable absl::Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace millstream::host

#endif  // MILLSTREAM_SIDECAR_HOST_JOINER_H_
