#ifndef MILLSTREAM_COMMON_LOG_EMBEDDED_GROUP_TABLE_H_
#define MILLSTREAM_COMMON_LOG_EMBEDDED_GROUP_TABLE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/log/admin.h"
#include "common/log/record.h"

namespace millstream::log::embedded {

// One offset on its way to a group. The offset appended last wins, not the one committed last: `sequence` is the order
// of appending.
struct OffsetChange {
  std::string group;
  TopicPartition partition;
  GroupOffset offset;
  uint64_t sequence = 0;
};

// Groups: generation, the member if there is one, offsets, and offsets pending in transactions. In memory only; not
// thread-safe (guarded by Core::state_mutex).
class GroupTable {
 public:
  // From disk, when the log is opened.
  void Restore(const std::string& group, Generation generation);
  void RestoreOffset(const std::string& group, const TopicPartition& partition, GroupOffset offset);

  bool Contains(const std::string& group) const { return groups_.contains(group); }
  bool HasMember(const std::string& group) const;
  Generation generation(const std::string& group) const;
  // FAILED_PRECONDITION with ILLEGAL_GENERATION or UNKNOWN_MEMBER_ID in its message, as Kafka answers.
  absl::Status Check(const GroupToken& token) const;
  GroupToken Join(const std::string& group, const std::string& member_id);
  void Leave(const GroupToken& token);
  std::vector<GroupInfo> List() const;
  void Remove(const std::string& group) { groups_.erase(group); }

  void AddPending(int64_t producer_id, const std::string& group,
                  absl::Span<const std::pair<TopicPartition, GroupOffset>> offsets);
  bool HasPending(int64_t producer_id) const { return pending_.contains(producer_id); }
  bool HasPending(const std::string& group) const;
  std::optional<TopicPartition> FirstPending(const std::string& group,
                                             absl::Span<const TopicPartition> partitions) const;
  // The pending offsets that win over what is written already: what a commit puts on disk.
  std::vector<OffsetChange> Winning(int64_t producer_id) const;
  // Offsets set outside of transactions, as changes to be written and applied.
  std::vector<OffsetChange> Direct(const std::string& group,
                                   absl::Span<const std::pair<TopicPartition, GroupOffset>> offsets);
  // On disk now: later commits know what they must not overwrite.
  void MarkWritten(const std::vector<OffsetChange>& changes);
  // Visible now.
  void Apply(const std::vector<OffsetChange>& changes);
  // The transaction has ended.
  void DropPending(int64_t producer_id);

  std::map<TopicPartition, GroupOffset> Offsets(const std::string& group,
                                                absl::Span<const TopicPartition> partitions) const;
  // Group and partition of every offset on the topic.
  std::vector<std::pair<std::string, TopicPartition>> OffsetsOn(const std::string& topic) const;
  // Forgets them.
  void DropTopic(const std::string& topic);
  std::vector<TopicPartition> PartitionsOf(const std::string& group) const;

 private:
  struct Entry {
    std::optional<GroupOffset> visible;
    uint64_t visible_sequence = 0;
    uint64_t written_sequence = 0;
    int pending = 0;  // open transactions that have an offset of it
  };
  struct Group {
    Generation generation{0};
    std::optional<std::string> member;
    std::map<TopicPartition, Entry> offsets;
  };

  std::map<std::string, Group> groups_;
  // By producer id, then group and partition.
  absl::flat_hash_map<int64_t, std::map<std::pair<std::string, TopicPartition>, OffsetChange>> pending_;
  uint64_t last_sequence_ = 0;
};

}  // namespace millstream::log::embedded

#endif  // MILLSTREAM_COMMON_LOG_EMBEDDED_GROUP_TABLE_H_
