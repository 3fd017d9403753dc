#ifndef MILLSTREAM_SIDECAR_GROUP_PLAN_GROUP_PROTOCOL_H_
#define MILLSTREAM_SIDECAR_GROUP_PLAN_GROUP_PROTOCOL_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "sidecar/group/plan/assignment_data.h"
#include "sidecar/group/plan/member_data.h"

namespace millstream::group {

// Our data inside the encodings of Kafka's own consumers (wire/consumer_protocol.h), so that its tools show group,
// members, assignment and lag.

// A member's metadata in JoinGroup. `members`: of the group, 0 if unknown; the more there are, the less each may say.
std::string EncodeSubscription(const MemberData& data, const std::vector<std::string>& topics, int members);
// INVALID_ARGUMENT: malformed; UNIMPLEMENTED: of a release that is too new.
absl::StatusOr<MemberData> ReadSubscription(std::string_view metadata);

// A member's assignment in SyncGroup: the tasks as partitions of every topic.
std::string EncodeAssignment(const AssignmentData& data, const std::vector<std::string>& topics);
// No bytes at all: the leader did not know the member; no task.
absl::StatusOr<AssignmentData> ReadAssignment(std::string_view assignment);

}  // namespace millstream::group

#endif  // MILLSTREAM_SIDECAR_GROUP_PLAN_GROUP_PROTOCOL_H_
