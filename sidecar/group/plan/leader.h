#ifndef MILLSTREAM_SIDECAR_GROUP_PLAN_LEADER_H_
#define MILLSTREAM_SIDECAR_GROUP_PLAN_LEADER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "sidecar/group/plan/assignor.h"
#include "sidecar/group/plan/member_data.h"
#include "sidecar/group/plan/roster.h"
#include "sidecar/group/wire/join_group.h"
#include "sidecar/group/wire/sync_group.h"

namespace millstream::group {

// The broker stores a group as one record: metadata and assignments of all members. Half of its usual message limit.
inline constexpr size_t kMaxGroupBytes = 512 << 10;

// A generation as its leader sees it, between JoinGroup and SyncGroup.
struct GenerationPlan {
  struct Member {
    std::string member_id, instance_id;
    MemberData data;
    MemberPlan plan;
  };
  Generation generation;
  std::vector<Member> members;
  // Of members whose user data this release cannot read: they get no task, and nobody a new one, since they may hold
  // it.
  absl::Status unreadable;
  // Ids of the last plan of which no member is present: their transactions are ended before SyncGroup. Ascending.
  std::vector<std::string> vanished;
  size_t metadata_bytes = 0;  // of all members
};

// `known`: the newest roster this process has, beside those that the members bring along.
GenerationPlan PrepareGeneration(const wire::JoinGroupResponse& joined, const Roster& known);

struct EncodedPlan {
  std::vector<wire::SyncGroupAssignment> assignments;
  Roster roster;  // the new one
  uint64_t plan_hash = 0;
  size_t total_bytes = 0;  // with the members' metadata; above kMaxGroupBytes somebody should know
};

// Everybody's assignment. `topics`: the subscription, for Kafka's own tools. `not_ended`: the vanished ids whose
// transactions could not be ended; the next leader tries again. `own_member_id`: of the leader.
EncodedPlan EncodePlan(const GenerationPlan& plan, const std::vector<std::string>& topics,
                       const std::vector<std::string>& not_ended, const std::string& own_member_id);

}  // namespace millstream::group

#endif  // MILLSTREAM_SIDECAR_GROUP_PLAN_LEADER_H_
