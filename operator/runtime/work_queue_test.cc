#include "operator/runtime/work_queue.h"

#include <atomic>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "common/base/strings.h"
#include "gtest/gtest.h"
#include "operator/runtime/rate_limiter.h"

namespace millstream::runtime {
namespace {

TEST(WorkQueueTest, AKeyIsInItOnce) {
  FakeClock clock;
  WorkQueue queue(&clock);
  queue.Add("a");
  queue.Add("b");
  queue.Add("a");
  EXPECT_EQ(queue.depth(), 2u);
  EXPECT_EQ(queue.TryGet(), "a");
  EXPECT_EQ(queue.TryGet(), "b");
  EXPECT_EQ(queue.TryGet(), std::nullopt);
}

TEST(WorkQueueTest, AKeyThatIsAddedWhileItIsHandledComesAgain) {
  FakeClock clock;
  WorkQueue queue(&clock);
  queue.Add("a");
  ASSERT_EQ(queue.TryGet(), "a");
  queue.Add("a");
  queue.Add("a");
  EXPECT_EQ(queue.TryGet(), std::nullopt);  // never by two at once
  queue.Done("a");
  EXPECT_EQ(queue.TryGet(), "a");
  queue.Done("a");
  EXPECT_EQ(queue.TryGet(), std::nullopt);
}

TEST(WorkQueueTest, OfSeveralDelaysTheEarliestCounts) {
  FakeClock clock;
  WorkQueue queue(&clock);
  queue.AddAfter("a", absl::Seconds(10));
  queue.AddAfter("a", absl::Seconds(2));
  queue.AddAfter("a", absl::Seconds(5));
  EXPECT_EQ(queue.delayed(), 1u);
  EXPECT_EQ(queue.until_next(), absl::Seconds(2));
  EXPECT_EQ(queue.TryGet(), std::nullopt);
  clock.Advance(absl::Seconds(2));
  EXPECT_EQ(queue.TryGet(), "a");
  queue.Done("a");
  clock.Advance(absl::Seconds(60));
  EXPECT_EQ(queue.TryGet(), std::nullopt);
  EXPECT_EQ(queue.until_next(), absl::InfiniteDuration());
}

TEST(WorkQueueTest, SaysWhatHasBeenHandledForLongest) {
  FakeClock clock;
  WorkQueue queue(&clock);
  queue.Add("a");
  queue.Add("b");
  ASSERT_EQ(queue.TryGet(), "a");
  clock.Advance(absl::Seconds(3));
  ASSERT_EQ(queue.TryGet(), "b");
  clock.Advance(absl::Seconds(4));
  EXPECT_EQ(queue.longest_running(), absl::Seconds(7));
  queue.Done("a");
  EXPECT_EQ(queue.longest_running(), absl::Seconds(4));
  queue.Done("b");
  EXPECT_EQ(queue.longest_running(), absl::ZeroDuration());
}

TEST(WorkQueueTest, ShuttingDownWakesWhoWaits) {
  WorkQueue queue(&SystemClock());
  std::thread waiting([&] { EXPECT_EQ(queue.Get(), std::nullopt); });
  queue.ShutDown();
  waiting.join();
  queue.Add("a");
  EXPECT_EQ(queue.TryGet(), std::nullopt);
}

TEST(WorkQueueTest, AnEarlierDelayWakesWhoWaitsForALaterOne) {
  WorkQueue queue(&SystemClock());
  queue.AddAfter("late", absl::Hours(1));
  std::optional<std::string> got;
  std::thread waiting([&] { got = queue.Get(); });
  queue.AddAfter("soon", absl::Milliseconds(1));
  waiting.join();
  EXPECT_EQ(got, "soon");
}

TEST(WorkQueueTest, ManyThreadsLoseNothingAndNeverShareAKey) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(StrCat("seed ", seed));
  constexpr int kKeys = 20, kAdds = 2000, kWorkers = 4;
  WorkQueue queue(&SystemClock());
  std::vector<std::atomic<int>> wanted(kKeys), done(kKeys), inside(kKeys);
  std::atomic<bool> shared{false};
  std::vector<std::thread> workers;
  for (int i = 0; i < kWorkers; ++i) {
    workers.emplace_back([&] {
      while (const std::optional<std::string> key = queue.Get()) {
        const auto k = static_cast<size_t>(std::stoi(*key));
        if (inside[k].fetch_add(1) != 0) shared = true;
        done[k] = wanted[k].load();
        inside[k].fetch_sub(1);
        queue.Done(*key);
      }
    });
  }
  std::mt19937_64 random(seed);
  for (int i = 0; i < kAdds; ++i) {
    const size_t k = random() % kKeys;
    wanted[k].fetch_add(1);
    if (random() % 4 == 0) {
      queue.AddAfter(StrCat(k), absl::Microseconds(random() % 500));
    } else {
      queue.Add(StrCat(k));
    }
  }
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  const auto settled = [&] {
    for (int k = 0; k < kKeys; ++k) {
      if (done[static_cast<size_t>(k)] != wanted[static_cast<size_t>(k)]) return false;
    }
    return true;
  };
  while (!settled() && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_TRUE(settled());
  EXPECT_FALSE(shared);
  queue.ShutDown();
  for (std::thread& worker : workers) worker.join();
}

TEST(BackoffDelayTest, DoublesUpToItsBound) {
  const BackoffOptions options;
  EXPECT_EQ(BackoffDelay(options, 1, 0), absl::Milliseconds(5));
  EXPECT_EQ(BackoffDelay(options, 2, 0), absl::Milliseconds(10));
  EXPECT_EQ(BackoffDelay(options, 11, 0), absl::Milliseconds(5120));
  EXPECT_EQ(BackoffDelay(options, 19, 0), absl::Seconds(1000));
  EXPECT_EQ(BackoffDelay(options, 1'000'000, 0), absl::Seconds(1000));
  EXPECT_LT(BackoffDelay(options, 1, 0.99), absl::Milliseconds(5));
  EXPECT_GT(BackoffDelay(options, 1, 0.99), absl::Milliseconds(4));
}

TEST(RateLimiterTest, EachKeyHasItsOwnDelay) {
  FakeClock clock;
  RateLimiter limiter(&clock, 1, {.first = absl::Milliseconds(5), .max = absl::Seconds(1000), .jitter = 0});
  EXPECT_EQ(limiter.When("a"), absl::Milliseconds(5));
  EXPECT_EQ(limiter.When("a"), absl::Milliseconds(10));
  EXPECT_EQ(limiter.When("b"), absl::Milliseconds(5));
  EXPECT_EQ(limiter.failures("a"), 2);
  limiter.Forget("a");
  EXPECT_EQ(limiter.failures("a"), 0);
  EXPECT_EQ(limiter.When("a"), absl::Milliseconds(5));
}

TEST(RateLimiterTest, AllKeysTogetherHaveABound) {
  FakeClock clock;
  RateLimiter limiter(&clock, 1);
  for (int i = 0; i < 100; ++i) EXPECT_LT(limiter.When(StrCat(i)), absl::Milliseconds(6));
  EXPECT_GE(limiter.When("101"), absl::Milliseconds(90));
  for (int i = 102; i <= 200; ++i) limiter.When(StrCat(i));
  EXPECT_GE(limiter.When("201"), absl::Seconds(10));
  clock.Advance(absl::Minutes(1));
  EXPECT_LT(limiter.When("202"), absl::Milliseconds(6));
}

}  // namespace
}  // namespace millstream::runtime
