#ifndef MILLSTREAM_SIDECAR_GROUP_MEMBER_H_
#define MILLSTREAM_SIDECAR_GROUP_MEMBER_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/ids.h"
#include "sidecar/group/backoff.h"
#include "sidecar/group/held_tasks.h"
#include "sidecar/group/member_io.h"
#include "sidecar/group/plan/leader.h"
#include "sidecar/group/plan/member_data.h"
#include "sidecar/group/plan/roster.h"
#include "sidecar/group/wire/error_code.h"

namespace millstream::group {

// The name of our assignor in the group ("partition assignment strategy" in Kafka's tools).
inline constexpr char kProtocolName[] = "millstream";

struct MemberOptions {
  std::string group;
  std::string instance_id;          // static membership: the name that survives a restart; empty: dynamic
  std::vector<std::string> topics;  // the subscription
  // What the member says about itself; owned, positions, draining and roster are filled in at every join.
  MemberData data;
  absl::Duration session_timeout = absl::Seconds(45);
  absl::Duration heartbeat_interval = absl::Milliseconds(500);
  absl::Duration rebalance_timeout = absl::Seconds(60);
  uint64_t seed = 0;                                         // of the backoff's jitter
  std::function<std::vector<RestoredPosition>()> positions;  // may be empty
  std::function<bool()> alive;                               // may be empty; false: no heartbeat is sent
};

// A member of a group as a step function: events in, actions out; no thread, no I/O, no clock of its own. What it does
// about every error of the coordinator is in wire/error_code.h. One thread at a time.
//
// The rules it keeps (engine.md, R7; membership.md):
// - JoinGroup ends the generation of a token, so that it is sent only when nothing is begun under it (RebalanceReady),
//   or after the loss of everything was told.
// - A task is listed as owned until TaskReleased. A task told lost is not told assigned again before its TaskReleased.
// - The leader ends the transactions of vanished members before it sends SyncGroup, and never those of a member that is
//   present: a leader that was stopped for a while must not act on a list that is old by now.
// - Heartbeats wait for nothing else here.
class Member {
 public:
  explicit Member(MemberOptions options);

  // One step at the monotonic time `now`: takes in the event, appends what is to be done.
  void Step(absl::Duration now, MemberEvent event, std::vector<MemberAction>* actions);
  // When TimePassed is wanted at the latest; nullopt: nothing is waiting.
  std::optional<absl::Duration> NextDeadline() const;

  // Of the generation it is in; empty if it is in none, or was not given it (a large group).
  const Roster& roster() const {
    static const Roster kNone;
    return has_token_ ? roster_ : kNone;
  }
  Generation generation() const { return generation_; }
  bool leads() const { return leads_; }

 private:
  enum class Phase : uint8_t {
    kOut,       // no member, and nobody wants it to be one
    kJoining,   // JoinGroup is due or under way
    kPlanning,  // leader: transactions of vanished members are being ended
    kSyncing,   // SyncGroup is due or under way
    kStable,
    kFinishing,  // the group rebalances: waiting for RebalanceReady
    kLeaving,    // LeaveGroup is due or under way
    kStopped,    // for good
  };

  void On(const JoinOrdered& event);
  void On(const LeaveOrdered& event);
  void On(const DrainOrdered& event);
  void On(const ReadyReported& event);
  void On(const ReleaseReported& event);
  void On(CallDone& event);
  void On(TransactionsEnded& event);
  void On(const TimePassed&) {}

  // Answers of the control lane.
  void OnAnswer(const wire::FindCoordinatorResponse& answer);
  void OnAnswer(const wire::JoinGroupResponse& answer);
  void OnAnswer(const wire::SyncGroupResponse& answer);
  void OnAnswer(const wire::LeaveGroupResponse& answer);
  void OnAnswer(const wire::HeartbeatResponse&) {}  // the other lane's
  void OnHeartbeat(const absl::StatusOr<CallResponse>& response);
  void OnHeartbeatFailure(const absl::Status& status);
  void OnHeartbeatError(wire::ErrorCode error);
  void OnControlFailure(const absl::Status& status);
  void OnControlError(wire::ErrorCode error, std::string_view what);

  // What is due, started.
  void Advance();
  void AdvanceControl();
  void AdvanceHeartbeat();
  void SendFind();
  void SendJoin();
  void SendSync();
  void SendLeave();
  void Send(CallRequest request, std::optional<BrokerAddress> to, absl::Duration timeout);

  void Plan(const wire::JoinGroupResponse& joined);
  void EncodeAssignments(const std::vector<std::string>& not_ended);
  void Install(const wire::SyncGroupResponse& synced);
  void TakeTasks(const std::vector<TaskId>& assigned);
  void StartRebalance();
  void StartLeaving();
  void Lose(const absl::Status& cause);
  void Stop(const absl::Status& cause);
  void OnFenced(const absl::Status& cause);
  void LoseCoordinator();
  void GiveUpControl();
  void Left();
  void Complain(const absl::Status& problem);
  void Pause(absl::Duration pause) { control_not_before_ = now_ + pause; }
  bool Beats() const;
  bool RestartedLeader() const;
  // No generation without this member can begin within so long after a sign of life.
  absl::Duration Grace() const { return std::min(options_.session_timeout, options_.rebalance_timeout); }
  void CheckPlanIsCurrent(wire::ErrorCode heartbeat);
  MemberData OwnData();
  void Do(MemberAction action) { actions_->push_back(std::move(action)); }

  const MemberOptions options_;
  Backoff backoff_;

  // During a step.
  absl::Duration now_;
  std::vector<MemberAction>* actions_ = nullptr;

  Phase phase_ = Phase::kOut;
  std::string member_id_;
  std::string leader_id_;
  Generation generation_{-1};  // of the last JoinGroup answer; -1: none in force
  bool leads_ = false;
  std::optional<BrokerAddress> coordinator_;

  // Calls under way.
  CallId last_call_ = 0;
  std::optional<CallId> control_call_, heartbeat_call_;
  std::string heartbeat_member_id_;
  Generation heartbeat_generation_{-1};
  absl::Duration heartbeat_sent_;
  int heartbeat_failures_ = 0;
  // A JoinGroup under our name but without an id got no answer: it may come to the broker late, and fence ourselves.
  bool nameless_join_ = false, nameless_join_lost_ = false;
  absl::Duration control_not_before_, next_heartbeat_;

  // The leader's, between JoinGroup and SyncGroup.
  std::optional<GenerationPlan> plan_;
  bool plan_is_current_ = false;  // a heartbeat proved it
  std::vector<wire::SyncGroupAssignment> assignments_;

  Roster roster_;
  int members_ = 0;  // of the group, as last told; 0: unknown
  HeldTasks tasks_;
  uint64_t joins_;  // from a random start
  std::optional<absl::Duration> rejoin_at_;

  // What the engine was told and what it answered.
  bool has_token_ = false;
  bool quiet_ = true;  // nothing is begun under the token told last

  bool ever_joined_ = false;  // this process: before that a member of its name is a former process
  bool draining_ = false;
  bool published_draining_ = false;  // the group was told with the last JoinGroup
  absl::Duration leave_by_;
  std::string problem_;            // told last; empty: none
  absl::Status standing_problem_;  // of the generation: stays while heartbeats are answered
  std::optional<absl::Duration> failing_since_;
};

}  // namespace millstream::group

#endif  // MILLSTREAM_SIDECAR_GROUP_MEMBER_H_
