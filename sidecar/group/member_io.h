#ifndef MILLSTREAM_SIDECAR_GROUP_MEMBER_IO_H_
#define MILLSTREAM_SIDECAR_GROUP_MEMBER_IO_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/log/record.h"
#include "sidecar/group/net/address.h"
#include "sidecar/group/wire/find_coordinator.h"
#include "sidecar/group/wire/heartbeat.h"
#include "sidecar/group/wire/join_group.h"
#include "sidecar/group/wire/leave_group.h"
#include "sidecar/group/wire/sync_group.h"

// What goes into a Member (events) and comes out of it (actions): it does no I/O itself.
namespace millstream::group {

using CallId = uint64_t;

// Two threads with connections of their own: a JoinGroup may be under way for a minute, and heartbeats go on meanwhile.
enum class Lane : uint8_t { kControl, kHeartbeat };

using CallRequest = std::variant<wire::FindCoordinatorRequest, wire::JoinGroupRequest, wire::SyncGroupRequest,
                                 wire::HeartbeatRequest, wire::LeaveGroupRequest>;
using CallResponse = std::variant<wire::FindCoordinatorResponse, wire::JoinGroupResponse, wire::SyncGroupResponse,
                                  wire::HeartbeatResponse, wire::LeaveGroupResponse>;

// ---------------------------------------------------------------- events

struct JoinOrdered {};
struct LeaveOrdered {};
struct DrainOrdered {};
struct ReadyReported {};  // RebalanceReady
struct ReleaseReported {  // TaskReleased
  TaskId task;
};
// Answer to CallBroker. A status: no answer came.
struct CallDone {
  CallId call = 0;
  absl::StatusOr<CallResponse> response;
};
// Answer to EndVanished.
struct TransactionsEnded {
  CallId call = 0;
  std::vector<std::string> not_ended;
};
struct TimePassed {};

using MemberEvent = std::variant<JoinOrdered, LeaveOrdered, DrainOrdered, ReadyReported, ReleaseReported, CallDone,
                                 TransactionsEnded, TimePassed>;

// ---------------------------------------------------------------- actions

// One call at a time per lane. Answered by CallDone.
struct CallBroker {
  CallId call = 0;
  Lane lane = Lane::kControl;
  std::optional<BrokerAddress> to;  // unset: any broker
  CallRequest request;
  absl::Duration timeout;
};
// On the control lane. Answered by TransactionsEnded, after `timeout` at the latest.
struct EndVanished {
  CallId call = 0;
  std::vector<std::string> transactional_ids;
  absl::Duration timeout;
};
// Whatever the control lane does has become pointless; its answer is not waited for.
struct GiveUpControlCall {};

// MembershipEvents, in this order.
struct TellToken {
  log::GroupToken token;
  int members = 1;
};
struct TellAssigned {
  std::vector<TaskId> tasks;
};
struct TellRevoked {
  std::vector<TaskId> tasks;
};
struct TellRebalance {};
struct TellLost {
  absl::Status cause;
};
struct TellProblem {
  absl::Status problem;  // OK: it is over
};
struct TellStopped {
  absl::Status cause;
};
// Out of the group by order. `drained`: it was Drain's.
struct TellLeft {
  bool drained = false;
};

using MemberAction = std::variant<CallBroker, EndVanished, GiveUpControlCall, TellToken, TellAssigned, TellRevoked,
                                  TellRebalance, TellLost, TellProblem, TellStopped, TellLeft>;

}  // namespace millstream::group

#endif  // MILLSTREAM_SIDECAR_GROUP_MEMBER_IO_H_
