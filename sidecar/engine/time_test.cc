// Event time as arithmetic: windows, sessions, rows of the internal store, stream time. How they work together is shown
// by the simulation (Timed...).
#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "sidecar/engine/event_time.h"
#include "sidecar/engine/internal_rows.h"
#include "sidecar/engine/windows.h"

namespace millstream::engine {
namespace {

constexpr int64_t kMin = std::numeric_limits<int64_t>::min(), kMax = std::numeric_limits<int64_t>::max();

spec::StoreSpec WindowStore(int64_t size_ms, int64_t advance_ms, int64_t grace_ms = 0) {
  spec::StoreSpec store;
  store.name = "w";
  store.type = spec::StoreType::kWindow;
  store.window = {absl::Milliseconds(size_ms), absl::Milliseconds(advance_ms), absl::Milliseconds(grace_ms),
                  absl::Milliseconds(size_ms + grace_ms), false};
  return store;
}

spec::StoreSpec SessionStore(int64_t gap_ms, int64_t grace_ms = 0) {
  spec::StoreSpec store;
  store.name = "s";
  store.type = spec::StoreType::kSession;
  store.session = {absl::Milliseconds(gap_ms), absl::Milliseconds(grace_ms), absl::Milliseconds(gap_ms + grace_ms)};
  return store;
}

TEST(WindowsTest, EveryTimeIsInSizeByAdvanceWindows) {
  const auto store = WindowStore(60, 20);
  EXPECT_EQ(WindowsOf(*store.window, 0), (std::vector<Bounds>{{-40, 20}, {-20, 40}, {0, 60}}));
  EXPECT_EQ(WindowsOf(*store.window, 19), WindowsOf(*store.window, 0));
  EXPECT_EQ(WindowsOf(*store.window, -1), (std::vector<Bounds>{{-60, 0}, {-40, 20}, {-20, 40}}));
  EXPECT_EQ(WindowsOf(*WindowStore(50, 50).window, 100), (std::vector<Bounds>{{100, 150}}));
  EXPECT_EQ(WindowsOf(*WindowStore(50, 30).window, 100), (std::vector<Bounds>{{60, 110}, {90, 140}}));
}

TEST(WindowsTest, TheEndsOfTimeAreKept) {
  const auto store = WindowStore(60, 20, 10);
  for (const int64_t time : {kMax, kMax - 1, kMin, kMin + 1, int64_t{0}, int64_t{-1}}) {
    for (const Bounds& bounds : WindowsOf(*store.window, time)) {
      EXPECT_LE(bounds.start, time);
      EXPECT_GE(bounds.end, time);
      EXPECT_GE(ClosesAt(store, bounds), bounds.end);
    }
  }
  EXPECT_EQ(AddTime(kMax, 1), kMax);
  EXPECT_EQ(SubtractTime(kMin, 1), kMin);
  const auto sessions = SessionStore(10, 10);
  EXPECT_EQ(Join(*sessions.session, {}, kMax).bounds, (Bounds{kMax, kMax}));
  EXPECT_EQ(Join(*sessions.session, {}, kMin).bounds, (Bounds{kMin, kMin}));
  EXPECT_EQ(ClosesAt(sessions, {kMax, kMax}), kMax);
}

TEST(WindowsTest, RowKeys) {
  const auto windows = WindowStore(60, 20);
  const Bytes row = RowKey(windows, "k", {-20, 40});
  EXPECT_EQ(row, std::string("k\xff\xff\xff\xff\xff\xff\xff\xec", 9));
  const auto parts = ParseRowKey(windows, row);
  ASSERT_TRUE(parts);
  EXPECT_EQ(parts->key, "k");
  EXPECT_EQ(parts->bounds, (Bounds{-20, 40}));
  EXPECT_FALSE(ParseRowKey(windows, RowKey(windows, "k", {7, 67}))) << "no multiple of advance";
  EXPECT_FALSE(ParseRowKey(windows, "short"));
  const auto sessions = SessionStore(10);
  EXPECT_LT(RowKey(sessions, "k", {-5, 3}), RowKey(sessions, "k", {0, 1}));
  EXPECT_EQ(ParseRowKey(sessions, RowKey(sessions, "", {-5, 3}))->bounds, (Bounds{-5, 3}));
  EXPECT_FALSE(ParseRowKey(sessions, RowKey(sessions, "k", {3, -5})));
}

// Against a plain loop over all sessions.
TEST(SessionsTest, JoiningAsTheDefinitionSays) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const auto store = SessionStore(5);
  std::vector<Bounds> sessions;
  std::vector<int64_t> times;
  for (int i = 0; i < 2000; ++i) {
    const auto at = static_cast<int64_t>(random() % 6000) - 3000;
    times.push_back(at);
    const SessionStep step = Join(*store.session, sessions, at);
    Replace(step, &sessions);
    if (i % 100 != 0) continue;
    std::vector<int64_t> sorted = times;
    std::sort(sorted.begin(), sorted.end());
    std::vector<Bounds> expected;
    for (const int64_t time : sorted) {
      if (!expected.empty() && time - expected.back().end <= 5) {
        expected.back().end = time;
      } else {
        expected.push_back({time, time});
      }
    }
    ASSERT_EQ(sessions, expected);
  }
}

TEST(InternalRowsTest, SortByTimeAndTellWhatTheyAre) {
  using protocol::TimerClock;
  const std::vector<int64_t> times = {kMin, -5, -1, 0, 1, 1'000'000, kMax};
  for (size_t i = 0; i < times.size(); ++i) {
    const Bytes row = TimerByTime(TimerClock::kWallClock, times[i], std::string("k\0y", 3), "name");
    const auto due = ParseDueRow(DueFeed::kWallTimers, row);
    ASSERT_TRUE(due);
    EXPECT_EQ(due->time, times[i]);
    EXPECT_EQ(due->key, std::string("k\0y", 3));
    EXPECT_EQ(due->name, "name");
    const auto [from, to] = DueRange(DueFeed::kWallTimers, times[i]);
    EXPECT_LE(from, row);
    EXPECT_LT(row, to);
    if (i > 0) {
      EXPECT_LT(TimerByTime(TimerClock::kWallClock, times[i - 1], "z", "z"), row);
      EXPECT_GT(from, TimerByTime(TimerClock::kWallClock, times[i - 1], "z", "z"));
    }
    EXPECT_NE(TimerByTime(TimerClock::kEventTime, times[i], "k", ""),
              TimerByTime(TimerClock::kWallClock, times[i], "k", ""));
  }
  const Bytes end = WindowEndRow(17, WindowEnd::kClose, "store", "row key");
  const auto due = ParseDueRow(DueFeed::kWindows, end);
  ASSERT_TRUE(due);
  EXPECT_EQ(due->time, 17);
  EXPECT_EQ(due->kind, WindowEnd::kClose);
  EXPECT_EQ(due->store, "store");
  EXPECT_EQ(due->row_key, "row key");
  for (size_t size = 0; size + 8 < end.size(); ++size)
    ParseDueRow(DueFeed::kWindows, std::string_view(end).substr(0, size));
  // Names and keys that run into each other stay apart.
  EXPECT_NE(TimerByName(TimerClock::kEventTime, "ab", "c"), TimerByName(TimerClock::kEventTime, "a", "bc"));
}

spec::StreamProcessorSpec TwoInputs() {
  spec::StreamProcessorSpec spec;
  spec.inputs.resize(2);
  spec.inputs[0].name = "a";
  spec.inputs[0].lateness = absl::Milliseconds(10);
  spec.inputs[1].name = "b";
  return spec;
}

TEST(StreamClockTest, TheSlowestInputCountsUntilItIsIdle) {
  StreamClock clock(TwoInputs());
  clock.Advance(0, 100);
  EXPECT_EQ(clock.time(), kNoTime);
  clock.Advance(1, 50);
  EXPECT_EQ(clock.time(), 50);
  clock.Advance(1, 200);
  EXPECT_EQ(clock.time(), 90);
  clock.SetIdle(0);
  EXPECT_EQ(clock.time(), 200);
  clock.Advance(0, 120);
  EXPECT_EQ(clock.time(), 200) << "never back";
  clock.Advance(0, 300);
  EXPECT_EQ(clock.time(), 200);
  clock.Advance(1, 1000);
  EXPECT_EQ(clock.time(), 290);
}

TEST(StreamClockTest, IsKeptByNamesOfInputs) {
  StreamClock clock(TwoInputs());
  clock.Advance(0, -100);
  clock.Advance(1, kMax);
  const std::string kept = clock.Encode(TwoInputs());
  spec::StreamProcessorSpec changed = TwoInputs();
  std::swap(changed.inputs[0].name, changed.inputs[1].name);
  changed.inputs[0].name = "new";
  StreamClock again(changed);
  ASSERT_TRUE(again.Decode(kept, changed));
  EXPECT_EQ(again.time(), -110);
  StreamClock same(TwoInputs());
  ASSERT_TRUE(same.Decode(kept, TwoInputs()));
  EXPECT_EQ(same, clock);
  for (size_t size = 0; size < kept.size(); ++size) {
    StreamClock cut(TwoInputs());
    if (size != 9) cut.Decode(kept.substr(0, size), TwoInputs());  // must not read beyond
  }
  EXPECT_FALSE(same.Decode("\x02", TwoInputs()));
}

}  // namespace
}  // namespace millstream::engine
