#include "sidecar/host/conditions.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millstream::host {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ConditionsTest : public testing::Test {
 protected:
  ConditionsTest() {
    sources_.engine = &engine_;
    sources_.group = "g";
    sources_.worker_patience = absl::Seconds(60);
    sources_.socket_path = "/w.sock";
  }
  Condition Only() {
    const std::vector<Condition> conditions = ConditionsOf(sources_);
    EXPECT_THAT(conditions, SizeIs(1));
    return conditions.empty() ? Condition{} : conditions[0];
  }

  engine::EngineStatus engine_;
  ConditionSources sources_;
};

TEST_F(ConditionsTest, WellMeansNone) {
  engine_.tasks.push_back(
      {.task = TaskId(0), .state = engine::TaskStatus::State::kRunning, .error = "", .error_at = {}, .inputs = {}});
  sources_.worker_away = absl::Seconds(5);
  EXPECT_THAT(ConditionsOf(sources_), IsEmpty());
}

TEST_F(ConditionsTest, TheReasonOfAStoppedTaskIsInItsError) {
  engine_.tasks.push_back({.task = TaskId(2),
                           .state = engine::TaskStatus::State::kStopped,
                           .error = "OffsetsLost: gone",
                           .error_at = {},
                           .inputs = {}});
  EXPECT_EQ(Only().reason, "OffsetsLost");
  engine_.tasks[0].error = "record in-2 offset 7 failed";
  EXPECT_EQ(Only().reason, "TaskStopped");
  engine_.tasks[0].error = "InputFailed: in-2: PERMISSION_DENIED: no Read";
  EXPECT_EQ(Only().reason, "AccessDenied");
  EXPECT_THAT(Only().message, HasSubstr("task 2 is stopped"));
}

TEST_F(ConditionsTest, OrdersThatCannotBeFollowedAreTold) {
  sources_.orders = absl::InvalidArgumentError("orders in /etc/o: drain is 1, expected true or false");
  EXPECT_EQ(Only().reason, "OrdersUnreadable");
  EXPECT_THAT(Only().message, HasSubstr("drain is 1"));
}

TEST_F(ConditionsTest, ATaskThatCannotBeOpenedIsSaidWhileItIsTried) {
  engine_.tasks.push_back(
      {.task = TaskId(1), .state = engine::TaskStatus::State::kOpening, .error = "", .error_at = {}, .inputs = {}});
  EXPECT_THAT(ConditionsOf(sources_), IsEmpty());
  engine_.tasks[0].error = "task 1 cannot be opened: DEADLINE_EXCEEDED: changelog c-1 stands at offset 4 of 9";
  EXPECT_EQ(Only().reason, "RestoreFailed");
  EXPECT_THAT(Only().message, HasSubstr("offset 4 of 9"));
}

TEST_F(ConditionsTest, AMissingRightIsOneKindOfConditionWhereverItShows) {
  sources_.membership = absl::PermissionDeniedError("no Read");
  EXPECT_EQ(Only().reason, "AccessDenied");
  EXPECT_THAT(Only().message, HasSubstr("group g: no Read"));
  sources_.membership = absl::OkStatus();

  engine_.commits_wait = true;
  engine_.writer_error = absl::PermissionDeniedError("no Write on the transactional id");
  EXPECT_EQ(Only().reason, "AccessDenied");
  engine_.commits_wait = false;

  engine_.aborts_in_a_row = 1;
  engine_.abort_cause = absl::PermissionDeniedError("refused (TOPIC_AUTHORIZATION_FAILED)");
  sources_.writes_to = {"out", "g-s-changelog"};
  EXPECT_EQ(Only().reason, "AccessDenied");
  EXPECT_THAT(Only().message, HasSubstr("it writes to out, g-s-changelog"));
}

TEST_F(ConditionsTest, AFewAbortsAreNoNews) {
  engine_.aborts_in_a_row = 2;
  engine_.abort_cause = absl::UnavailableError("a broker restarts");
  EXPECT_THAT(ConditionsOf(sources_), IsEmpty());
  engine_.aborts_in_a_row = 3;
  EXPECT_EQ(Only().reason, "CommitsFail");
  EXPECT_THAT(Only().message, HasSubstr("the last 3 transactions were aborted: a broker restarts"));
}

TEST_F(ConditionsTest, WritersBeingMadeAreNoNewsUnlessTheyFail) {
  engine_.commits_wait = true;
  EXPECT_THAT(ConditionsOf(sources_), IsEmpty());
  engine_.writer_error = absl::UnavailableError("no coordinator");
  EXPECT_EQ(Only().reason, "CommitsWait");
  sources_.stuck_calls = 2;
  EXPECT_THAT(Only().message, HasSubstr("2 calls on the log did not come back"));
}

TEST_F(ConditionsTest, AWorkerMayBeAwayForAWhile) {
  sources_.worker_away = absl::Seconds(61);
  EXPECT_EQ(Only().reason, "WorkerNotConnected");
  EXPECT_THAT(Only().message, HasSubstr("expected on /w.sock"));
}

}  // namespace
}  // namespace millstream::host
