// The oracle of the scripted world must notice when a rule of engine.md is switched off: a simulation that passes
// proves nothing otherwise. Each mutated engine runs in a child process, since its own checks may end it first: that
// counts too.
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "common/base/log_line.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sidecar/engine/testing/scripted_world.h"

namespace millstream::engine::testing {
namespace {

constexpr uint64_t kMostSeeds = 400;
constexpr int kNoticed = 10, kCheckFailed = 11, kNotNoticed = 12;

// Runs seeds until something is wrong.
int RunChild(WorldOptions options) {
  SetLogging(LogLevel::kError, LogFormat::kText);
  for (uint64_t seed = 1; seed <= kMostSeeds; ++seed) {
    options.seed = seed;
    const std::string wrong = ScriptedWorld(options).Run();
    if (wrong.empty()) continue;
    std::fprintf(stderr, "noticed: %s\n", wrong.substr(0, 200).c_str());
    return kNoticed;
  }
  return kNotNoticed;
}

int Notices(const WorldOptions& options) {
  const pid_t child = fork();
  if (child == 0) _exit(RunChild(options));
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) ? kCheckFailed : WEXITSTATUS(status);
}

WorldOptions Troubled(EngineOptions::Mutation mutation) {
  WorldOptions options;
  options.mutation = mutation;
  options.members = 2;
  options.faults.commit_unknown = 0.2;
  options.faults.call_abort = 0.02;
  options.faults.expel = 0.004;
  return options;
}

const auto kEitherWay = ::testing::AnyOf(kNoticed, kCheckFailed);

TEST(MutationTest, TheWorldAsSuchIsSound) { EXPECT_EQ(Notices(Troubled(EngineOptions::Mutation::kNone)), kNotNoticed); }
TEST(MutationTest, WithoutR3) { EXPECT_THAT(Notices(Troubled(EngineOptions::Mutation::kR3)), kEitherWay); }
TEST(MutationTest, WithoutR4) { EXPECT_THAT(Notices(Troubled(EngineOptions::Mutation::kR4)), kEitherWay); }
TEST(MutationTest, WithoutR6) { EXPECT_THAT(Notices(Troubled(EngineOptions::Mutation::kR6)), kEitherWay); }
TEST(MutationTest, WithoutR7) { EXPECT_THAT(Notices(Troubled(EngineOptions::Mutation::kR7)), kEitherWay); }

WorldOptions Timed(EngineOptions::Mutation mutation) {
  WorldOptions options = Troubled(mutation);
  options.timed = true;
  return options;
}

// That the timed world as such is sound is shown by SimulationTest.Timed...
TEST(MutationTest, WithoutStepsOfTtl) { EXPECT_THAT(Notices(Timed(EngineOptions::Mutation::kTtlSteps)), kEitherWay); }
TEST(MutationTest, WithoutTimesOfRows) { EXPECT_THAT(Notices(Timed(EngineOptions::Mutation::kTtlTimes)), kEitherWay); }
TEST(MutationTest, WithoutSessionsThatStayAsGiven) {
  EXPECT_THAT(Notices(Timed(EngineOptions::Mutation::kGiven)), kEitherWay);
}

TEST(MutationTest, WithoutClaims) {
  WorldOptions options = Timed(EngineOptions::Mutation::kClaims);
  options.guarantee = spec::Guarantee::kAtMostOnce;
  options.on_failure = spec::FailureAction::kDeadLetter;
  EXPECT_THAT(Notices(options), kEitherWay);
}

}  // namespace
}  // namespace millstream::engine::testing
