// Engines in the scripted world, by seed. MILLSTREAM_SIM_SEEDS=<count> runs more of them, MILLSTREAM_SIM_SEED=<seed>
// one alone, MILLSTREAM_SIM_FIRST=<seed> starts elsewhere.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "common/base/log_line.h"
#include "gtest/gtest.h"
#include "sidecar/engine/testing/scripted_world.h"

namespace millstream::engine::testing {
namespace {

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

struct Seeds {
  uint64_t first, count;
};
Seeds SeedsToRun(uint64_t usual) {
  if (std::getenv("MILLSTREAM_SIM_SEED") != nullptr) return {FromEnvironment("MILLSTREAM_SIM_SEED", 1), 1};
  return {FromEnvironment("MILLSTREAM_SIM_FIRST", 1), FromEnvironment("MILLSTREAM_SIM_SEEDS", usual)};
}

// A failed check of the engine ends the process: it should still say which seed it was.
uint64_t running_seed = 0;
void TellSeed(int /*signal*/) {
  std::fprintf(stderr, "aborted in seed %llu\n", static_cast<unsigned long long>(running_seed));
  std::_Exit(134);
}

class SimulationTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::signal(SIGABRT, TellSeed);
    SetLogging(std::getenv("MILLSTREAM_SIM_TRACE") != nullptr ? LogLevel::kDebug : LogLevel::kError, LogFormat::kText);
  }
  void RunAll(WorldOptions options, uint64_t usual) {
    const Seeds seeds = SeedsToRun(usual);
    ScriptedWorld::Totals all;
    for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
      options.seed = running_seed = seed;
      SCOPED_TRACE(::testing::Message() << "seed " << seed);
      ScriptedWorld world(options);
      ASSERT_EQ(world.Run(), "");
      all.transactions += world.totals().transactions;
      all.aborted += world.totals().aborted;
      all.records += world.totals().records;
      all.skipped += world.totals().skipped + world.totals().dead_letters;
      all.late_results += world.totals().late_results;
      all.kills += world.totals().kills;
    }
    std::printf(
        "%llu seeds: %llu records in %llu transactions, %llu aborted, %llu records given up, %llu late results, %llu "
        "kills\n",
        static_cast<unsigned long long>(seeds.count), static_cast<unsigned long long>(all.records),
        static_cast<unsigned long long>(all.transactions), static_cast<unsigned long long>(all.aborted),
        static_cast<unsigned long long>(all.skipped), static_cast<unsigned long long>(all.late_results),
        static_cast<unsigned long long>(all.kills));
  }
};

TEST_F(SimulationTest, CalmWorld) {
  WorldOptions options;
  options.faults = FaultRates::None();
  options.bad_records = false;
  RunAll(options, 30);
}

TEST_F(SimulationTest, ExactlyOnceOneMember) { RunAll({}, 100); }

TEST_F(SimulationTest, ExactlyOnceThreeMembers) {
  WorldOptions options;
  options.members = 3;
  options.on_failure = spec::FailureAction::kDeadLetter;
  RunAll(options, 100);
}

// More of what hurts most: unknown outcomes, aborts, members taken for dead.
TEST_F(SimulationTest, ExactlyOnceTroubled) {
  WorldOptions options;
  options.members = 2;
  options.faults.commit_unknown = 0.2;
  options.faults.call_abort = 0.02;
  options.faults.expel = 0.004;
  RunAll(options, 100);
}

TEST_F(SimulationTest, ExactlyOnceTwoInputs) {
  WorldOptions options;
  options.members = 2;
  options.inputs = 2;
  options.on_failure = spec::FailureAction::kDeadLetter;
  RunAll(options, 100);
}

// A record that comes back does so once, however often its transaction was tried.
TEST_F(SimulationTest, ExactlyOnceLoop) {
  WorldOptions options;
  options.members = 2;
  options.loop = true;
  options.on_failure = spec::FailureAction::kDeadLetter;
  RunAll(options, 100);
}

// With bounds that are always reached: a task that sends to itself must not wait for itself.
TEST_F(SimulationTest, ExactlyOnceLoopSqueezed) {
  WorldOptions options;
  options.inputs = 2;
  options.loop = true;
  options.transaction_bytes = 200;
  options.overlay_bytes = 5000;
  options.fetched_bytes = 3000;
  RunAll(options, 60);
}

// Outputs that workers keep until FINALIZE are in the transaction of the records they came from.
TEST_F(SimulationTest, ExactlyOnceGathered) {
  WorldOptions options;
  options.members = 2;
  options.gather = true;
  options.on_failure = spec::FailureAction::kDeadLetter;
  options.faults.commit_unknown = 0.15;
  RunAll(options, 100);
}

// The state in a database of the workers': whoever ends between its commit and the log's.
TEST_F(SimulationTest, ExternalCalm) {
  WorldOptions options;
  options.external = true;
  options.faults = FaultRates::None();
  options.bad_records = false;
  RunAll(options, 30);
}

TEST_F(SimulationTest, ExternalOneMember) {
  WorldOptions options;
  options.external = true;
  RunAll(options, 100);
}

TEST_F(SimulationTest, ExternalTroubled) {
  WorldOptions options;
  options.external = true;
  options.members = 3;
  options.on_failure = spec::FailureAction::kDeadLetter;
  options.faults.commit_unknown = 0.15;
  options.faults.call_abort = 0.02;
  options.faults.expel = 0.004;
  options.faults.database = 0.03;
  RunAll(options, 100);
}

TEST_F(SimulationTest, ExternalLoopTwoInputs) {
  WorldOptions options;
  options.external = true;
  options.members = 2;
  options.inputs = 2;
  options.loop = true;
  options.transaction_bytes = 600;
  options.on_failure = spec::FailureAction::kDeadLetter;
  RunAll(options, 60);
}

TEST_F(SimulationTest, ExternalStops) {
  WorldOptions options;
  options.external = true;
  options.members = 2;
  options.on_failure = spec::FailureAction::kStop;
  RunAll(options, 50);
}

TEST_F(SimulationTest, ExternalAtLeastOnce) {
  WorldOptions options;
  options.external = true;
  options.members = 2;
  options.guarantee = spec::Guarantee::kAtLeastOnce;
  RunAll(options, 60);
}

// Inputs that wait for each other: under faults, and with so little memory that each would like to be paused.
TEST_F(SimulationTest, ExactlyOnceMergedByTime) {
  WorldOptions options;
  options.members = 2;
  options.inputs = 2;
  options.loop = true;
  options.merge_by_time = true;
  options.overlay_bytes = 5000;
  options.fetched_bytes = 3000;
  RunAll(options, 60);
}

// Bounds so tight that they are reached all the time: everything still ends.
TEST_F(SimulationTest, ExactlyOnceSqueezed) {
  WorldOptions options;
  options.members = 2;
  options.inputs = 2;
  options.transaction_bytes = 200;
  options.overlay_bytes = 5000;
  options.fetched_bytes = 3000;
  RunAll(options, 100);
}

TEST_F(SimulationTest, ExactlyOnceStops) {
  WorldOptions options;
  options.members = 2;
  options.on_failure = spec::FailureAction::kStop;
  RunAll(options, 50);
}

// Windows, sessions and timers.
TEST_F(SimulationTest, TimedCalm) {
  WorldOptions options;
  options.timed = true;
  options.faults = FaultRates::None();
  options.bad_records = false;
  RunAll(options, 10);
}

TEST_F(SimulationTest, TimedExactlyOnce) {
  WorldOptions options;
  options.timed = true;
  options.members = 2;
  options.on_failure = spec::FailureAction::kDeadLetter;
  options.faults.commit_unknown = 0.15;
  RunAll(options, 40);
}

TEST_F(SimulationTest, TimedSqueezed) {
  WorldOptions options;
  options.timed = true;
  options.members = 2;
  options.transaction_bytes = 600;
  options.overlay_bytes = 8000;
  options.fetched_bytes = 3000;
  RunAll(options, 15);
}

TEST_F(SimulationTest, TimedAtLeastOnce) {
  WorldOptions options;
  options.timed = true;
  options.members = 2;
  options.guarantee = spec::Guarantee::kAtLeastOnce;
  RunAll(options, 15);
}

// Walks over all rows, beside all of that.
TEST_F(SimulationTest, VisitsCalm) {
  WorldOptions options;
  options.timed = options.visits = true;
  options.faults = FaultRates::None();
  options.bad_records = false;
  RunAll(options, 10);
}

TEST_F(SimulationTest, VisitsExactlyOnce) {
  WorldOptions options;
  options.timed = options.visits = true;
  options.members = 2;
  options.on_failure = spec::FailureAction::kDeadLetter;
  options.faults.commit_unknown = 0.15;
  RunAll(options, 40);
}

TEST_F(SimulationTest, VisitsSqueezed) {
  WorldOptions options;
  options.timed = options.visits = true;
  options.members = 2;
  options.transaction_bytes = 600;
  options.overlay_bytes = 8000;
  options.fetched_bytes = 3000;
  RunAll(options, 15);
}

TEST_F(SimulationTest, VisitsAtLeastOnce) {
  WorldOptions options;
  options.timed = options.visits = true;
  options.members = 2;
  options.guarantee = spec::Guarantee::kAtLeastOnce;
  RunAll(options, 15);
}

// Nothing is lost where nothing goes wrong.
TEST_F(SimulationTest, AtMostOnceCalm) {
  WorldOptions options;
  options.inputs = 2;
  options.faults = FaultRates::None();
  options.only_workers_end = true;
  options.bad_records = false;
  options.on_failure = spec::FailureAction::kDeadLetter;
  options.guarantee = spec::Guarantee::kAtMostOnce;
  RunAll(options, 30);
}

TEST_F(SimulationTest, TimedAtMostOnceCalm) {
  WorldOptions options;
  options.timed = options.visits = true;
  options.faults = FaultRates::None();
  options.only_workers_end = true;
  options.bad_records = false;
  options.on_failure = spec::FailureAction::kDeadLetter;
  options.guarantee = spec::Guarantee::kAtMostOnce;
  RunAll(options, 10);
}

// Only what a worker has when it ends is lost.
TEST_F(SimulationTest, TimedAtMostOnceWorkersEnd) {
  WorldOptions options;
  options.timed = options.visits = true;
  options.faults = FaultRates::None();
  options.only_workers_end = true;
  options.faults.worker_crash = 0.01;
  options.faults.worker_hang = 0.001;
  options.faults.worker_goodbye = 0.005;
  options.faults.nonsense = 0.002;
  options.on_failure = spec::FailureAction::kDeadLetter;
  options.guarantee = spec::Guarantee::kAtMostOnce;
  RunAll(options, 30);
}

// Records that fail move time; without dead letters they leave no trace that the model could follow.
TEST_F(SimulationTest, TimedAtMostOnce) {
  WorldOptions options;
  options.timed = true;
  options.members = 2;
  options.bad_records = false;
  options.faults.commit_unknown = 0.15;
  options.guarantee = spec::Guarantee::kAtMostOnce;
  RunAll(options, 40);
}

TEST_F(SimulationTest, TimedAtMostOnceDeadLetters) {
  WorldOptions options;
  options.timed = true;
  options.members = 2;
  options.on_failure = spec::FailureAction::kDeadLetter;
  options.guarantee = spec::Guarantee::kAtMostOnce;
  RunAll(options, 40);
}

TEST_F(SimulationTest, TimedAtMostOnceSqueezed) {
  WorldOptions options;
  options.timed = true;
  options.members = 2;
  options.transaction_bytes = 600;
  options.overlay_bytes = 8000;
  options.fetched_bytes = 3000;
  options.on_failure = spec::FailureAction::kDeadLetter;
  options.guarantee = spec::Guarantee::kAtMostOnce;
  RunAll(options, 15);
}

TEST_F(SimulationTest, VisitsAtMostOnce) {
  WorldOptions options;
  options.timed = options.visits = true;
  options.members = 2;
  options.on_failure = spec::FailureAction::kDeadLetter;
  options.guarantee = spec::Guarantee::kAtMostOnce;
  RunAll(options, 15);
}

TEST_F(SimulationTest, AtLeastOnce) {
  WorldOptions options;
  options.members = 2;
  options.guarantee = spec::Guarantee::kAtLeastOnce;
  RunAll(options, 100);
}

TEST_F(SimulationTest, AtMostOnce) {
  WorldOptions options;
  options.members = 2;
  options.inputs = 2;
  options.guarantee = spec::Guarantee::kAtMostOnce;
  RunAll(options, 100);
}

TEST_F(SimulationTest, AtMostOnceMergedByTime) {
  WorldOptions options;
  options.inputs = 2;
  options.merge_by_time = true;
  options.guarantee = spec::Guarantee::kAtMostOnce;
  RunAll(options, 40);
}

}  // namespace
}  // namespace millstream::engine::testing
