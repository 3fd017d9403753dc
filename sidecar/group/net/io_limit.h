#ifndef MILLSTREAM_SIDECAR_GROUP_NET_IO_LIMIT_H_
#define MILLSTREAM_SIDECAR_GROUP_NET_IO_LIMIT_H_

#include <atomic>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace millstream::group {

// Wakes a thread out of its I/O, from any thread and for good: operations that were given it fail with CANCELLED from
// then on. Thread-safe; outlives the operations.
class Cancel {
 public:
  Cancel();
  ~Cancel();
  Cancel(const Cancel&) = delete;
  Cancel& operator=(const Cancel&) = delete;

  void Trigger();
  bool triggered() const { return triggered_.load(std::memory_order_acquire); }
  // Readable once triggered.
  int fd() const { return fd_; }

 private:
  int fd_;
  std::atomic<bool> triggered_{false};
};

// How long an operation may take: till a time of SystemClock().Monotonic(), or till somebody gives it up.
struct IoLimit {
  absl::Duration deadline;
  const Cancel* cancel = nullptr;  // may be null

  static IoLimit In(absl::Duration from_now, const Cancel* cancel);
  absl::Duration Left() const;  // at least zero
  // The same, but at most that long from now.
  IoLimit AtMost(absl::Duration from_now) const;
};

// Waits until `fd` is readable (POLLIN) or writable (POLLOUT), broken included. DEADLINE_EXCEEDED, CANCELLED.
absl::Status WaitFor(int fd, short events, const IoLimit& limit);

}  // namespace millstream::group

#endif  // MILLSTREAM_SIDECAR_GROUP_NET_IO_LIMIT_H_
