#include "operator/model/autoscale.h"

#include <cmath>
#include <random>
#include <string>

#include "gtest/gtest.h"
#include "operator/model/testing/sample.h"

namespace millstream::model {
namespace {

const absl::Time kStart = absl::FromUnixSeconds(1'700'000'000);
constexpr absl::Duration kStep = absl::Seconds(5);

// A processor that scales itself: records arrive, pods work them off, a change of pods takes a while to help.
class Load {
 public:
  Load(AutoscaleBounds bounds, int replicas, int tasks)
      : bounds_(bounds), wanted_(replicas), works_(replicas), tasks_(tasks) {}

  void Run(absl::Duration time) {
    for (const absl::Time end = now_ + time; now_ < end; now_ += kStep) Step();
  }
  void Step() {
    const double seconds = absl::ToDoubleSeconds(kStep);
    if (works_ != wanted_ && now_ >= ready_at_) works_ = wanted_;
    backlog_ += arriving * seconds;
    const double done = std::min(backlog_, pod_rate * std::min(works_, tasks_) * seconds);
    backlog_ -= done;
    records_ += done;
    LoadSample sample;
    sample.time = now_;
    sample.replicas = works_;
    sample.tasks = tasks_;
    sample.steady = works_ == wanted_;
    sample.lag_records = std::llround(backlog_);
    sample.records = std::llround(records_);
    if (arriving > 0) sample.lag = absl::Seconds(backlog_ / arriving);
    const AutoscaleDecision decision = Autoscale(bounds_, wanted_, last_change_, sample, &memory_);
    reason = decision.reason;
    EXPECT_EQ(decision.changed, decision.replicas != wanted_) << reason;
    EXPECT_FALSE(reason.empty());
    EXPECT_LE(decision.replicas, std::min(bounds_.max_replicas, tasks_));
    EXPECT_GE(decision.replicas, std::min(bounds_.min_replicas, tasks_));
    if (!decision.changed) return;
    ++changes;
    history += reason + "\n";
    wanted_ = decision.replicas;
    last_change_ = now_;
    ready_at_ = now_ + move_time;
  }

  int wanted() const { return wanted_; }
  double backlog() const { return backlog_; }
  void AddBacklog(double records) { backlog_ += records; }

  double arriving = 1000, pod_rate = 500;
  absl::Duration move_time = absl::Seconds(30);
  int changes = 0;
  std::string reason, history;

 private:
  const AutoscaleBounds bounds_;
  int wanted_, works_;
  const int tasks_;
  absl::Time now_ = kStart, last_change_ = absl::InfinitePast(), ready_at_ = kStart;
  double backlog_ = 0, records_ = 0;
  AutoscaleMemory memory_;
};

TEST(AutoscaleTest, OutUntilTheLagIsMadeUp) {
  Load load({1, 12, absl::Seconds(20)}, 1, 24);
  load.Run(absl::Minutes(30));
  EXPECT_GE(load.wanted(), 3) << load.history;  // 1000 a second need more than two of 500
  EXPECT_LE(load.wanted(), 6) << load.history;
  EXPECT_LT(load.backlog(), 20 * load.arriving) << load.reason;
}

TEST(AutoscaleTest, InWhenLessWouldDoAndNotBelow) {
  Load load({2, 12, absl::Seconds(20)}, 1, 24);
  EXPECT_EQ(load.wanted(), 1);
  load.Run(absl::Seconds(5));
  EXPECT_EQ(load.wanted(), 2);
  EXPECT_EQ(load.reason, "from 1 to 2 pods: minReplicas is 2 and there are 24 tasks");
  load.arriving = 1200;
  load.Run(absl::Minutes(40));
  const int busy = load.wanted();
  EXPECT_GE(busy, 3) << load.history;
  load.arriving = 100;
  load.Run(absl::Hours(2));
  EXPECT_EQ(load.wanted(), 2) << load.history;
}

TEST(AutoscaleTest, ASteadyLoadDoesNotFlap) {
  Load load({1, 12, absl::Seconds(20)}, 1, 24);
  load.Run(absl::Hours(1));
  const int changes = load.changes;
  load.Run(absl::Hours(5));
  EXPECT_LE(load.changes - changes, 1) << load.history;
}

TEST(AutoscaleTest, NotForABurstThatIsMadeUpSooner) {
  Load load({1, 12, absl::Seconds(20)}, 4, 24);  // does 2000, 1000 arrive
  load.move_time = absl::Minutes(5);             // much state
  load.Run(absl::Minutes(1));
  load.AddBacklog(25'000);  // 25 s late; made up in half a minute
  load.Run(absl::Minutes(2));
  EXPECT_EQ(load.changes, 0) << load.history;
}

TEST(AutoscaleTest, KnowsWhatAMoveCosts) {
  const AutoscaleBounds bounds{1, 12, absl::Seconds(20)};
  AutoscaleMemory memory;
  memory.pod_rate = 500;
  memory.move_seconds = 600;
  const auto sample = [](int seconds, int64_t lag, int64_t records) {
    return LoadSample{kStart + absl::Seconds(seconds), 4, 24, true, lag, absl::Seconds(lag / 1000), records, 0};
  };
  // 2000 a second are done, 1000 arrive: 60 s behind, the 40 too many are made up in 40 s.
  for (int at = 0; at <= 40; at += 10) {
    const AutoscaleDecision decision =
        Autoscale(bounds, 4, absl::InfinitePast(), sample(at, 100'000 - 1000 * at, 2000 * at), &memory);
    EXPECT_FALSE(decision.changed) << decision.reason;
    if (at == 40) {
      EXPECT_EQ(
          decision.reason,
          "the lag is 60 s, above the target of 20 s, but is made up in 40 s; more pods need 600 s until they help");
    }
  }
  memory = {};
  memory.pod_rate = 500;
  memory.move_seconds = 20;
  AutoscaleDecision decision;
  for (int at = 0; at <= 40 && !decision.changed; at += 10) {
    decision = Autoscale(bounds, 4, absl::InfinitePast(), sample(at, 100'000 - 1000 * at, 2000 * at), &memory);
  }
  EXPECT_TRUE(decision.changed) << decision.reason;
  EXPECT_EQ(decision.replicas, 5) << decision.reason;
}

TEST(AutoscaleTest, NeverBeyondTheTasks) {
  Load load({1, 12, absl::Seconds(20)}, 1, 3);
  load.arriving = 5000;
  load.Run(absl::Minutes(30));
  EXPECT_EQ(load.wanted(), 3);
  EXPECT_NE(load.reason.find("maxReplicas is 12 and there are 3 tasks"), std::string::npos) << load.reason;
}

TEST(AutoscaleTest, NothingIsDoneOnWhatIsNotKnown) {
  const AutoscaleBounds bounds{1, 12, absl::Seconds(20)};
  AutoscaleMemory memory;
  LoadSample sample{kStart, 4, 24, true, std::nullopt, std::nullopt, 0, 0};
  EXPECT_EQ(Autoscale(bounds, 4, absl::InfinitePast(), sample, &memory).reason, "the lag is not known yet");
  sample.steady = false;
  sample.lag = absl::Hours(1);
  EXPECT_FALSE(Autoscale(bounds, 4, absl::InfinitePast(), sample, &memory).changed);
  // Nobody was heard: the tasks are as last known.
  sample.tasks = 0;
  EXPECT_EQ(Autoscale({1, 40, absl::Seconds(20)}, 30, absl::InfinitePast(), sample, &memory).replicas, 24);
}

TEST(AutoscaleTest, ANewOperatorWatchesBeforeItTakesAway) {
  const AutoscaleBounds bounds{1, 12, absl::Seconds(20)};
  AutoscaleMemory memory;
  memory.pod_rate = 500;
  for (int at = 0; at < 300; at += 10) {
    const LoadSample sample{kStart + absl::Seconds(at), 4, 24, true, 0, absl::ZeroDuration(), 10 * at, 0};
    EXPECT_FALSE(Autoscale(bounds, 4, absl::InfinitePast(), sample, &memory).changed) << at;
  }
  const LoadSample sample{kStart + absl::Seconds(300), 4, 24, true, 0, absl::ZeroDuration(), 3000, 0};
  const AutoscaleDecision decision = Autoscale(bounds, 4, absl::InfinitePast(), sample, &memory);
  EXPECT_EQ(decision.replicas, 3);
  EXPECT_EQ(decision.reason,
            "from 4 to 3 pods: the lag was below 10 s for 5 minutes, and 3 pods would be busy for 1 % of the time");
}

TEST(AutoscaleTest, CountersThatStartAnewTeachNothing) {
  const AutoscaleBounds bounds{1, 12, absl::Seconds(20)};
  AutoscaleMemory memory;
  for (int at = 0; at < 5; ++at) {
    const LoadSample sample{kStart + at * kStep, 4, 24, true, 100'000, absl::Minutes(1), 100'000 - 20'000 * at, 0};
    Autoscale(bounds, 4, kStart, sample, &memory);
  }
  EXPECT_FALSE(memory.pod_rate.has_value());
  EXPECT_LE(memory.samples.size(), kMaxSamples);
}

TEST(AutoscaleTest, AnyLoadStaysWithinBoundsAndIsCalmWhenItIs) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const auto up_to = [&random](int most) { return std::uniform_int_distribution<int>(1, most)(random); };
    const int least = up_to(4);
    Load load({least, least + up_to(20), absl::Seconds(up_to(60))}, up_to(30), up_to(40));
    load.pod_rate = up_to(5000);
    load.move_time = absl::Seconds(up_to(300));
    for (int phase = 0; phase < 6; ++phase) {
      load.arriving = up_to(30'000);
      load.Run(absl::Minutes(up_to(60)));
    }
    load.Run(absl::Hours(4));
    const int changes = load.changes;
    load.Run(absl::Hours(4));
    EXPECT_LE(load.changes - changes, 2) << load.history;
    ASSERT_FALSE(HasFailure()) << load.history;
  }
}

TEST(AutoscaleBoundsTest, FromTheManifest) {
  EXPECT_FALSE(AutoscaleBoundsOf(Sample()).has_value());
  const std::optional<AutoscaleBounds> bounds =
      AutoscaleBoundsOf(Sample("  autoscale: {minReplicas: 2, maxReplicas: 7, targetLag: 1m30s}\n"));
  ASSERT_TRUE(bounds.has_value());
  EXPECT_EQ(bounds->min_replicas, 2);
  EXPECT_EQ(bounds->max_replicas, 7);
  EXPECT_EQ(bounds->target_lag, absl::Seconds(90));
}

}  // namespace
}  // namespace millstream::model
