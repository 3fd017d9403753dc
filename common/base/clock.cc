#include "common/base/clock.h"

#include <chrono>

namespace millstream {
namespace {

class RealClock : public Clock {
 public:
  absl::Time WallTime() const override { return absl::FromChrono(std::chrono::system_clock::now()); }
  absl::Duration Monotonic() const override {
    return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
  }
};

}  // namespace

const Clock& SystemClock() {
  static const RealClock* const clock = new RealClock;
  return *clock;
}

FakeClock::FakeClock(absl::Time start) : wall_nanos_(absl::ToUnixNanos(start)) {}
absl::Time FakeClock::WallTime() const { return absl::FromUnixNanos(wall_nanos_.load()); }
absl::Duration FakeClock::Monotonic() const { return absl::Nanoseconds(monotonic_nanos_.load()); }
void FakeClock::Advance(absl::Duration step) {
  wall_nanos_ += absl::ToInt64Nanoseconds(step);
  monotonic_nanos_ += absl::ToInt64Nanoseconds(step);
}
void FakeClock::SetWallTime(absl::Time time) { wall_nanos_ = absl::ToUnixNanos(time); }

}  // namespace millstream
