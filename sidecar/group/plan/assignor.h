#ifndef MILLSTREAM_SIDECAR_GROUP_PLAN_ASSIGNOR_H_
#define MILLSTREAM_SIDECAR_GROUP_PLAN_ASSIGNOR_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "sidecar/group/plan/member_data.h"

namespace millstream::group {

// What the assignor knows of a member.
struct AssignorMember {
  std::string key;                            // instance id, or member id of a dynamic member; unique. Decides ties
  int32_t tasks = 0;                          // it can take 0 .. tasks-1 ...
  std::optional<std::vector<TaskId>> manual;  // ... of these, if set; ascending
  bool draining = false;
  std::vector<OwnedTask> owned;             // ascending by task
  std::vector<RestoredPosition> positions;  // ascending by task
};

struct MemberPlan {
  std::vector<TaskId> active;   // run these from this generation on; ascending
  std::vector<TaskId> awaited;  // they come once their owners have let go of them; ascending
  std::vector<TaskId> give_up;  // its own, to be let go of; ascending

  friend bool operator==(const MemberPlan&, const MemberPlan&) = default;
};

// Shares the tasks out among the members; result aligned with `members`. Pure and deterministic: the order of the
// members does not matter.
//
// - Sticky: a task stays with its owner unless balance, a filter or draining demands otherwise.
// - Balanced: of two members, none could hand the other a task and still have as many as it.
// - Incremental: a task that moves is in nobody's `active` until its owner has stopped listing it among `owned`, and in
//   its next owner's `awaited` meanwhile. Of several who claim a task the one who received it last has it.
// - A task without an owner goes first to who has its state on disk, the least behind first, as balance permits.
// - A draining member gets no new task and loses one at a time, the lowest first; those that nobody else may run, at
//   once.
//
// 10,000 tasks and 500 members take some milliseconds (assignor_bench.cc).
std::vector<MemberPlan> MakePlan(const std::vector<AssignorMember>& members);

}  // namespace millstream::group

#endif  // MILLSTREAM_SIDECAR_GROUP_PLAN_ASSIGNOR_H_
