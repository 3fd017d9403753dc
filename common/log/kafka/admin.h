#ifndef MILLSTREAM_COMMON_LOG_KAFKA_ADMIN_H_
#define MILLSTREAM_COMMON_LOG_KAFKA_ADMIN_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/log/admin.h"
#include "common/log/kafka/admin_client.h"
#include "common/log/kafka/open.h"

namespace millstream::kafka {

// log::Admin on a cluster. Thread-safe.
class KafkaAdmin : public log::Admin {
 public:
  // `client` outlives it.
  explicit KafkaAdmin(AdminClient* client) : client_(client) {}

  // Topics (admin_topics.cc). ListTopics leaves the brokers' own out. A topic's config is empty if the ACL
  // DescribeConfigs on it is missing.
  absl::StatusOr<std::vector<log::TopicInfo>> ListTopics() override;
  absl::StatusOr<log::TopicInfo> DescribeTopic(const std::string& topic) override;
  absl::Status CreateTopic(const log::TopicSpec& spec) override;
  absl::Status DeleteTopic(const std::string& topic) override;

  // Offsets and groups (admin_offsets.cc). Groups of the newer protocols (KIP-848, KIP-1071) are not listed.
  absl::StatusOr<Offset> StartOffset(const TopicPartition& of) override;
  absl::StatusOr<Offset> EndOffset(const TopicPartition& of, log::Isolation isolation) override;
  absl::StatusOr<Offset> OffsetForTime(const TopicPartition& of, int64_t timestamp_ms) override;
  absl::StatusOr<std::map<TopicPartition, log::GroupOffset>> StableGroupOffsets(
      const std::string& group, absl::Span<const TopicPartition> partitions) override;
  // See KafkaLog (open.h).
  absl::StatusOr<std::map<TopicPartition, log::GroupOffset>> GroupOffsetsNow(
      const std::string& group, absl::Span<const TopicPartition> partitions);
  absl::StatusOr<std::vector<KafkaLog::Member>> GroupMembers(const std::string& group);
  absl::Status SetGroupOffsets(const std::string& group,
                               absl::Span<const std::pair<TopicPartition, log::GroupOffset>> offsets) override;
  absl::StatusOr<std::vector<log::GroupInfo>> ListGroups() override;
  absl::StatusOr<log::GroupInfo> DescribeGroup(const std::string& group) override;
  absl::Status DeleteGroup(const std::string& group) override;

 private:
  absl::StatusOr<std::map<TopicPartition, log::GroupOffset>> Offsets(const std::string& group,
                                                                     absl::Span<const TopicPartition> partitions,
                                                                     bool stable);
  // `only` nullptr: all of them. `metadata`: gets what their members joined with, in order.
  absl::StatusOr<std::vector<log::GroupInfo>> Groups(const char* only, std::vector<std::string>* metadata = nullptr);
  absl::Status Create(const log::TopicSpec& spec, const std::map<std::string, std::string>& config);
  // `spec`: RD_KAFKA_OFFSET_SPEC_* or a timestamp.
  absl::StatusOr<Offset> LookUp(const TopicPartition& of, int64_t spec, log::Isolation isolation,
                                std::string_view what);

  absl::Status WhyNoLeader(const TopicPartition& of, const std::string& doing);

  AdminClient* const client_;
};

}  // namespace millstream::kafka

#endif  // MILLSTREAM_COMMON_LOG_KAFKA_ADMIN_H_
