#ifndef MILLSTREAM_SIDECAR_ENGINE_LOG_THROTTLE_H_
#define MILLSTREAM_SIDECAR_ENGINE_LOG_THROTTLE_H_

#include <cstdint>
#include <utility>

#include "absl/time/time.h"

namespace millstream::engine {

// At most so many log lines a second: a topic full of bad records must not become a disk full of log lines. Every
// failure is counted by a metric all the same, and the next line says how many were left out.
class LogThrottle {
 public:
  explicit LogThrottle(int lines_per_second) : most_(lines_per_second) {}
  bool Allow(absl::Duration now) {
    if (now >= window_end_) {
      window_end_ = now + absl::Seconds(1);
      lines_ = 0;
    }
    if (lines_ < most_) {
      ++lines_;
      return true;
    }
    ++left_out_;
    return false;
  }
  // Lines not written since this was last asked.
  uint64_t TakeLeftOut() { return std::exchange(left_out_, 0); }

 private:
  const int most_;
  absl::Duration window_end_ = -absl::InfiniteDuration();
  int lines_ = 0;
  uint64_t left_out_ = 0;
};

}  // namespace millstream::engine

#endif  // MILLSTREAM_SIDECAR_ENGINE_LOG_THROTTLE_H_
