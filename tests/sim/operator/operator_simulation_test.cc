// The whole operator, twice, against an API server in memory with faults, with controllers, kubelets and people that
// are played: see README.md. MILLSTREAM_SIM_SEED=N runs that seed alone, with a trace; MILLSTREAM_SIM_SEEDS=N so many,
// from MILLSTREAM_SIM_FIRST on ("random": new ones).
#include <cstdlib>
#include <iostream>
#include <random>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/synchronization/mutex.h"
#include "common/base/log_line.h"
#include "common/base/strings.h"
#include "gtest/gtest.h"
#include "tests/sim/operator/simulation.h"

namespace millstream::sim {
namespace {

// The same ones each time: a landing must not be refused for what another seed would have shown a month ago. New ones
// are what `./dev soak` is for.
constexpr uint64_t kFirstSeed = 1;
constexpr uint64_t kSeeds = 200;
// From so many seeds on everything that can go wrong has gone wrong.
constexpr uint64_t kAllHappens = 200;

uint64_t NumberFrom(const char* variable, uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  uint64_t number = 0;
  if (text != nullptr && std::string(text) == "random") return std::random_device()();
  return text != nullptr && absl::SimpleAtoi(text, &number) ? number : otherwise;
}

TEST(OperatorSimulationTest, ComesToRestWhateverHappens) {
  const uint64_t only = NumberFrom("MILLSTREAM_SIM_SEED", 0);
  SetLogging(only != 0 ? LogLevel::kDebug : LogLevel::kError, LogFormat::kText);
  const uint64_t first = only != 0 ? only : NumberFrom("MILLSTREAM_SIM_FIRST", kFirstSeed);
  const uint64_t count = only != 0 ? 1 : NumberFrom("MILLSTREAM_SIM_SEEDS", kSeeds);
  // One thread: nothing to be found, and it takes its time.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  uint64_t failed = 0;
  Tally tally;
  for (uint64_t seed = first; seed < first + count && failed < 5; ++seed) {
    Simulation simulation(seed, only != 0);
    simulation.Run();
    for (const auto& [what, times] : simulation.tally()) tally[what] += times;
    if (only != 0) std::cerr << simulation.Summary() << std::endl;
    if (simulation.failures().empty()) continue;
    ++failed;
    std::string text;
    for (const std::string& failure : simulation.failures()) StrAppend(&text, "\n  ", failure.substr(0, 3000));
    ADD_FAILURE() << simulation.Summary() << text << "\nreplay: MILLSTREAM_SIM_SEED=" << seed
                  << " operator_simulation_test";
  }
  for (const auto& [what, times] : tally) RecordProperty(what, StrCat(times));
  if (count < kAllHappens) return;
  for (const char* what : kMustHappen) EXPECT_GT(tally[what], 0) << what << " has never happened";
  for (const auto& [what, times] : tally) std::cerr << what << ": " << times << std::endl;
}

}  // namespace
}  // namespace millstream::sim
