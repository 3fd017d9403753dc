#ifndef MILLSTREAM_COMMON_LOG_ADMIN_H_
#define MILLSTREAM_COMMON_LOG_ADMIN_H_

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/log/record.h"

namespace millstream::log {

struct TopicSpec {
  std::string name;
  int partitions = 1;
  int replication_factor = -1;                // -1: the log's default; the embedded log has one copy
  std::map<std::string, std::string> config;  // Kafka's names: cleanup.policy, retention.ms, max.message.bytes ...
  // Lifts the log's bound on how far record timestamps may be from its clock, under the name this log knows for it.
  // For topics whose times are event times: a broker of Kafka 4 refuses what is an hour ahead.
  bool any_timestamp = false;
};

struct TopicInfo {
  std::string name;
  std::string
      id;  // unique per creation: a re-created topic has another one. Empty where the log has none (Kafka < 2.8)
  int partitions = 0;
  std::map<std::string, std::string> config;  // in force, defaults included
  int replication_factor = 0;                 // copies of each partition; 0: the log keeps one and cannot do more
};

struct GroupMember {
  std::string member_id, instance_id, host;
  std::vector<TopicPartition> assigned = {};  // what it reads, where the log knows
};

struct GroupInfo {
  std::string group, state;  // state as Kafka names it: Empty, Stable, ...
  Generation generation{-1};
  std::vector<GroupMember> members;
};

// Topics, ends of partitions, and groups. Thread-safe; calls block up to `deadline` of the log's options (default 30
// s). NOT_FOUND names a topic that is not there, UNAVAILABLE means try again.
class Admin {
 public:
  virtual ~Admin() = default;

  virtual absl::StatusOr<std::vector<TopicInfo>> ListTopics() = 0;
  virtual absl::StatusOr<TopicInfo> DescribeTopic(const std::string& topic) = 0;
  // ALREADY_EXISTS if it is there; INVALID_ARGUMENT for an illegal name, count or config.
  virtual absl::Status CreateTopic(const TopicSpec& spec) = 0;
  virtual absl::Status DeleteTopic(const std::string& topic) = 0;

  // First offset still there.
  virtual absl::StatusOr<Offset> StartOffset(const TopicPartition& of) = 0;
  // kReadCommitted: the last stable offset; kReadUncommitted: the high watermark. Control records count.
  virtual absl::StatusOr<Offset> EndOffset(const TopicPartition& of, Isolation isolation) = 0;
  // First offset whose timestamp is at or after `timestamp_ms`; the end if none.
  virtual absl::StatusOr<Offset> OffsetForTime(const TopicPartition& of, int64_t timestamp_ms) = 0;

  // Offsets of the group; partitions without one are left out. Waits (bounded) while a transaction with offsets of any
  // of them is pending, as Kafka's RequireStable does; DEADLINE_EXCEEDED names the partition then.
  virtual absl::StatusOr<std::map<TopicPartition, GroupOffset>> StableGroupOffsets(
      const std::string& group, absl::Span<const TopicPartition> partitions) = 0;
  // Sets offsets outside of transactions; FAILED_PRECONDITION while the group has members.
  virtual absl::Status SetGroupOffsets(const std::string& group,
                                       absl::Span<const std::pair<TopicPartition, GroupOffset>> offsets) = 0;
  virtual absl::StatusOr<std::vector<GroupInfo>> ListGroups() = 0;
  // One of them; state "Dead" and no members for a group nobody knows, as Kafka answers. Asks for no other group, of
  // which there may be thousands, or which this client must not see.
  virtual absl::StatusOr<GroupInfo> DescribeGroup(const std::string& group) {
    absl::StatusOr<std::vector<GroupInfo>> groups = ListGroups();
    if (!groups.ok()) return groups.status();
    for (GroupInfo& info : *groups) {
      if (info.group == group) return std::move(info);
    }
    return GroupInfo{.group = group, .state = "Dead", .generation = Generation(-1), .members = {}};
  }
  virtual absl::Status DeleteGroup(const std::string& group) = 0;
};

}  // namespace millstream::log

#endif  // MILLSTREAM_COMMON_LOG_ADMIN_H_
