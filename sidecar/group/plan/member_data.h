#ifndef MILLSTREAM_SIDECAR_GROUP_PLAN_MEMBER_DATA_H_
#define MILLSTREAM_SIDECAR_GROUP_PLAN_MEMBER_DATA_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "sidecar/group/plan/roster.h"

namespace millstream::group {

// A task a member holds, and the generation in which it last got it. Of two that claim a task the higher one has it.
struct OwnedTask {
  TaskId task;
  Generation received;
  friend bool operator==(const OwnedTask&, const OwnedTask&) = default;
};

// State of a task on a member's disk: how far it is restored, and how far its changelogs go. Sums over the task's
// changelogs; what matters is the distance.
struct RestoredPosition {
  TaskId task;
  int64_t position = -1, end = -1;
  friend bool operator==(const RestoredPosition&, const RestoredPosition&) = default;
};

// What a member says about itself with every JoinGroup: the user data of its subscription.
struct MemberData {
  int version = 0;    // as read: of the release that wrote it
  std::string host;   // host:port where its queries are answered
  int32_t tasks = 0;  // how many tasks it knows of: 0 .. tasks-1
  bool draining = false;
  std::optional<std::vector<TaskId>> manual;   // the only tasks it may get; ascending
  std::vector<std::string> transactional_ids;  // of its writers; ascending
  std::vector<OwnedTask> owned;                // ascending by task
  std::vector<RestoredPosition> positions;     // ascending by task
  Roster roster;                               // the newest it was given
  // Different in every JoinGroup: brokers start no rebalance for a member that joins again with the same data.
  uint64_t nonce = 0;

  friend bool operator==(const MemberData&, const MemberData&) = default;
};

// At most `max_bytes` if leaving out the positions, which are hints, is enough for it; nothing else is left out.
std::string EncodeMemberData(const MemberData& data, size_t max_bytes);
// INVALID_ARGUMENT: malformed; UNIMPLEMENTED: too new.
absl::StatusOr<MemberData> DecodeMemberData(std::string_view bytes);

}  // namespace millstream::group

#endif  // MILLSTREAM_SIDECAR_GROUP_PLAN_MEMBER_DATA_H_
