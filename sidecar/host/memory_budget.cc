#include "sidecar/host/memory_budget.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

#include "common/base/strings.h"

namespace millstream::host {
namespace {

constexpr int64_t kMiB = 1 << 20;

// The number in a file; nullopt if there is none ("max", no file).
std::optional<int64_t> NumberIn(const std::string& path) {
  std::ifstream file(path);
  int64_t number = 0;
  if (!(file >> number) || number <= 0) return std::nullopt;
  return number;
}

// Limits hold for a group and everything below it: the least on the way up.
std::optional<int64_t> CgroupLimit(const std::string& root) {
  std::optional<int64_t> least;
  const auto take = [&least](std::optional<int64_t> limit) {
    if (limit.has_value()) least = std::min(least.value_or(*limit), *limit);
  };
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    // "0::/path" (version 2) or "5:memory:/path" (version 1).
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool unified = controllers.empty();
    if (!unified && StrCat(",", controllers, ",").find(",memory,") == std::string::npos) continue;
    const std::string base = root + (unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory");
    const std::string file = unified ? "/memory.max" : "/memory.limit_in_bytes";
    for (std::string path = line.substr(second + 1);; path.erase(path.rfind('/'))) {
      take(NumberIn(StrCat(base, path == "/" ? "" : path, file)));
      if (path.rfind('/') == std::string::npos) break;
    }
  }
  return least;
}

int64_t RamBytes(const std::string& root) {
  std::ifstream info(root + "/proc/meminfo");
  std::string name, unit;
  for (int64_t kilobytes = 0; info >> name >> kilobytes >> unit;) {
    if (name == "MemTotal:") return kilobytes * 1024;
  }
  return 2048 * kMiB;
}

}  // namespace

MemoryShares SplitMemory(int64_t total_bytes, int processors, bool on_kafka) {
  // Below this the parts are too small to work; a process of so little memory would not start anyway.
  const int64_t total = std::max(total_bytes, 64 * kMiB);
  const auto share = [total](int percent) { return total / 100 * percent; };
  MemoryShares shares;
  shares.log_cache = on_kafka ? 0 : share(3);
  shares.log_memtables = on_kafka ? 0 : share(3);
  shares.state_cache = share(14);
  shares.state_memtables = share(12);
  shares.overlays = share(8) / processors;
  shares.fetch_buffer = share(on_kafka ? 6 : 3) / processors;
  shares.restore = share(on_kafka ? 8 : 5) / processors;
  shares.fetched = share(5) / processors;
  shares.frames = share(4) / processors;
  shares.unflushed = std::min(64 * kMiB, shares.state_memtables) / processors;
  return shares;
}

int64_t DefaultMemoryBytes(const std::string& root) {
  const int64_t ram = RamBytes(root);
  const std::optional<int64_t> limit = CgroupLimit(root);
  // Version 1 says "no limit" with a number beyond any machine.
  if (limit.has_value() && *limit < ram) return *limit;
  return std::min(512 * kMiB, ram / 4);
}

}  // namespace millstream::host
