// One member, step by step: every answer of the coordinator and what comes of it. Whole groups are in
// member_simulation_test.cc.
#include "sidecar/group/member.h"

#include <map>
#include <typeindex>

#include "common/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sidecar/group/plan/group_protocol.h"

namespace millstream::group {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using wire::ErrorCode;

std::vector<TaskId> Tasks(std::initializer_list<int> numbers) {
  std::vector<TaskId> tasks;
  for (const int number : numbers) tasks.push_back(TaskId(number));
  return tasks;
}

MemberOptions Options(const std::string& instance = "") {
  MemberOptions options;
  options.group = "g";
  options.instance_id = instance;
  options.topics = {"in"};
  options.data.tasks = 4;
  options.data.transactional_ids = {"g-me-0-a", "g-me-0-b"};
  options.session_timeout = absl::Seconds(45);
  options.heartbeat_interval = absl::Milliseconds(500);
  options.rebalance_timeout = absl::Seconds(60);
  return options;
}

class Script {
 public:
  explicit Script(MemberOptions options = Options()) : member_(std::move(options)) {}

  void Do(MemberEvent event) { member_.Step(now_, std::move(event), &actions_); }
  void Pass(absl::Duration time) {
    now_ += time;
    Do(TimePassed{});
  }
  // Time passes until the member calls for `Request` on either lane; whatever comes before it stays where it is.
  template <typename Request>
  Request Call(absl::Duration within = absl::Seconds(30)) {
    const absl::Duration end = now_ + within;
    while (true) {
      for (auto action = actions_.begin(); action != actions_.end(); ++action) {
        const auto* call = std::get_if<CallBroker>(&*action);
        if (call == nullptr || !std::holds_alternative<Request>(call->request)) continue;
        const CallBroker found = *call;
        actions_.erase(action);
        open_[std::type_index(typeid(Request))] = found.call;
        return std::get<Request>(found.request);
      }
      const auto next = member_.NextDeadline();
      if (!next || *next > end) {
        ADD_FAILURE() << "no " << Request::kName;
        return Request();
      }
      now_ = std::max(now_, *next);
      Do(TimePassed{});
    }
  }
  template <typename Request>
  void Answer(typename Request::Response response) {
    Do(CallDone{open_.at(std::type_index(typeid(Request))), CallResponse(std::move(response))});
  }
  template <typename Request>
  void Fail(absl::Status status) {
    Do(CallDone{open_.at(std::type_index(typeid(Request))), std::move(status)});
  }
  template <typename Request>
  void Refuse(ErrorCode error) {
    Call<Request>();
    typename Request::Response response;
    response.error = error;
    Answer<Request>(response);
  }
  // The first action of that kind, taken out.
  template <typename Action>
  std::optional<Action> Take() {
    for (auto action = actions_.begin(); action != actions_.end(); ++action) {
      if (!std::holds_alternative<Action>(*action)) continue;
      Action found = std::get<Action>(*action);
      actions_.erase(action);
      return found;
    }
    return std::nullopt;
  }

  void Find() {
    Call<wire::FindCoordinatorRequest>();
    wire::FindCoordinatorResponse found;
    found.host = "broker";
    found.port = 9092;
    Answer<wire::FindCoordinatorRequest>(found);
  }
  // JoinGroup as a follower of `leader`.
  wire::JoinGroupRequest Join(int generation, const std::string& leader = "other", const std::string& id = "me-1") {
    auto request = Call<wire::JoinGroupRequest>();
    wire::JoinGroupResponse joined;
    joined.generation = generation;
    joined.leader = leader;
    joined.member_id = id;
    Answer<wire::JoinGroupRequest>(joined);
    return request;
  }
  void Sync(const std::vector<TaskId>& tasks, const std::vector<TaskId>& give_up = {}) {
    Call<wire::SyncGroupRequest>();
    AssignmentData data;
    data.active = tasks;
    data.give_up = give_up;
    data.members = 2;
    wire::SyncGroupResponse synced;
    synced.assignment = EncodeAssignment(data, {"in"});
    Answer<wire::SyncGroupRequest>(synced);
  }
  void Stable(int generation, const std::vector<TaskId>& tasks) {
    Do(JoinOrdered{});
    Find();
    Join(generation);
    Sync(tasks);
    ASSERT_EQ(Take<TellToken>()->token.generation, Generation(generation));
    EXPECT_EQ(Take<TellAssigned>()->tasks, tasks);
  }
  const std::vector<MemberAction>& actions() const { return actions_; }

 private:
  Member member_;
  absl::Duration now_ = absl::Hours(1);
  std::vector<MemberAction> actions_;
  std::map<std::type_index, CallId> open_;
};

MemberData Said(const wire::JoinGroupRequest& request) { return *ReadSubscription(request.protocols.at(0).metadata); }

TEST(MemberTest, ItJoinsUnderTheIdItIsGiven) {
  Script script;
  script.Do(JoinOrdered{});
  script.Find();
  EXPECT_EQ(script.Call<wire::JoinGroupRequest>().member_id, "");
  wire::JoinGroupResponse required;
  required.error = ErrorCode::kMemberIdRequired;
  required.member_id = "me-1";
  script.Answer<wire::JoinGroupRequest>(required);
  EXPECT_EQ(script.Join(1).member_id, "me-1");
  script.Sync(Tasks({0, 1}));
  const auto token = script.Take<TellToken>();
  EXPECT_EQ(token->token,
            (log::GroupToken{.group = "g", .member_id = "me-1", .instance_id = "", .generation = Generation(1)}));
  EXPECT_EQ(token->members, 2);
  EXPECT_EQ(script.Take<TellAssigned>()->tasks, Tasks({0, 1}));
  EXPECT_THAT(script.actions(), IsEmpty());
}

TEST(MemberTest, JoinGroupWaitsUntilTheEngineIsQuiet) {
  Script script;
  script.Stable(1, Tasks({0, 1}));
  script.Refuse<wire::HeartbeatRequest>(ErrorCode::kRebalanceInProgress);
  EXPECT_TRUE(script.Take<TellRebalance>().has_value());
  // Heartbeats go on, and tell the same, while the engine finishes.
  script.Refuse<wire::HeartbeatRequest>(ErrorCode::kRebalanceInProgress);
  EXPECT_THAT(script.actions(), IsEmpty());
  script.Do(ReadyReported{});
  const MemberData said = Said(script.Join(2));
  EXPECT_THAT(said.owned, ElementsAre(OwnedTask{TaskId(0), Generation(1)}, OwnedTask{TaskId(1), Generation(1)}));
  // What stays is not touched.
  script.Sync(Tasks({1, 2}), Tasks({0}));
  EXPECT_EQ(script.Take<TellRevoked>()->tasks, Tasks({0}));
  EXPECT_EQ(script.Take<TellAssigned>()->tasks, Tasks({2}));
  EXPECT_FALSE(script.Take<TellRebalance>().has_value());
  // When it is out, others may have it.
  script.Do(ReleaseReported{TaskId(0)});
  EXPECT_TRUE(script.Take<TellRebalance>().has_value());
  script.Do(ReadyReported{});
  EXPECT_THAT(Said(script.Join(3)).owned,
              ElementsAre(OwnedTask{TaskId(1), Generation(2)}, OwnedTask{TaskId(2), Generation(2)}));
}

TEST(MemberTest, TasksGivenUpArePublishedTogetherButNotMuchLater) {
  Script script;
  script.Stable(1, Tasks({0, 1, 2}));
  script.Refuse<wire::HeartbeatRequest>(ErrorCode::kRebalanceInProgress);
  script.Do(ReadyReported{});
  script.Join(2);
  script.Sync({}, Tasks({0, 1, 2}));
  script.Take<TellRebalance>();
  script.Do(ReleaseReported{TaskId(0)});
  EXPECT_FALSE(script.Take<TellRebalance>().has_value());
  script.Pass(absl::Seconds(1));
  EXPECT_TRUE(script.Take<TellRebalance>().has_value());
}

TEST(MemberTest, WhatItIsToGiveUpAndDoesNotHoldItSaysAtOnce) {
  Script script;
  script.Do(JoinOrdered{});
  script.Find();
  script.Join(5);
  script.Sync(Tasks({0}), Tasks({1}));  // of a former self
  EXPECT_TRUE(script.Take<TellRebalance>().has_value());
}

TEST(MemberTest, ExpelledItLosesAllAndComesAgain) {
  for (const ErrorCode error : {ErrorCode::kUnknownMemberId, ErrorCode::kIllegalGeneration}) {
    Script script;
    script.Stable(1, Tasks({0, 1}));
    script.Refuse<wire::HeartbeatRequest>(error);
    EXPECT_TRUE(script.Take<TellLost>().has_value());
    const wire::JoinGroupRequest again = script.Join(2);
    EXPECT_EQ(again.member_id, error == ErrorCode::kUnknownMemberId ? "" : "me-1");
    EXPECT_THAT(Said(again).owned, IsEmpty());
    script.Sync(Tasks({1, 2}));
    EXPECT_EQ(script.Take<TellAssigned>()->tasks, Tasks({2}));  // 1 is still being closed
    script.Do(ReleaseReported{TaskId(0)});
    EXPECT_FALSE(script.Take<TellAssigned>().has_value());
    script.Do(ReleaseReported{TaskId(1)});
    EXPECT_EQ(script.Take<TellAssigned>()->tasks, Tasks({1}));
  }
}

TEST(MemberTest, AnotherUnderItsNameStopsItForGood) {
  Script script(Options("pod-1"));
  script.Stable(1, Tasks({0}));
  script.Refuse<wire::HeartbeatRequest>(ErrorCode::kFencedInstanceId);
  EXPECT_TRUE(script.Take<TellLost>().has_value());
  const auto stopped = script.Take<TellStopped>();
  ASSERT_TRUE(stopped.has_value());
  EXPECT_THAT(std::string(stopped->cause.message()), HasSubstr("DuplicateInstance"));
  script.Do(JoinOrdered{});
  script.Pass(absl::Hours(1));
  EXPECT_THAT(script.actions(), IsEmpty());
}

TEST(MemberTest, ItsOwnLateJoinGroupDoesNotStopIt) {
  Script script(Options("pod-1"));
  script.Do(JoinOrdered{});
  script.Find();
  script.Call<wire::JoinGroupRequest>();
  script.Fail<wire::JoinGroupRequest>(absl::DeadlineExceededError("late"));
  script.Find();
  script.Join(1);
  script.Sync(Tasks({0}));
  // The first one comes to the broker after all, and the name gets a third id.
  script.Refuse<wire::HeartbeatRequest>(ErrorCode::kFencedInstanceId);
  EXPECT_FALSE(script.Take<TellStopped>().has_value());
  EXPECT_EQ(script.Join(1).member_id, "");
  script.Sync(Tasks({0}));
  // But not twice.
  script.Refuse<wire::HeartbeatRequest>(ErrorCode::kFencedInstanceId);
  EXPECT_TRUE(script.Take<TellStopped>().has_value());
}

TEST(MemberTest, AMovedCoordinatorCostsNothing) {
  for (const ErrorCode error : {ErrorCode::kNotCoordinator, ErrorCode::kCoordinatorNotAvailable}) {
    Script script;
    script.Stable(1, Tasks({0}));
    script.Refuse<wire::HeartbeatRequest>(error);
    script.Find();
    const auto heartbeat = script.Call<wire::HeartbeatRequest>();
    EXPECT_EQ(heartbeat.member_id, "me-1");
    EXPECT_EQ(heartbeat.generation, 1);
    EXPECT_THAT(script.actions(), IsEmpty());
  }
}

TEST(MemberTest, ADeadCoordinatorIsNoticedByHeartbeatsAlsoWhileJoining) {
  Script script;
  script.Stable(1, Tasks({0}));
  script.Refuse<wire::HeartbeatRequest>(ErrorCode::kRebalanceInProgress);
  script.Take<TellRebalance>();
  script.Do(ReadyReported{});
  script.Call<wire::JoinGroupRequest>();  // never answered
  for (int i = 0; i < 2; ++i) {
    script.Call<wire::HeartbeatRequest>();
    script.Fail<wire::HeartbeatRequest>(absl::UnavailableError("connection refused"));
  }
  EXPECT_TRUE(script.Take<GiveUpControlCall>().has_value());
  script.Find();
  EXPECT_EQ(script.Join(2).member_id, "me-1");
  script.Sync(Tasks({0}));
  EXPECT_FALSE(script.Take<TellLost>().has_value());
  EXPECT_FALSE(script.Take<TellAssigned>().has_value());
}

TEST(MemberTest, WhileLoadingTheCoordinatorIsAskedAgain) {
  Script script;
  script.Do(JoinOrdered{});
  script.Find();
  script.Refuse<wire::JoinGroupRequest>(ErrorCode::kCoordinatorLoadInProgress);
  script.Join(1);
  script.Refuse<wire::SyncGroupRequest>(ErrorCode::kRebalanceInProgress);
  script.Join(2);
  script.Sync({});
  EXPECT_EQ(script.Take<TellToken>()->token.generation, Generation(2));
}

TEST(MemberTest, WhatAPersonMustMendIsToldOnceAndTriedSlowly) {
  for (const ErrorCode error : {ErrorCode::kGroupAuthorizationFailed, ErrorCode::kInconsistentGroupProtocol,
                                ErrorCode::kInvalidSessionTimeout, ErrorCode::kGroupMaxSizeReached}) {
    Script script;
    script.Do(JoinOrdered{});
    script.Find();
    script.Refuse<wire::JoinGroupRequest>(error);
    EXPECT_THAT(script.Take<TellProblem>()->problem.ToString(), HasSubstr(wire::ErrorName(error)));
    script.Pass(absl::Seconds(4));
    EXPECT_THAT(script.actions(), IsEmpty());
    script.Refuse<wire::JoinGroupRequest>(error);
    EXPECT_FALSE(script.Take<TellProblem>().has_value());
    script.Join(1);
    script.Sync({});
    EXPECT_TRUE(script.Take<TellProblem>()->problem.ok());
  }
}

TEST(MemberTest, NoBrokerIsAProblemAfterAWhile) {
  Script script;
  script.Do(JoinOrdered{});
  const auto refused = absl::UnavailableError("localhost:9092: connecting: Connection refused");
  for (int i = 0; i < 5; ++i) {
    script.Call<wire::FindCoordinatorRequest>();
    script.Fail<wire::FindCoordinatorRequest>(refused);
  }
  EXPECT_THAT(script.actions(), IsEmpty());
  script.Pass(absl::Seconds(11));
  script.Call<wire::FindCoordinatorRequest>();
  script.Fail<wire::FindCoordinatorRequest>(refused);
  EXPECT_THAT(std::string(script.Take<TellProblem>()->problem.message()), HasSubstr("Connection refused"));
}

wire::JoinGroupResponse Leading(int generation, const Roster& roster) {
  MemberData data = Options().data;
  data.roster = roster;
  wire::JoinGroupResponse joined;
  joined.generation = generation;
  joined.leader = joined.member_id = "me-1";
  joined.members.push_back({"me-1", "", EncodeSubscription(data, {"in"}, 1)});
  return joined;
}

TEST(MemberTest, TheLeaderEndsVanishedTransactionsBeforeItSyncs) {
  const Roster roster{.generation = Generation(1), .transactional_ids = {"g-me-0-a", "g-you-0-a"}};
  Script script;
  script.Do(JoinOrdered{});
  script.Find();
  script.Call<wire::JoinGroupRequest>();
  script.Answer<wire::JoinGroupRequest>(Leading(2, roster));
  // First a proof that this generation is the group's: the list may be old by now.
  EXPECT_FALSE(script.Take<EndVanished>().has_value());
  script.Refuse<wire::HeartbeatRequest>(ErrorCode::kNone);
  const auto end = script.Take<EndVanished>();
  ASSERT_TRUE(end.has_value());
  EXPECT_THAT(end->transactional_ids, ElementsAre("g-you-0-a"));
  EXPECT_LE(end->timeout, absl::Seconds(15));
  script.Pass(absl::Seconds(1));
  script.Do(TransactionsEnded{end->call, {}});
  const auto sync = script.Call<wire::SyncGroupRequest>();
  ASSERT_EQ(sync.assignments.size(), 1u);
  EXPECT_THAT(ReadAssignment(sync.assignments[0].assignment)->roster.transactional_ids,
              ElementsAre("g-me-0-a", "g-me-0-b"));
}

TEST(MemberTest, ALeaderWhoseGenerationIsOverEndsNobodysTransactions) {
  const Roster roster{.generation = Generation(1), .transactional_ids = {"g-you-0-a"}};
  Script script;
  script.Do(JoinOrdered{});
  script.Find();
  script.Call<wire::JoinGroupRequest>();
  script.Answer<wire::JoinGroupRequest>(Leading(2, roster));
  script.Call<wire::HeartbeatRequest>();
  script.Pass(absl::Seconds(30));  // stopped here: the answer is old
  script.Answer<wire::HeartbeatRequest>({});
  EXPECT_FALSE(script.Take<EndVanished>().has_value());
  script.Refuse<wire::HeartbeatRequest>(ErrorCode::kIllegalGeneration);
  EXPECT_FALSE(script.Take<EndVanished>().has_value());
  script.Call<wire::JoinGroupRequest>();
}

TEST(MemberTest, ADrainThatIsTakenBackIsPublished) {
  Script script;
  script.Stable(1, Tasks({0, 1}));
  script.Do(DrainOrdered{});
  EXPECT_TRUE(script.Take<TellRebalance>().has_value());
  script.Do(ReadyReported{});
  EXPECT_TRUE(Said(script.Join(2)).draining);
  script.Do(JoinOrdered{});  // while SyncGroup is under way
  script.Sync(Tasks({1}));
  EXPECT_EQ(script.Take<TellRevoked>()->tasks, Tasks({0}));
  EXPECT_TRUE(script.Take<TellRebalance>().has_value());
  script.Do(ReleaseReported{TaskId(0)});
  script.Do(ReadyReported{});
  EXPECT_FALSE(Said(script.Join(3)).draining);
  script.Sync(Tasks({0, 1}));
  EXPECT_EQ(script.Take<TellAssigned>()->tasks, Tasks({0}));
  EXPECT_FALSE(script.Take<TellLeft>().has_value());
}

TEST(MemberTest, ADrainIsTakenBackBeforeAnybodyHeardOfIt) {
  Script script;
  script.Stable(1, Tasks({0}));
  script.Refuse<wire::HeartbeatRequest>(ErrorCode::kRebalanceInProgress);
  script.Do(DrainOrdered{});
  script.Do(JoinOrdered{});
  script.Do(ReadyReported{});
  EXPECT_FALSE(Said(script.Join(2)).draining);
  script.Sync(Tasks({0}));
  EXPECT_FALSE(script.Take<TellRevoked>().has_value());
}

TEST(MemberTest, WhoIsDrainedFromTheStartTakesItsFormerSelfOutOfTheGroup) {
  Script script(Options("pod-1"));
  script.Do(DrainOrdered{});
  script.Find();
  const auto leave = script.Call<wire::LeaveGroupRequest>();
  EXPECT_EQ(leave.members.at(0).member_id, "");
  EXPECT_EQ(leave.members.at(0).instance_id, "pod-1");
  wire::LeaveGroupResponse left;
  left.members = {{"", "pod-1", ErrorCode::kUnknownMemberId}};  // there was none
  script.Answer<wire::LeaveGroupRequest>(left);
  EXPECT_TRUE(script.Take<TellLeft>()->drained);
}

TEST(MemberTest, WithoutANameThereIsNobodyToTakeOut) {
  Script script;
  script.Do(DrainOrdered{});
  EXPECT_TRUE(script.Take<TellLeft>()->drained);
}

TEST(MemberTest, AHangingEngineSendsNoHeartbeat) {
  bool alive = true;
  MemberOptions options = Options();
  options.alive = [&alive] { return alive; };
  Script script(options);
  script.Stable(1, Tasks({0}));
  script.Refuse<wire::HeartbeatRequest>(ErrorCode::kNone);
  alive = false;
  for (int i = 0; i < 10; ++i) script.Pass(absl::Milliseconds(500));
  EXPECT_THAT(script.actions(), IsEmpty());
  alive = true;
  script.Refuse<wire::HeartbeatRequest>(ErrorCode::kUnknownMemberId);
  EXPECT_TRUE(script.Take<TellLost>().has_value());
}

TEST(MemberTest, TheRestartedLeaderJoinsOnceMore) {
  const std::string former = "pod-1-01234567-89ab-cdef-0123-456789abcdef";
  Script script(Options("pod-1"));
  script.Do(JoinOrdered{});
  script.Find();
  script.Join(4, former, "pod-1-me");
  script.Sync(Tasks({0, 1}));
  EXPECT_EQ(script.Take<TellAssigned>()->tasks, Tasks({0, 1}));
  EXPECT_TRUE(script.Take<TellRebalance>().has_value());
  script.Do(ReadyReported{});
  EXPECT_EQ(script.Join(5, "pod-1-me", "pod-1-me").member_id, "pod-1-me");
  script.Sync(Tasks({0, 1}));
  EXPECT_FALSE(script.Take<TellRebalance>().has_value());
  EXPECT_FALSE(script.Take<TellAssigned>().has_value());
}

TEST(MemberTest, LeavingGivesUpWhatIsUnderWayAndEndsInTime) {
  Script script(Options("pod-1"));
  script.Stable(1, Tasks({0}));
  script.Refuse<wire::HeartbeatRequest>(ErrorCode::kRebalanceInProgress);
  script.Do(ReadyReported{});
  script.Call<wire::JoinGroupRequest>();
  script.Do(ReleaseReported{TaskId(0)});
  script.Do(LeaveOrdered{});
  EXPECT_TRUE(script.Take<GiveUpControlCall>().has_value());
  const auto leave = script.Call<wire::LeaveGroupRequest>();
  EXPECT_EQ(leave.members.at(0).member_id, "me-1");
  EXPECT_EQ(leave.members.at(0).instance_id, "pod-1");  // so that it takes effect at once
  script.Pass(absl::Seconds(5));                        // no answer
  EXPECT_FALSE(script.Take<TellLeft>()->drained);
  script.Do(JoinOrdered{});
  script.Call<wire::JoinGroupRequest>();
}

}  // namespace
}  // namespace millstream::group
