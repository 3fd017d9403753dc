#include "common/log/embedded/core.h"

#include "common/base/strings.h"

namespace millstream::log::embedded {

absl::StatusOr<std::shared_ptr<PartitionState>> Core::Find(const TopicPartition& name) {
  absl::MutexLock lock(&state_mutex);
  return FindLocked(name);
}

absl::StatusOr<std::shared_ptr<PartitionState>> Core::FindLocked(const TopicPartition& name) {
  const auto topic = topics.find(name.topic);
  if (topic == topics.end()) return absl::NotFoundError(StrCat("topic ", name.topic, " does not exist"));
  const auto& partitions = topic->second->partitions;
  const int32_t number = name.partition.value();
  if (number < 0 || static_cast<size_t>(number) >= partitions.size()) {
    return absl::NotFoundError(
        StrCat("topic ", name.topic, " has no partition ", number, " (it has ", partitions.size(), ")"));
  }
  return partitions[number];
}

void NotifyIfMoved(const PartitionState& partition, int64_t old_high_watermark, int64_t old_last_stable) {
  const bool end_moved = partition.high_watermark != old_high_watermark;
  const bool stable_moved = partition.LastStable() != old_last_stable;
  for (const PartitionState::Watch& watch : partition.watches) {
    if (watch.isolation == Isolation::kReadCommitted ? stable_moved : end_moved) watch.watcher->OnPartitionChanged();
  }
}

void NotifyAll(const PartitionState& partition) {
  for (const PartitionState::Watch& watch : partition.watches) watch.watcher->OnPartitionChanged();
}

}  // namespace millstream::log::embedded
