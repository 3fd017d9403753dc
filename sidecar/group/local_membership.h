#ifndef MILLSTREAM_SIDECAR_GROUP_LOCAL_MEMBERSHIP_H_
#define MILLSTREAM_SIDECAR_GROUP_LOCAL_MEMBERSHIP_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "sidecar/group/membership.h"

namespace millstream::group {

struct LocalMembershipOptions {
  std::vector<TaskId> tasks;  // are assigned
  // Makes this process the sole member and fences whoever was it before: EmbeddedLog::JoinGroup, and its LeaveGroup.
  std::function<absl::StatusOr<log::GroupToken>()> join;
  std::function<void(const log::GroupToken&)> leave;
};

// Membership of a local run: the data folder is held by one process, so that every task is this process's until it
// leaves. `events` outlives it.
std::unique_ptr<Membership> NewLocalMembership(LocalMembershipOptions options, MembershipEvents* events);

}  // namespace millstream::group

#endif  // MILLSTREAM_SIDECAR_GROUP_LOCAL_MEMBERSHIP_H_
