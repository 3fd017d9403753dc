#ifndef MILLSTREAM_SIDECAR_GROUP_MEMBERSHIP_H_
#define MILLSTREAM_SIDECAR_GROUP_MEMBERSHIP_H_

#include <vector>

#include "absl/status/status.h"
#include "common/base/ids.h"
#include "common/log/record.h"

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
};

// The way into a consumer group and out of it. Thread-safe.
class Membership {
 public:
  virtual ~Membership() = default;
  // Events follow, possibly before it returns. UNAVAILABLE: try again.
  virtual absl::Status Join() = 0;
  virtual void TaskReleased(TaskId task) = 0;
  virtual void RebalanceReady() = 0;
  // Only a process that is being drained leaves; after its tasks are released. No event follows. Idempotent.
  virtual void Leave() = 0;
};

}  // namespace millstream::group

#endif  // MILLSTREAM_SIDECAR_GROUP_MEMBERSHIP_H_
