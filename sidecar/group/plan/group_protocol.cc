#include "sidecar/group/plan/group_protocol.h"

#include <algorithm>

#include "common/base/status.h"
#include "sidecar/group/plan/leader.h"
#include "sidecar/group/wire/consumer_protocol.h"
#include "sidecar/group/wire/message.h"

namespace millstream::group {
namespace {

// A member's share of half the group's record, the other half being assignments.
size_t MaxMemberBytes(int members) {
  constexpr size_t kLeast = 1 << 10, kUnknownGroup = 8 << 10;
  return members <= 0 ? kUnknownGroup : std::max(kLeast, kMaxGroupBytes / 2 / static_cast<size_t>(members));
}

}  // namespace

std::string EncodeSubscription(const MemberData& data, const std::vector<std::string>& topics, int members) {
  wire::Subscription subscription;
  subscription.topics = topics;
  subscription.user_data = EncodeMemberData(data, MaxMemberBytes(members));
  return wire::EncodeMessage(subscription);
}

absl::StatusOr<MemberData> ReadSubscription(std::string_view metadata) {
  MS_ASSIGN_OR_RETURN(const wire::Subscription subscription,
                      wire::DecodeMessage<wire::Subscription>(metadata, wire::Trailing::kIgnore));
  return DecodeMemberData(subscription.user_data);
}

std::string EncodeAssignment(const AssignmentData& data, const std::vector<std::string>& topics) {
  wire::Assignment assignment;
  wire::TopicPartitions item;
  for (const TaskId task : data.active) item.partitions.push_back(task.value());
  for (const std::string& topic : topics) {
    if (item.partitions.empty()) break;
    item.topic = topic;
    assignment.partitions.push_back(item);
  }
  assignment.user_data = EncodeAssignmentData(data);
  return wire::EncodeMessage(assignment);
}

absl::StatusOr<AssignmentData> ReadAssignment(std::string_view assignment) {
  if (assignment.empty()) return AssignmentData();
  MS_ASSIGN_OR_RETURN(const wire::Assignment read,
                      wire::DecodeMessage<wire::Assignment>(assignment, wire::Trailing::kIgnore));
  return DecodeAssignmentData(read.user_data);
}

}  // namespace millstream::group
