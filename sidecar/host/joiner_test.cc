#include "sidecar/host/joiner.h"

#include <atomic>

#include "common/base/clock.h"
#include "gtest/gtest.h"

namespace millstream::host {
namespace {

// Counts what it is asked; joining fails as often as the test wants.
class ScriptedMembership : public group::Membership {
 public:
  absl::Status Join() override {
    ++joins;
    return failures-- > 0 ? absl::UnavailableError("no broker") : absl::OkStatus();
  }
  void TaskReleased(TaskId) override {}
  void RebalanceReady() override {}
  void Drain() override { ++drains; }
  void Leave() override {}

  std::atomic<int> joins{0}, drains{0}, failures{0};
};

template <typename Condition>
bool Eventually(const Condition& condition) {
  const absl::Duration deadline = SystemClock().Monotonic() + absl::Seconds(30);
  while (!condition()) {
    if (SystemClock().Monotonic() > deadline) return false;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return true;
}

class JoinerTest : public testing::Test {
 protected:
  void Start(bool joined = false, bool drain = false) {
    JoinerOptions options;
    options.worker_away = [this]() -> std::optional<absl::Duration> {
      if (workers_ > 0) return std::nullopt;
      return absl::Milliseconds(away_ms_.load());
    };
    options.patience = absl::Seconds(30);
    options.joined = joined;
    options.drain = drain;
    joiner_.emplace(std::move(options), &membership_);
    joiner_->Start();
  }

  ScriptedMembership membership_;
  std::atomic<int> workers_{0}, away_ms_{0};
  std::optional<Joiner> joiner_;
};

TEST_F(JoinerTest, WaitsForAWorkerAndJoinsOnce) {
  Start();
  absl::SleepFor(absl::Milliseconds(100));  // more would prove no more: it looks every 20 ms
  EXPECT_EQ(membership_.joins, 0);
  workers_ = 1;
  ASSERT_TRUE(Eventually([&] { return membership_.joins == 1; }));
  absl::SleepFor(absl::Milliseconds(100));
  EXPECT_EQ(membership_.joins, 1);
  EXPECT_TRUE(joiner_->status().ok());
}

TEST_F(JoinerTest, SaysWhyJoiningFailsAndTriesAgain) {
  membership_.failures = 2;
  workers_ = 1;
  Start();
  ASSERT_TRUE(Eventually([&] { return !joiner_->status().ok(); }));
  ASSERT_TRUE(Eventually([&] { return joiner_->status().ok() && membership_.joins == 3; }));
}

TEST_F(JoinerTest, LeavesItsTasksToOthersWhenTheWorkerIsAwayForLongAndComesBackWithIt) {
  workers_ = 1;
  Start();
  ASSERT_TRUE(Eventually([&] { return membership_.joins == 1; }));
  workers_ = 0;
  away_ms_ = 29'000;
  absl::SleepFor(absl::Milliseconds(100));
  EXPECT_EQ(membership_.drains, 0);
  away_ms_ = 31'000;
  ASSERT_TRUE(Eventually([&] { return membership_.drains == 1; }));
  workers_ = 1;
  absl::SleepFor(absl::Milliseconds(100));
  EXPECT_EQ(membership_.joins, 1);  // not before it is out
  joiner_->Drained();
  ASSERT_TRUE(Eventually([&] { return membership_.joins == 2; }));
  EXPECT_EQ(membership_.drains, 1);
}

TEST_F(JoinerTest, IsDrainedByOrderAndComesBackByOrder) {
  workers_ = 1;
  Start();
  ASSERT_TRUE(Eventually([&] { return membership_.joins == 1; }));
  joiner_->Order(true);
  ASSERT_TRUE(Eventually([&] { return membership_.drains == 1; }));
  EXPECT_FALSE(joiner_->drained());
  joiner_->Drained();
  EXPECT_TRUE(joiner_->drained());
  absl::SleepFor(absl::Milliseconds(100));
  EXPECT_EQ(membership_.joins, 1);  // stays out although a worker is there
  joiner_->Order(false);
  EXPECT_FALSE(joiner_->drained());
  ASSERT_TRUE(Eventually([&] { return membership_.joins == 2; }));
  EXPECT_EQ(membership_.drains, 1);
}

TEST_F(JoinerTest, TakesADrainBackThatIsUnderWay) {
  workers_ = 1;
  Start(/*joined=*/true);
  joiner_->Order(true);
  ASSERT_TRUE(Eventually([&] { return membership_.drains == 1; }));
  joiner_->Order(false);
  ASSERT_TRUE(Eventually([&] { return membership_.joins == 1; }));
  joiner_->Drained();  // it was too late: out, and in again
  ASSERT_TRUE(Eventually([&] { return membership_.joins == 2; }));
  absl::SleepFor(absl::Milliseconds(100));
  EXPECT_EQ(membership_.joins, 2);
}

TEST_F(JoinerTest, DrainedFromTheStartItTakesItsFormerSelfOut) {
  workers_ = 1;
  Start(/*joined=*/false, /*drain=*/true);
  ASSERT_TRUE(Eventually([&] { return membership_.drains == 1; }));
  EXPECT_FALSE(joiner_->drained());
  joiner_->Drained();
  EXPECT_TRUE(joiner_->drained());
  EXPECT_EQ(membership_.joins, 0);
}

TEST_F(JoinerTest, AsksNothingAfterStop) {
  Start();
  joiner_->Stop();
  workers_ = 1;
  absl::SleepFor(absl::Milliseconds(50));
  EXPECT_EQ(membership_.joins, 0);
}

}  // namespace
}  // namespace millstream::host
