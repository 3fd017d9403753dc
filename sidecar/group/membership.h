#ifndef MILLSTREAM_SIDECAR_GROUP_MEMBERSHIP_H_
#define MILLSTREAM_SIDECAR_GROUP_MEMBERSHIP_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/ids.h"
#include "common/log/record.h"
#include "sidecar/group/plan/member_data.h"

namespace millstream::group {

// What membership tells the one who drives the engine. Called on any thread, one call at a time; must not block.
class MembershipEvents {
 public:
  virtual ~MembershipEvents() = default;
  // The token offsets are sent with from now on, and how many members the group has. Comes before the first OnAssigned.
  virtual void OnToken(const log::GroupToken& token, int members) = 0;
  virtual void OnAssigned(const std::vector<TaskId>& tasks) = 0;
  // Give these up and answer each with TaskReleased.
  virtual void OnRevoked(const std::vector<TaskId>& tasks) = 0;
  // The group rebalances: finish open transactions, begin none, answer with RebalanceReady.
  virtual void OnRebalance() = 0;
  // Expelled: the token is void and all tasks are lost.
  virtual void OnLost(const absl::Status& cause) = 0;
  // What a person should know, with the way out; attempts go on meanwhile. OK: it is over.
  virtual void OnProblem(const absl::Status& /*problem*/) {}
  // Never a member again: ALREADY_EXISTS "DuplicateInstance: ...". OnLost came before, if anything was held.
  virtual void OnStopped(const absl::Status& /*cause*/) {}
  // After Drain: all tasks are given away, the group is left.
  virtual void OnDrained() {}
};

// What a membership asks of the process, on a thread of its own: must not block. Either may be empty.
struct ProcessState {
  // State of its tasks on disk, told to the group with every join, so that tasks go where least is to be read back.
  std::function<std::vector<RestoredPosition>()> positions;
  // False: the engine hangs. Heartbeats stop, so that its tasks go to others.
  std::function<bool()> alive;
};

// The way into a consumer group and out of it. Thread-safe.
class Membership {
 public:
  virtual ~Membership() = default;
  // Events follow, possibly before it returns. UNAVAILABLE: try again. While a drain is under way it is taken back: no
  // OnDrained follows then, unless it was too late; after one that does follow, Join again.
  virtual absl::Status Join() = 0;
  virtual void TaskReleased(TaskId task) = 0;
  virtual void RebalanceReady() = 0;
  // Give all tasks away, one by one where others take them, then leave: OnRevoked as usual, at the end OnDrained. By a
  // process that never joined: whoever was a member under its name before is out of the group then.
  virtual void Drain() = 0;
  // Only a process that is being drained leaves; after its tasks are released. No event follows. Idempotent. Waits
  // until the group knows, some seconds at most; not to be called out of an event. Join may be called again later.
  virtual void Leave() = 0;
  // Transactional ids that may belong to somebody alive; nullopt: unknown here (large groups). Others may be ended.
  virtual std::optional<std::vector<std::string>> PresentTransactionalIds() const { return std::nullopt; }
};

}  // namespace millstream::group

#endif  // MILLSTREAM_SIDECAR_GROUP_MEMBERSHIP_H_
