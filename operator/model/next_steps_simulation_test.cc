// Decisions about a workload in a little cluster, by seed. MILLSTREAM_SIM_SEEDS=<count> runs more of them,
// MILLSTREAM_SIM_SEED=<seed> one alone, MILLSTREAM_SIM_FIRST=<seed> starts elsewhere.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "gtest/gtest.h"
#include "operator/model/testing/workload_world.h"

namespace millstream::model {
namespace {

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

TEST(NextStepsSimulationTest, NothingIsLostAndEverythingComesToRest) {
  const uint64_t one = FromEnvironment("MILLSTREAM_SIM_SEED", 0);
  const uint64_t first = one != 0 ? one : FromEnvironment("MILLSTREAM_SIM_FIRST", 1);
  const uint64_t count = one != 0 ? 1 : FromEnvironment("MILLSTREAM_SIM_SEEDS", 100);
  WorkloadWorld::Counts all;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    WorkloadWorld world(seed);
    const std::string failure = world.Run();
    ASSERT_EQ(failure, "") << "seed " << seed;
    all.passes += world.counts().passes;
    all.evictions += world.counts().evictions;
    all.refused_evictions += world.counts().refused_evictions;
    all.deletions += world.counts().deletions;
    all.drains += world.counts().drains;
    all.drained_evictions += world.counts().drained_evictions;
    all.scale_ins += world.counts().scale_ins;
    all.recreated_sets += world.counts().recreated_sets;
    all.grown_claims += world.counts().grown_claims;
    all.lost_claims += world.counts().lost_claims;
    all.edits += world.counts().edits;
  }
  std::printf(
      "%llu seeds: %d passes, %d edits, %d evictions (%d of drained pods, %d more refused), %d deletions, %d drains, "
      "%d "
      "scale-ins, %d StatefulSets made anew, %d claims grown, %d lost\n",
      static_cast<unsigned long long>(count), all.passes, all.edits, all.evictions, all.drained_evictions,
      all.refused_evictions, all.deletions, all.drains, all.scale_ins, all.recreated_sets, all.grown_claims,
      all.lost_claims);
  if (count < 100) return;
  // It did meet what it is about.
  EXPECT_GT(all.drained_evictions, 0);
  EXPECT_GT(all.deletions, 0);
  EXPECT_GT(all.scale_ins, 0);
  EXPECT_GT(all.recreated_sets, 0);
  EXPECT_GT(all.grown_claims, 0);
  EXPECT_GT(all.lost_claims, 0);
}

}  // namespace
}  // namespace millstream::model
