#include "common/log/embedded/maintenance.h"

#include <map>
#include <memory>
#include <vector>

#include "common/base/status.h"
#include "common/log/embedded/compaction.h"
#include "common/log/embedded/coordinator.h"
#include "common/log/embedded/retention.h"

namespace millstream::log::embedded {
namespace {

// A segment is rewritten when half of it, and at least this, is dead.
constexpr int64_t kLeastDeadBytes = 1 << 20;

struct Due {
  std::shared_ptr<PartitionState> partition;
  bool compact = false;
};

std::vector<Due> AllPartitions(Core& core, bool thorough) {
  absl::MutexLock lock(&core.state_mutex);
  std::vector<Due> all;
  for (const auto& [name, topic] : core.topics) {
    for (const auto& partition : topic->partitions) {
      all.push_back({partition, partition->config.compact && (thorough || WorthCompacting(*partition))});
    }
  }
  return all;
}

// Segments nothing is appended to any more that are at least half dead.
std::vector<uint32_t> ReclaimableSegments(Core& core) {
  absl::MutexLock lock(&core.write_mutex);
  std::map<uint32_t, int64_t> live;
  {
    absl::MutexLock state_lock(&core.state_mutex);
    for (const auto& [name, topic] : core.topics) {
      for (const auto& partition : topic->partitions) {
        for (const SegmentRef& ref : partition->refs) live[ref.segment] += ref.bytes - ref.dead;
      }
    }
  }
  std::vector<uint32_t> reclaimable;
  for (const auto& [segment, dead] : core.dead_bytes) {
    if (segment < core.segment && dead >= kLeastDeadBytes && dead >= live[segment]) reclaimable.push_back(segment);
  }
  return reclaimable;
}

absl::Status Reclaim(Core& core, uint32_t segment) {
  MS_RETURN_IF_ERROR(core.storage->ReclaimSegment(segment));
  WriteSet set = core.storage->NewWriteSet();
  absl::MutexLock lock(&core.write_mutex);
  DeleteDeadBytes(segment, &set);
  MS_RETURN_IF_ERROR(core.storage->Write(set));
  core.dead_bytes.erase(segment);
  return absl::OkStatus();
}

}  // namespace

absl::Status RunMaintenance(Core& core, bool thorough) {
  absl::MutexLock lock(&core.maintenance_mutex);
  absl::Status first_error = AbortExpired(core);
  for (const Due& due : AllPartitions(core, thorough)) {
    if (core.stopping) return first_error;
    first_error.Update(ApplyRetention(core, due.partition));
    if (due.compact) first_error.Update(Compact(core, due.partition));
  }
  for (uint32_t segment : ReclaimableSegments(core)) {
    if (core.stopping) break;
    first_error.Update(Reclaim(core, segment));
  }
  return first_error;
}

}  // namespace millstream::log::embedded
