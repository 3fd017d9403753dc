#include "common/log/embedded/topics.h"

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::log::embedded {
namespace {

constexpr int kMostPartitions = 10'000;  // each costs about 1 KB of memory

// A random (version 4) UUID.
std::string NewTopicId() {
  std::random_device random;
  std::string id;
  static constexpr char kHex[] = "0123456789abcdef";
  for (int i = 0; i < 32; ++i) {
    if (i == 8 || i == 12 || i == 16 || i == 20) id.push_back('-');
    unsigned digit = random() & 15;
    if (i == 12) digit = 4;
    if (i == 16) digit = 8 | (digit & 3);
    id.push_back(kHex[digit]);
  }
  return id;
}

// Kafka's metrics cannot tell '.' from '_', so it refuses names that differ only there.
std::string WithoutDots(std::string name) {
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

absl::Status CheckFree(const Core& core, const std::string& name) ABSL_SHARED_LOCKS_REQUIRED(core.state_mutex) {
  if (core.topics.contains(name)) return absl::AlreadyExistsError(StrCat("topic ", name, " exists already"));
  for (const auto& [other, topic] : core.topics) {
    if (WithoutDots(other) != WithoutDots(name)) continue;
    return absl::InvalidArgumentError(StrCat("topic name ", name, " differs from the existing topic ", other,
                                             " only in '.' and '_', which Kafka refuses"));
  }
  return absl::OkStatus();
}

absl::Status CheckSpec(const TopicSpec& spec) {
  MS_RETURN_IF_ERROR(CheckTopicName(spec.name));
  if (spec.partitions < 1 || spec.partitions > kMostPartitions) {
    return absl::InvalidArgumentError(
        StrCat("topic ", spec.name, ": ", spec.partitions, " partitions; 1 to ", kMostPartitions, " are possible"));
  }
  if (spec.replication_factor == 1 || spec.replication_factor == -1) return absl::OkStatus();
  return absl::InvalidArgumentError(StrCat("topic ", spec.name, ": replication factor ", spec.replication_factor,
                                           "; the embedded log has one copy (1, or -1 for the default)"));
}

}  // namespace

absl::Status CreateTopic(Core& core, const TopicSpec& spec) {
  MS_RETURN_IF_ERROR(CheckSpec(spec));
  MS_ASSIGN_OR_RETURN(const TopicConfig config, ParseTopicConfig(spec.config));
  WriteSet set = core.storage->NewWriteSet();
  absl::MutexLock lock(&core.write_mutex);
  {
    absl::MutexLock state_lock(&core.state_mutex);
    MS_RETURN_IF_ERROR(CheckFree(core, spec.name));
  }
  auto topic = std::make_shared<Topic>();
  topic->entry = {spec.name, NewTopicId(), core.counters.next_uid, static_cast<uint32_t>(spec.partitions), spec.config};
  core.counters.next_uid += spec.partitions;
  for (int i = 0; i < spec.partitions; ++i) {
    topic->partitions.push_back(
        std::make_shared<PartitionState>(topic->entry.first_uid + i, TopicPartition{spec.name, Partition(i)}, config));
  }
  PutCounters(core.counters, &set);
  PutTopic(topic->entry, &set);
  MS_RETURN_IF_ERROR(core.storage->Write(set));
  {
    absl::MutexLock state_lock(&core.state_mutex);
    core.topics[spec.name] = std::move(topic);
  }
  return core.storage->Sync();
}

absl::Status DeleteTopic(Core& core, const std::string& name) {
  WriteSet set = core.storage->NewWriteSet();
  absl::MutexLock lock(&core.write_mutex);
  std::shared_ptr<Topic> topic;
  std::vector<std::pair<std::string, TopicPartition>> offsets;
  {
    absl::MutexLock state_lock(&core.state_mutex);
    const auto it = core.topics.find(name);
    if (it == core.topics.end()) return absl::NotFoundError(StrCat("topic ", name, " does not exist"));
    topic = it->second;
    offsets = core.groups.OffsetsOn(name);
  }
  embedded::DeleteTopic(name, &set);
  auto dead_bytes = core.dead_bytes;
  for (const auto& partition : topic->partitions) {
    DeletePartition(partition->uid, &set);
    for (const SegmentRef& ref : partition->refs) {
      set.DeleteBatches(ref.segment, partition->uid);
      DeleteSegmentRef(partition->uid, ref.segment, &set);
      PutDeadBytes(ref.segment, dead_bytes[ref.segment] += ref.bytes - ref.dead, &set);
    }
    for (const AbortedTransaction& aborted : partition->aborted->Before(INT64_MAX))
      DeleteAborted(partition->uid, aborted, &set);
  }
  for (const auto& [group, partition] : offsets) DeleteGroupOffset(group, partition, &set);
  MS_RETURN_IF_ERROR(core.storage->Write(set));
  core.dead_bytes = std::move(dead_bytes);
  {
    absl::MutexLock state_lock(&core.state_mutex);
    core.topics.erase(name);
    core.groups.DropTopic(name);
    for (const auto& partition : topic->partitions) {
      partition->deleted = true;
      NotifyAll(*partition);
    }
  }
  return core.storage->Sync();
}

TopicInfo Describe(const Topic& topic) {
  return {topic.entry.name, topic.entry.id, static_cast<int>(topic.entry.partitions),
          SettingsInForce(topic.entry.settings)};
}

}  // namespace millstream::log::embedded
