#ifndef MILLSTREAM_SIDECAR_GROUP_PLAN_ASSIGNMENT_DATA_H_
#define MILLSTREAM_SIDECAR_GROUP_PLAN_ASSIGNMENT_DATA_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "sidecar/group/plan/roster.h"

namespace millstream::group {

// What the leader tells a member: the user data of its assignment. (The partitions beside it are the same tasks,
// for Kafka's own tools.)
struct AssignmentData {
  int version = 0;             // as read
  std::vector<TaskId> active;  // ascending
  // What the leader takes the member to hold and wants back: who does not hold it (any more) has to say so by joining
  // again, since others wait. Ascending.
  std::vector<TaskId> give_up;
  int32_t members = 1;      // of the group
  uint64_t plan_hash = 0;   // of the whole plan: who has another one has an old plan
  std::string leader_host;  // where the plan can be asked for
  Roster roster;            // whose ids exist; only to some members if the group is large

  friend bool operator==(const AssignmentData&, const AssignmentData&) = default;
};

std::string EncodeAssignmentData(const AssignmentData& data);
absl::StatusOr<AssignmentData> DecodeAssignmentData(std::string_view bytes);

}  // namespace millstream::group

#endif  // MILLSTREAM_SIDECAR_GROUP_PLAN_ASSIGNMENT_DATA_H_
