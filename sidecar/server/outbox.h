#ifndef MILLSTREAM_SIDECAR_SERVER_OUTBOX_H_
#define MILLSTREAM_SIDECAR_SERVER_OUTBOX_H_

#include <cstddef>
#include <deque>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace millstream::server {

// Frames on their way to one worker: any thread adds, the server's thread takes. Bounded in bytes: a frame counts from
// Add until Written says so. Thread-safe.
class Outbox {
 public:
  explicit Outbox(size_t max_bytes) : max_bytes_(max_bytes) {}

  // ResourceExhausted: full; Written tells when there is room again. A lone frame is taken whatever its size.
  absl::Status Add(std::string frame);
  // The server's own small frames (WELCOME, PONG, ERROR): `reserve` bytes beyond the bound are theirs. False: full.
  bool AddOwn(std::string frame, size_t reserve);
  // Everything queued, in order.
  std::deque<std::string> Take();
  // `bytes` of frames taken are written, or dropped. True if a refused Add may be repeated now: below half the bound.
  bool Written(size_t bytes);
  size_t bytes() const;

 private:
  const size_t max_bytes_;
  mutable absl::Mutex mutex_;
  std::deque<std::string> frames_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool refused_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace millstream::server

#endif  // MILLSTREAM_SIDECAR_SERVER_OUTBOX_H_
