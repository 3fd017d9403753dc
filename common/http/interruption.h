#ifndef MILLSTREAM_COMMON_HTTP_INTERRUPTION_H_
#define MILLSTREAM_COMMON_HTTP_INTERRUPTION_H_

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace millstream::http {

// Ends the waits of other threads: whoever waits holds a copy, whoever wants the end calls Interrupt on another. Copies
// are one interruption. It happens once and stays. Thread-safe.
class Interruption {
 public:
  Interruption();

  void Interrupt();
  bool interrupted() const;
  // Waits until `timeout` is over or the interruption comes; true for the latter.
  bool WaitFor(absl::Duration timeout) const;

  // For those who wait for something else as well: what they wait for changes under this mutex.
  struct State {
    absl::Mutex mutex;
    bool interrupted ABSL_GUARDED_BY(mutex) = false;
  };
  const std::shared_ptr<State>& state() const { return state_; }

 private:
  std::shared_ptr<State> state_;
};

}  // namespace millstream::http

#endif  // MILLSTREAM_COMMON_HTTP_INTERRUPTION_H_
