#include "common/log/embedded/group_table.h"

#include <algorithm>

#include "common/base/strings.h"

namespace millstream::log::embedded {

void GroupTable::Restore(const std::string& group, Generation generation) { groups_[group].generation = generation; }

void GroupTable::RestoreOffset(const std::string& group, const TopicPartition& partition, GroupOffset offset) {
  groups_[group].offsets[partition].visible = std::move(offset);
}

bool GroupTable::HasMember(const std::string& group) const {
  const auto it = groups_.find(group);
  return it != groups_.end() && it->second.member.has_value();
}

Generation GroupTable::generation(const std::string& group) const {
  const auto it = groups_.find(group);
  return it == groups_.end() ? Generation(0) : it->second.generation;
}

absl::Status GroupTable::Check(const GroupToken& token) const {
  const auto it = groups_.find(token.group);
  const bool member = it != groups_.end() && it->second.member == token.member_id;
  // Nobody's token: for tools, while the group has no member. Kafka takes it even then, unfenced; here nobody gets past
  // the fence.
  const bool empty = it == groups_.end() || !it->second.member.has_value();
  if (token.generation.value() < 0 && token.member_id.empty() && empty) return absl::OkStatus();
  if (token.generation.value() >= 0 && !member) {
    return absl::FailedPreconditionError(StrCat("UNKNOWN_MEMBER_ID: \"", token.member_id,
                                                "\" is not a member of group ", token.group, "; join it again"));
  }
  if (!member || it->second.generation != token.generation) {
    return absl::FailedPreconditionError(StrCat("ILLEGAL_GENERATION: group ", token.group, " is at generation ",
                                                generation(token.group).value(), ", the token at ",
                                                token.generation.value(), "; join it again"));
  }
  return absl::OkStatus();
}

GroupToken GroupTable::Join(const std::string& group, const std::string& member_id) {
  Group& joined = groups_[group];
  joined.generation = joined.generation.Next();
  joined.member = member_id;
  return {group, member_id, "", joined.generation};
}

void GroupTable::Leave(const GroupToken& token) {
  if (Check(token).ok()) groups_[token.group].member.reset();
}

std::vector<GroupInfo> GroupTable::List() const {
  std::vector<GroupInfo> all;
  for (const auto& [name, group] : groups_) {
    GroupInfo& info = all.emplace_back();
    info.group = name;
    info.generation = group.generation;
    info.state = group.member ? "Stable" : "Empty";
    if (group.member) info.members.push_back({*group.member, "", "localhost", {}});
  }
  return all;
}

void GroupTable::AddPending(int64_t producer_id, const std::string& group,
                            absl::Span<const std::pair<TopicPartition, GroupOffset>> offsets) {
  Group& owner = groups_[group];
  auto& pending = pending_[producer_id];
  for (const auto& [partition, offset] : offsets) {
    const auto [slot, added] = pending.try_emplace({group, partition});
    if (added) ++owner.offsets[partition].pending;
    slot->second = {group, partition, offset, ++last_sequence_};
  }
}

bool GroupTable::HasPending(const std::string& group) const {
  const auto it = groups_.find(group);
  return it != groups_.end() && std::any_of(it->second.offsets.begin(), it->second.offsets.end(),
                                            [](const auto& entry) { return entry.second.pending > 0; });
}

std::optional<TopicPartition> GroupTable::FirstPending(const std::string& group,
                                                       absl::Span<const TopicPartition> partitions) const {
  const auto it = groups_.find(group);
  if (it == groups_.end()) return std::nullopt;
  for (const TopicPartition& partition : partitions) {
    const auto entry = it->second.offsets.find(partition);
    if (entry != it->second.offsets.end() && entry->second.pending > 0) return partition;
  }
  return std::nullopt;
}

std::vector<OffsetChange> GroupTable::Winning(int64_t producer_id) const {
  std::vector<OffsetChange> winning;
  const auto pending = pending_.find(producer_id);
  if (pending == pending_.end()) return winning;
  for (const auto& [key, change] : pending->second) {
    const Group& group = groups_.at(change.group);
    const auto entry = group.offsets.find(change.partition);
    if (entry == group.offsets.end() || entry->second.written_sequence < change.sequence) winning.push_back(change);
  }
  return winning;
}

std::vector<OffsetChange> GroupTable::Direct(const std::string& group,
                                             absl::Span<const std::pair<TopicPartition, GroupOffset>> offsets) {
  std::vector<OffsetChange> changes;
  for (const auto& [partition, offset] : offsets) changes.push_back({group, partition, offset, ++last_sequence_});
  return changes;
}

void GroupTable::MarkWritten(const std::vector<OffsetChange>& changes) {
  for (const OffsetChange& change : changes) {
    groups_[change.group].offsets[change.partition].written_sequence = change.sequence;
  }
}

void GroupTable::Apply(const std::vector<OffsetChange>& changes) {
  for (const OffsetChange& change : changes) {
    Entry& entry = groups_[change.group].offsets[change.partition];
    if (entry.visible && entry.visible_sequence > change.sequence) continue;
    entry.visible = change.offset;
    entry.visible_sequence = change.sequence;
  }
}

void GroupTable::DropPending(int64_t producer_id) {
  const auto pending = pending_.find(producer_id);
  if (pending == pending_.end()) return;
  for (const auto& [key, change] : pending->second) {
    const auto group = groups_.find(change.group);
    if (group == groups_.end()) continue;
    const auto entry = group->second.offsets.find(change.partition);
    if (entry == group->second.offsets.end()) continue;
    if (--entry->second.pending == 0 && !entry->second.visible) group->second.offsets.erase(entry);
  }
  pending_.erase(pending);
}

std::map<TopicPartition, GroupOffset> GroupTable::Offsets(const std::string& group,
                                                          absl::Span<const TopicPartition> partitions) const {
  std::map<TopicPartition, GroupOffset> offsets;
  const auto it = groups_.find(group);
  if (it == groups_.end()) return offsets;
  for (const TopicPartition& partition : partitions) {
    const auto entry = it->second.offsets.find(partition);
    if (entry != it->second.offsets.end() && entry->second.visible) offsets[partition] = *entry->second.visible;
  }
  return offsets;
}

std::vector<std::pair<std::string, TopicPartition>> GroupTable::OffsetsOn(const std::string& topic) const {
  std::vector<std::pair<std::string, TopicPartition>> found;
  for (const auto& [name, group] : groups_) {
    for (const auto& [partition, entry] : group.offsets) {
      if (partition.topic == topic) found.emplace_back(name, partition);
    }
  }
  return found;
}

void GroupTable::DropTopic(const std::string& topic) {
  for (auto& [name, group] : groups_) {
    std::erase_if(group.offsets, [&](const auto& entry) { return entry.first.topic == topic; });
  }
  for (auto& [producer, changes] : pending_) {
    std::erase_if(changes, [&](const auto& change) { return change.first.second.topic == topic; });
  }
}

std::vector<TopicPartition> GroupTable::PartitionsOf(const std::string& group) const {
  std::vector<TopicPartition> partitions;
  const auto it = groups_.find(group);
  if (it == groups_.end()) return partitions;
  for (const auto& [partition, entry] : it->second.offsets) partitions.push_back(partition);
  return partitions;
}

}  // namespace millstream::log::embedded
