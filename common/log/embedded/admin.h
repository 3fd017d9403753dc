#ifndef MILLSTREAM_COMMON_LOG_EMBEDDED_ADMIN_H_
#define MILLSTREAM_COMMON_LOG_EMBEDDED_ADMIN_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/log/admin.h"
#include "common/log/embedded/core.h"

namespace millstream::log::embedded {

class EmbeddedAdmin : public Admin {
 public:
  explicit EmbeddedAdmin(Core* core) : core_(core) {}

  absl::StatusOr<std::vector<TopicInfo>> ListTopics() override;
  absl::StatusOr<TopicInfo> DescribeTopic(const std::string& topic) override;
  absl::Status CreateTopic(const TopicSpec& spec) override;
  absl::Status DeleteTopic(const std::string& topic) override;
  absl::StatusOr<Offset> StartOffset(const TopicPartition& of) override;
  absl::StatusOr<Offset> EndOffset(const TopicPartition& of, Isolation isolation) override;
  absl::StatusOr<Offset> OffsetForTime(const TopicPartition& of, int64_t timestamp_ms) override;
  absl::StatusOr<std::map<TopicPartition, GroupOffset>> StableGroupOffsets(
      const std::string& group, absl::Span<const TopicPartition> partitions) override;
  absl::Status SetGroupOffsets(const std::string& group,
                               absl::Span<const std::pair<TopicPartition, GroupOffset>> offsets) override;
  absl::StatusOr<std::vector<GroupInfo>> ListGroups() override;
  absl::Status DeleteGroup(const std::string& group) override;

 private:
  Core* const core_;
};

}  // namespace millstream::log::embedded

#endif  // MILLSTREAM_COMMON_LOG_EMBEDDED_ADMIN_H_
