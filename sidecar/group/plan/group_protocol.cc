#include "sidecar/group/plan/group_protocol.h"

#include "common/base/status.h"
#include "sidecar/group/plan/leader.h"
#include "sidecar/group/wire/consumer_protocol.h"
#include "sidecar/group/wire/message.h"

namespace millstream::group {
namespace {

// A member's share of the part of the group's record that members' data may fill; the rest is for assignments, rosters
// and what cannot be left out.
size_t MaxMemberBytes(int members) {
  constexpr size_t kUnknownGroup = 8 << 10;
  return members <= 0 ? kUnknownGroup : kMaxGroupBytes * 3 / 8 / static_cast<size_t>(members);
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
