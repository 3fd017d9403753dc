#include "common/base/clock.h"

#include <gtest/gtest.h>

namespace millstream {
namespace {

TEST(FakeClock, MovesOnlyWhenTold) {
  FakeClock clock(absl::FromUnixSeconds(100));
  EXPECT_EQ(clock.WallMillis(), 100'000);
  clock.Advance(absl::Seconds(2));
  EXPECT_EQ(clock.WallMillis(), 102'000);
  EXPECT_EQ(clock.Monotonic(), absl::Seconds(2));
  clock.SetWallTime(absl::FromUnixSeconds(50));
  EXPECT_EQ(clock.WallMillis(), 50'000);
  EXPECT_EQ(clock.Monotonic(), absl::Seconds(2));
}

TEST(SystemClock, MonotonicNeverGoesBack) {
  const absl::Duration first = SystemClock().Monotonic();
  EXPECT_LE(first, SystemClock().Monotonic());
}

}  // namespace
}  // namespace millstream
