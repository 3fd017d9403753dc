#include "sidecar/host/memory_budget.h"

#include <filesystem>
#include <fstream>

#include "gtest/gtest.h"

namespace millstream::host {
namespace {

constexpr int64_t kMiB = 1 << 20;

class MemoryBudgetTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/memory-XXXXXX";
    root_ = mkdtemp(pattern.data());
    Write("/proc/meminfo", "MemTotal:       16777216 kB\nMemFree: 1 kB\n");  // 16 GiB
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  std::string root_;
};

TEST_F(MemoryBudgetTest, WithoutALimitAtMost512MiB) { EXPECT_EQ(DefaultMemoryBytes(root_), 512 * kMiB); }

TEST_F(MemoryBudgetTest, WithoutALimitOnASmallMachineAQuarter) {
  Write("/proc/meminfo", "MemTotal:       1048576 kB\n");
  EXPECT_EQ(DefaultMemoryBytes(root_), 256 * kMiB);
}

TEST_F(MemoryBudgetTest, TheLeastLimitOnTheWayUpCounts) {
  Write("/proc/self/cgroup", "0::/pods/one/container\n");
  Write("/sys/fs/cgroup/pods/one/container/memory.max", "max\n");
  Write("/sys/fs/cgroup/pods/one/memory.max", "314572800\n");
  Write("/sys/fs/cgroup/pods/memory.max", "1073741824\n");
  EXPECT_EQ(DefaultMemoryBytes(root_), 300 * kMiB);
}

TEST_F(MemoryBudgetTest, VersionOneGroupsCountToo) {
  Write("/proc/self/cgroup", "9:cpu,cpuacct:/x\n5:memory:/docker/abc\n");
  Write("/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "209715200\n");
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(DefaultMemoryBytes(root_), 200 * kMiB);
}

TEST_F(MemoryBudgetTest, TheSharesStayBelowTheWhole) {
  for (const int processors : {1, 3, 10}) {
    for (const int64_t total : {64 * kMiB, 512 * kMiB, 8192 * kMiB}) {
      const MemoryShares shares = SplitMemory(total, processors);
      const int64_t sum = shares.log_cache + shares.log_memtables + shares.state_cache + shares.state_memtables +
                          processors * (shares.overlays + shares.fetch_buffer + shares.fetched + shares.frames);
      EXPECT_LT(sum, total * 6 / 10) << total << " over " << processors;
      EXPECT_LE(shares.unflushed * processors, 64 * kMiB);
    }
  }
}

}  // namespace
}  // namespace millstream::host
