// Applies numbered batches to a task store until it is killed; for store_crash_test.
//   store_crash_writer FOLDER SEED
// Prints the number of a batch when everything up to it has been flushed. Acts on MILLSTREAM_CRASH_AT.
#include <cstdio>
#include <cstdlib>
#include <random>

#include "common/base/crash_point_armed.h"
#include "common/base/status.h"
#include "sidecar/store/numbered_batches.h"
#include "sidecar/store/state_environment.h"

int main(int argc, char** argv) {
  using namespace millstream;
  using namespace millstream::store;
  MS_CHECK(argc == 3);
  ArmCrashPointsFromEnvironment();
  StateMemory memory;
  memory.memtable_bytes = 1 << 20;  // so that flushes in the background happen as well
  StateEnvironment environment(memory);
  auto opened = TaskStore::Open(&environment, argv[1], BatchIdentity());
  MS_CHECK_OK(opened);
  TaskStore& store = **opened;
  MS_CHECK(store.wiped_reason().empty());

  BatchPlan plan;
  plan.seed = strtoull(argv[2], nullptr, 10);
  std::mt19937_64 random(std::random_device{}());
  for (int64_t number = BatchNumber(store.positions()) + 1;; ++number) {
    MS_CHECK(number > 0);
    MS_CHECK_OK(store.Apply(BatchWrites(plan, number), BatchPositions(number)));
    if (random() % 64 != 0) continue;
    MS_CHECK_OK(store.Flush());
    printf("%lld\n", static_cast<long long>(number));
    fflush(stdout);
  }
}
