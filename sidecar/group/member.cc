#include "sidecar/group/member.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "absl/strings/match.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "sidecar/group/plan/group_protocol.h"
#include "sidecar/group/wire/consumer_protocol.h"

namespace millstream::group {
namespace {

constexpr absl::Duration kFindTimeout = absl::Seconds(10);
constexpr absl::Duration kLeaveTimeout = absl::Seconds(5);    // of all attempts; the process wants to end
constexpr absl::Duration kComplaintPause = absl::Seconds(5);  // till a person has mended it
// Above what the broker itself waits with its answer.
constexpr absl::Duration kJoinMargin = absl::Seconds(10);
// Without success for so long: a person should know.
constexpr absl::Duration kPatience = absl::Seconds(10);
// Tasks given up are published together, but the first waits no longer than this for the others.
constexpr absl::Duration kPublishDelay = absl::Seconds(1);
constexpr int kFailedHeartbeats = 2;  // in a row: another broker may be the coordinator by now

bool NeedsAPerson(const absl::Status& status) {
  return !absl::IsUnavailable(status) && !absl::IsDeadlineExceeded(status) && !absl::IsCancelled(status);
}

}  // namespace

Member::Member(MemberOptions options)
    : options_(std::move(options)), backoff_(options_.seed), joins_(options_.seed & 0xffffff) {}

void Member::Step(absl::Duration now, MemberEvent event, std::vector<MemberAction>* actions) {
  now_ = now;
  actions_ = actions;
  std::visit([this](auto& of) { On(of); }, event);
  Advance();
  actions_ = nullptr;
}

std::optional<absl::Duration> Member::NextDeadline() const {
  std::optional<absl::Duration> next;
  auto wanted = [&next](absl::Duration when) { next = next ? std::min(*next, when) : when; };
  if (phase_ == Phase::kOut || phase_ == Phase::kStopped) return next;
  const bool waits = coordinator_.has_value() && (phase_ == Phase::kStable || phase_ == Phase::kFinishing ||
                                                  (phase_ == Phase::kPlanning && !plan_is_current_));
  if (!control_call_ && !waits) wanted(control_not_before_);
  if (phase_ == Phase::kStable && rejoin_at_) wanted(*rejoin_at_);
  if (phase_ == Phase::kLeaving) wanted(leave_by_);
  if (Beats() && !heartbeat_call_) wanted(next_heartbeat_);
  return next;
}

// ---------------------------------------------------------------- orders

void Member::On(const JoinOrdered&) {
  if (phase_ != Phase::kOut) {
    // Takes a drain back; what was given away by then comes back as balance wants. One that is leaving leaves first.
    if (phase_ != Phase::kLeaving && std::exchange(draining_, false)) rejoin_at_ = now_;
    return;
  }
  phase_ = Phase::kJoining;
  draining_ = false;
  control_not_before_ = now_;
}

void Member::On(const DrainOrdered&) {
  if (draining_ || phase_ == Phase::kLeaving || phase_ == Phase::kStopped) return;
  draining_ = true;
  if (phase_ != Phase::kOut) {
    rejoin_at_ = now_;
    return;
  }
  // A former process of this name may have been killed while it was a member: its tasks would wait for the session's
  // end.
  if (options_.instance_id.empty() || ever_joined_) return Left();
  StartLeaving();
}

void Member::On(const LeaveOrdered&) {
  if (phase_ == Phase::kLeaving) return;
  if (phase_ == Phase::kOut || phase_ == Phase::kStopped) return Left();
  draining_ = false;
  GiveUpControl();
  StartLeaving();
}

void Member::StartLeaving() {
  phase_ = Phase::kLeaving;
  leave_by_ = now_ + kLeaveTimeout;
  control_not_before_ = now_;
}

void Member::On(const ReadyReported&) {
  if (phase_ != Phase::kFinishing) return;
  quiet_ = true;
  phase_ = Phase::kJoining;
}

void Member::On(const ReleaseReported& event) {
  const HeldTasks::Release release = tasks_.Released(event.task);
  if (release.again) Do(TellAssigned{{event.task}});
  if (!release.publish) return;
  const absl::Duration when = tasks_.releasing() ? now_ + kPublishDelay : now_;
  rejoin_at_ = rejoin_at_ ? std::min(*rejoin_at_, when) : when;
}

// ---------------------------------------------------------------- answers

void Member::On(CallDone& event) {
  if (heartbeat_call_ == event.call) {
    heartbeat_call_.reset();
    return OnHeartbeat(event.response);
  }
  if (control_call_ != event.call) return;  // given up
  control_call_.reset();
  if (!event.response.ok()) return OnControlFailure(event.response.status());
  nameless_join_ = false;
  backoff_.Reset();
  failing_since_.reset();
  std::visit([this](const auto& answer) { OnAnswer(answer); }, *event.response);
}

void Member::On(TransactionsEnded& event) {
  if (control_call_ != event.call) return;
  control_call_.reset();
  if (phase_ == Phase::kPlanning) EncodeAssignments(event.not_ended);
}

void Member::OnAnswer(const wire::FindCoordinatorResponse& answer) {
  if (answer.error != wire::ErrorCode::kNone) return OnControlError(answer.error, "looking for the coordinator");
  coordinator_ = BrokerAddress{answer.host, answer.port};
  heartbeat_failures_ = 0;
  next_heartbeat_ = std::min(next_heartbeat_, now_);
  control_not_before_ = now_;
}

void Member::OnAnswer(const wire::JoinGroupResponse& answer) {
  if (phase_ != Phase::kJoining) return;
  if (answer.error == wire::ErrorCode::kMemberIdRequired) member_id_ = answer.member_id;
  if (answer.error != wire::ErrorCode::kNone) return OnControlError(answer.error, "JoinGroup");
  member_id_ = answer.member_id;
  ever_joined_ = true;
  leader_id_ = answer.leader;
  generation_ = Generation(answer.generation);
  leads_ = answer.leader == answer.member_id;
  next_heartbeat_ = now_ + options_.heartbeat_interval;
  assignments_.clear();
  standing_problem_ = absl::OkStatus();
  phase_ = Phase::kSyncing;
  if (leads_ && !answer.members.empty()) Plan(answer);
}

void Member::Plan(const wire::JoinGroupResponse& joined) {
  plan_ = PrepareGeneration(joined, roster_);
  standing_problem_ = plan_->unreadable;
  if (plan_->vanished.empty()) return EncodeAssignments({});
  phase_ = Phase::kPlanning;
  plan_is_current_ = false;
  next_heartbeat_ = now_;
}

void Member::CheckPlanIsCurrent(wire::ErrorCode heartbeat) {
  if (now_ - heartbeat_sent_ > Grace() / 4) {  // an old answer proves nothing: ask again
    next_heartbeat_ = now_;
  } else if (heartbeat == wire::ErrorCode::kNone) {
    plan_is_current_ = true;
  } else if (heartbeat == wire::ErrorCode::kRebalanceInProgress) {
    EncodeAssignments(plan_->vanished);  // left to the next plan
  }
}

void Member::EncodeAssignments(const std::vector<std::string>& not_ended) {
  EncodedPlan encoded = EncodePlan(*plan_, options_.topics, not_ended, member_id_);
  if (encoded.total_bytes > kMaxGroupBytes) {
    standing_problem_.Update(absl::ResourceExhaustedError(
        StrCat("GroupTooLarge: members' data and assignments are ", encoded.total_bytes, " bytes, above ",
               kMaxGroupBytes, "; the brokers may refuse them. Run fewer members, or inputs with fewer partitions")));
  }
  assignments_ = std::move(encoded.assignments);
  plan_.reset();
  phase_ = Phase::kSyncing;
  control_not_before_ = now_;
}

void Member::OnAnswer(const wire::SyncGroupResponse& answer) {
  if (phase_ != Phase::kSyncing) return;
  if (answer.error != wire::ErrorCode::kNone) return OnControlError(answer.error, "SyncGroup");
  Install(answer);
}

void Member::OnAnswer(const wire::LeaveGroupResponse& answer) {
  if (phase_ != Phase::kLeaving) return;
  const wire::Reaction reaction = wire::ReactionTo(answer.error);
  if (reaction == wire::Reaction::kRetry || reaction == wire::Reaction::kFindCoordinator) {
    return OnControlError(answer.error, "LeaveGroup");
  }
  Left();  // or the broker does not know us any more
}

void Member::OnControlFailure(const absl::Status& status) {
  nameless_join_lost_ |= std::exchange(nameless_join_, false);
  coordinator_.reset();
  if (!failing_since_) failing_since_ = now_;
  if (NeedsAPerson(status)) {
    Complain(status);
    return Pause(kComplaintPause);
  }
  if (now_ - *failing_since_ >= kPatience) Complain(Annotate(status, "no broker answers"));
  Pause(backoff_.Next());
}

void Member::OnControlError(wire::ErrorCode error, std::string_view what) {
  const std::string where = StrCat("group ", options_.group, ": ", what);
  switch (wire::ReactionTo(error)) {
    case wire::Reaction::kProceed:
      return;
    case wire::Reaction::kRetry:
      return Pause(backoff_.Next());
    case wire::Reaction::kFindCoordinator:
      coordinator_.reset();
      return Pause(backoff_.Next());
    case wire::Reaction::kRebalance:
    case wire::Reaction::kTakeMemberId:
      phase_ = Phase::kJoining;
      return;
    case wire::Reaction::kRejoinWithId:
      Lose(wire::ErrorStatus(error, where));
      return;
    case wire::Reaction::kRejoinAsNew:
      Lose(wire::ErrorStatus(error, where));
      member_id_.clear();
      return;
    case wire::Reaction::kStop:
      return OnFenced(wire::ErrorStatus(error, where));
    case wire::Reaction::kComplain:
      if (error == wire::ErrorCode::kGroupMaxSizeReached) member_id_.clear();
      Complain(wire::ErrorStatus(error, where));
      return Pause(kComplaintPause);
  }
}

void Member::OnHeartbeat(const absl::StatusOr<CallResponse>& response) {
  next_heartbeat_ = now_ + options_.heartbeat_interval;
  if (!response.ok()) return OnHeartbeatFailure(response.status());
  heartbeat_failures_ = 0;
  const wire::ErrorCode error = std::get<wire::HeartbeatResponse>(*response).error;
  // The answer to an earlier self says nothing: by then its name may be ours again under a new id.
  const bool mine = heartbeat_member_id_ == member_id_;
  const bool current = mine && heartbeat_generation_ == generation_;
  if (phase_ == Phase::kPlanning && !control_call_ && !plan_is_current_) {
    if (!current) next_heartbeat_ = now_;
    if (current) CheckPlanIsCurrent(error);
  }
  if (error == wire::ErrorCode::kNone) {
    if (current && phase_ == Phase::kStable) Complain(standing_problem_);
    return;
  }
  if (current || (mine && error == wire::ErrorCode::kFencedInstanceId)) OnHeartbeatError(error);
}

void Member::OnHeartbeatFailure(const absl::Status& status) {
  if (NeedsAPerson(status)) Complain(status);
  next_heartbeat_ = now_ + std::min(absl::Milliseconds(100), options_.heartbeat_interval);
  if (++heartbeat_failures_ >= kFailedHeartbeats) LoseCoordinator();
}

void Member::OnHeartbeatError(wire::ErrorCode error) {
  const wire::Reaction reaction = wire::ReactionTo(error);
  const absl::Status status = wire::ErrorStatus(error, StrCat("group ", options_.group, ": Heartbeat"));
  // JoinGroup and SyncGroup under way will bring their own answer about membership.
  const bool decides = phase_ == Phase::kStable || phase_ == Phase::kFinishing || phase_ == Phase::kPlanning;
  switch (reaction) {
    case wire::Reaction::kProceed:
    case wire::Reaction::kTakeMemberId:
    case wire::Reaction::kRetry:
      return;
    case wire::Reaction::kFindCoordinator:
      return LoseCoordinator();
    case wire::Reaction::kStop:
      return OnFenced(status);
    case wire::Reaction::kComplain:
      return Complain(status);
    case wire::Reaction::kRebalance:
      if (phase_ == Phase::kStable) StartRebalance();
      return;
    case wire::Reaction::kRejoinWithId:
    case wire::Reaction::kRejoinAsNew:
      if (!decides) return;
      GiveUpControl();
      Lose(status);
      if (reaction == wire::Reaction::kRejoinAsNew) member_id_.clear();
      return;
  }
}

// ---------------------------------------------------------------- a generation begins and ends

void Member::Install(const wire::SyncGroupResponse& synced) {
  absl::StatusOr<AssignmentData> data = ReadAssignment(synced.assignment);
  if (!data.ok()) {  // no task is taken on a guess
    standing_problem_.Update(data.status());
    data = AssignmentData();
  }
  Complain(standing_problem_);
  phase_ = Phase::kStable;
  assignments_.clear();
  roster_ = data->roster;
  members_ = std::max(data->members, 1);
  rejoin_at_.reset();
  has_token_ = true;
  quiet_ = false;
  Do(TellToken{{.group = options_.group,
                .member_id = member_id_,
                .instance_id = options_.instance_id,
                .generation = generation_},
               members_});
  TakeTasks(data->active);
  // Others may wait for what was let go of since JoinGroup; a restarted leader has yet to see the members; and a drain
  // may have been ordered meanwhile.
  if (tasks_.Outdated() || !tasks_.Holds(data->give_up) || RestartedLeader() || draining_ != published_draining_)
    rejoin_at_ = now_;
}

void Member::TakeTasks(const std::vector<TaskId>& assigned) {
  HeldTasks::Change change = tasks_.Assign(generation_, assigned);
  if (!change.revoked.empty()) Do(TellRevoked{std::move(change.revoked)});
  if (!change.assigned.empty()) Do(TellAssigned{std::move(change.assigned)});
}

// JoinGroup 5 tells the restarted static leader that its former self leads, and keeps the members from it.
bool Member::RestartedLeader() const {
  constexpr size_t kUuidLength = 36;
  return !leads_ && !options_.instance_id.empty() && leader_id_ != member_id_ &&
         absl::StartsWith(leader_id_, options_.instance_id + "-") &&
         leader_id_.size() == options_.instance_id.size() + 1 + kUuidLength;
}

void Member::StartRebalance() {
  rejoin_at_.reset();
  phase_ = Phase::kFinishing;
  quiet_ = false;
  Do(TellRebalance{});
}

void Member::Lose(const absl::Status& cause) {
  generation_ = Generation(-1);
  plan_.reset();
  tasks_.LoseAll();
  rejoin_at_.reset();
  quiet_ = true;
  if (std::exchange(has_token_, false)) Do(TellLost{cause});
  phase_ = phase_ == Phase::kLeaving ? Phase::kLeaving : Phase::kJoining;
  control_not_before_ = now_;
}

void Member::OnFenced(const absl::Status& cause) {
  if (!std::exchange(nameless_join_lost_, false)) return Stop(cause);
  GiveUpControl();
  Lose(cause);
  member_id_.clear();
}

void Member::Stop(const absl::Status& cause) {
  const absl::Status duplicate = absl::AlreadyExistsError(
      StrCat("DuplicateInstance: another process joined group ", options_.group, " as '", options_.instance_id,
             "'; this one stops. Give every replica a name of its own (", std::string(cause.message()), ")"));
  GiveUpControl();
  Lose(duplicate);
  phase_ = Phase::kStopped;
  member_id_.clear();
  Do(TellStopped{duplicate});
}

void Member::LoseCoordinator() {
  coordinator_.reset();
  if (control_call_ && phase_ != Phase::kPlanning) GiveUpControl();
  control_not_before_ = std::max(control_not_before_, now_ + backoff_.Next());
}

void Member::GiveUpControl() {
  if (!control_call_) return;
  control_call_.reset();
  nameless_join_lost_ |= std::exchange(nameless_join_, false);
  Do(GiveUpControlCall{});
}

void Member::Left() {
  const bool drained = std::exchange(draining_, false);
  phase_ = Phase::kOut;
  member_id_.clear();
  generation_ = Generation(-1);
  plan_.reset();
  tasks_.LoseAll();  // what is lost and not let go of yet is waited for if this one joins again
  rejoin_at_.reset();
  has_token_ = false;
  quiet_ = true;
  Complain(absl::OkStatus());
  Do(TellLeft{drained});
}

void Member::Complain(const absl::Status& problem) {
  const std::string text = problem.ok() ? "" : problem.ToString();
  if (std::exchange(problem_, text) == text) return;
  Do(TellProblem{problem});
}

// ---------------------------------------------------------------- what is due

void Member::Advance() {
  if (phase_ == Phase::kStable && draining_ && published_draining_ && tasks_.empty()) StartLeaving();
  if (phase_ == Phase::kStable && rejoin_at_ && now_ >= *rejoin_at_) StartRebalance();
  AdvanceControl();
  AdvanceHeartbeat();
}

void Member::AdvanceControl() {
  if (phase_ == Phase::kOut || phase_ == Phase::kStopped) return;
  // Without an id there is nobody to leave, but for a former process of this name when it is drained.
  const bool former = draining_ && !ever_joined_ && !options_.instance_id.empty();
  if (phase_ == Phase::kLeaving && ((member_id_.empty() && !former) || now_ >= leave_by_)) {
    GiveUpControl();
    return Left();
  }
  if (control_call_ || now_ < control_not_before_) return;
  if (!coordinator_) return SendFind();
  switch (phase_) {
    case Phase::kJoining:
      return SendJoin();
    case Phase::kPlanning:
      if (!plan_is_current_) return;
      control_call_ = ++last_call_;
      return Do(EndVanished{*control_call_, plan_->vanished, Grace() / 4});  // the members wait
    case Phase::kSyncing:
      return SendSync();
    case Phase::kLeaving:
      return SendLeave();
    default:
      return;
  }
}

bool Member::Beats() const {
  return phase_ != Phase::kOut && phase_ != Phase::kStopped && phase_ != Phase::kLeaving && coordinator_.has_value() &&
         !member_id_.empty() && generation_.value() >= 0;
}

void Member::AdvanceHeartbeat() {
  if (!Beats() || heartbeat_call_ || now_ < next_heartbeat_) return;
  if (options_.alive && !options_.alive()) {
    next_heartbeat_ = now_ + options_.heartbeat_interval;
    return;
  }
  wire::HeartbeatRequest request;
  request.group = options_.group;
  request.generation = generation_.value();
  request.member_id = member_id_;
  request.instance_id = options_.instance_id;
  heartbeat_member_id_ = member_id_;
  heartbeat_generation_ = generation_;
  heartbeat_sent_ = now_;
  heartbeat_call_ = ++last_call_;
  // Three attempts fit into the session.
  const absl::Duration timeout = std::min(options_.session_timeout / 3, absl::Seconds(10));
  Do(CallBroker{*heartbeat_call_, Lane::kHeartbeat, coordinator_, std::move(request), timeout});
}

void Member::Send(CallRequest request, std::optional<BrokerAddress> to, absl::Duration timeout) {
  control_call_ = ++last_call_;
  Do(CallBroker{*control_call_, Lane::kControl, std::move(to), std::move(request), timeout});
}

void Member::SendFind() {
  wire::FindCoordinatorRequest request;
  request.key = options_.group;
  Send(std::move(request), std::nullopt, kFindTimeout);
}

void Member::SendJoin() {
  MS_CHECK(quiet_);
  wire::JoinGroupRequest request;
  request.group = options_.group;
  request.session_timeout_ms = static_cast<int32_t>(absl::ToInt64Milliseconds(options_.session_timeout));
  request.rebalance_timeout_ms = static_cast<int32_t>(absl::ToInt64Milliseconds(options_.rebalance_timeout));
  request.member_id = member_id_;
  request.instance_id = options_.instance_id;
  request.protocol_type = std::string(wire::kConsumerProtocolType);
  request.protocols.push_back({kProtocolName, EncodeSubscription(OwnData(), options_.topics, members_)});
  tasks_.Published();
  published_draining_ = draining_;
  nameless_join_ = member_id_.empty() && !options_.instance_id.empty();
  Send(std::move(request), coordinator_, options_.rebalance_timeout + kJoinMargin);
}

MemberData Member::OwnData() {
  MemberData data = options_.data;
  data.draining = draining_;
  data.owned = tasks_.Owned();
  data.roster = roster_;
  data.nonce = ++joins_;
  if (options_.positions) data.positions = options_.positions();
  return data;
}

void Member::SendSync() {
  wire::SyncGroupRequest request;
  request.group = options_.group;
  request.generation = generation_.value();
  request.member_id = member_id_;
  request.instance_id = options_.instance_id;
  request.assignments = assignments_;
  Send(std::move(request), coordinator_, options_.rebalance_timeout + kJoinMargin);
}

void Member::SendLeave() {
  wire::LeaveGroupRequest request;
  request.group = options_.group;
  request.members.push_back({member_id_, options_.instance_id});
  Send(std::move(request), coordinator_, std::max(leave_by_ - now_, absl::Milliseconds(1)));
}

}  // namespace millstream::group
