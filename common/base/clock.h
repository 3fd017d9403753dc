#ifndef MILLSTREAM_COMMON_BASE_CLOCK_H_
#define MILLSTREAM_COMMON_BASE_CLOCK_H_

#include <atomic>
#include <cstdint>

#include "absl/time/time.h"

namespace millstream {

// The two clocks of a process, injected everywhere so that tests and simulation decide what time it is. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  // Calendar time: for record timestamps and what people read. May jump.
  virtual absl::Time WallTime() const = 0;
  // Time since an arbitrary start that never goes back: for deadlines and durations.
  virtual absl::Duration Monotonic() const = 0;

  int64_t WallMillis() const { return absl::ToUnixMillis(WallTime()); }
};

// The operating system's clocks; one object serves the whole process and lives for ever.
const Clock& SystemClock();

// A clock that stands still until told otherwise. Advance moves both times; SetWallTime makes the calendar jump alone.
class FakeClock : public Clock {
 public:
  explicit FakeClock(absl::Time start = absl::FromUnixSeconds(1'700'000'000));
  absl::Time WallTime() const override;
  absl::Duration Monotonic() const override;
  void Advance(absl::Duration step);
  void SetWallTime(absl::Time time);

 private:
  std::atomic<int64_t> wall_nanos_;
  std::atomic<int64_t> monotonic_nanos_{0};
};

}  // namespace millstream

#endif  // MILLSTREAM_COMMON_BASE_CLOCK_H_
