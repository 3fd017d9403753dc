#include "sidecar/group/local_membership.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millstream::group {
namespace {

using ::testing::ElementsAre;

struct Recorder : MembershipEvents {
  std::vector<std::string> seen;
  log::GroupToken token;
  void OnToken(const log::GroupToken& given, int members) override {
    token = given;
    seen.push_back("token of " + std::to_string(members));
  }
  void OnAssigned(const std::vector<TaskId>& tasks) override {
    seen.push_back("assigned " + std::to_string(tasks.size()));
  }
  void OnRevoked(const std::vector<TaskId>&) override { seen.push_back("revoked"); }
  void OnRebalance() override { seen.push_back("rebalance"); }
  void OnLost(const absl::Status&) override { seen.push_back("lost"); }
  void OnDrained() override { seen.push_back("drained"); }
};

TEST(LocalMembershipTest, TokenComesBeforeTheTasksAndLeavingGivesItBackOnce) {
  Recorder recorder;
  std::vector<log::GroupToken> left;
  const log::GroupToken token{.group = "g", .member_id = "m", .instance_id = "", .generation = Generation(7)};
  auto membership = NewLocalMembership({.tasks = {TaskId(0), TaskId(1), TaskId(2), TaskId(5)},
                                        .join = [&] { return token; },
                                        .leave = [&](const log::GroupToken& t) { left.push_back(t); }},
                                       &recorder);
  ASSERT_TRUE(membership->Join().ok());
  EXPECT_THAT(recorder.seen, ElementsAre("token of 1", "assigned 4"));
  EXPECT_EQ(recorder.token, token);
  membership->Leave();
  membership->Leave();
  EXPECT_THAT(left, ElementsAre(token));
}

TEST(LocalMembershipTest, DrainingLeavesWhenTheLastTaskIsReleased) {
  Recorder recorder;
  int left = 0;
  auto membership = NewLocalMembership({.tasks = {TaskId(0), TaskId(1)},
                                        .join = [] { return log::GroupToken(); },
                                        .leave = [&](const log::GroupToken&) { ++left; }},
                                       &recorder);
  ASSERT_TRUE(membership->Join().ok());
  membership->Drain();
  membership->TaskReleased(TaskId(1));
  EXPECT_EQ(left, 0);
  membership->TaskReleased(TaskId(0));
  EXPECT_EQ(left, 1);
  EXPECT_THAT(recorder.seen, ElementsAre("token of 1", "assigned 2", "revoked", "drained"));
}

TEST(LocalMembershipTest, ADrainThatIsTakenBackAssignsEverythingAgain) {
  Recorder recorder;
  int left = 0;
  auto membership = NewLocalMembership({.tasks = {TaskId(0), TaskId(1)},
                                        .join = [] { return log::GroupToken(); },
                                        .leave = [&](const log::GroupToken&) { ++left; }},
                                       &recorder);
  ASSERT_TRUE(membership->Join().ok());
  membership->Drain();
  membership->TaskReleased(TaskId(1));
  ASSERT_TRUE(membership->Join().ok());
  membership->TaskReleased(TaskId(0));  // of the drain: it is opened again after that
  EXPECT_THAT(recorder.seen, ElementsAre("token of 1", "assigned 2", "revoked", "assigned 2"));
  membership->Drain();
  membership->TaskReleased(TaskId(0));
  EXPECT_EQ(left, 0);
  membership->TaskReleased(TaskId(1));
  EXPECT_EQ(left, 1);
  EXPECT_EQ(recorder.seen.back(), "drained");
  ASSERT_TRUE(membership->Join().ok());
  EXPECT_EQ(recorder.seen.back(), "assigned 2");
}

TEST(LocalMembershipTest, WhoNeverJoinedIsDrainedAtOnce) {
  Recorder recorder;
  auto membership = NewLocalMembership(
      {.tasks = {TaskId(0)}, .join = [] { return log::GroupToken(); }, .leave = [](const log::GroupToken&) { FAIL(); }},
      &recorder);
  membership->Drain();
  EXPECT_THAT(recorder.seen, ElementsAre("drained"));
}

TEST(LocalMembershipTest, AFailedJoinAssignsNothing) {
  Recorder recorder;
  auto membership = NewLocalMembership({.tasks = {TaskId(0)},
                                        .join = [] { return absl::UnavailableError("no log"); },
                                        .leave = [](const log::GroupToken&) { FAIL(); }},
                                       &recorder);
  EXPECT_TRUE(absl::IsUnavailable(membership->Join()));
  EXPECT_TRUE(recorder.seen.empty());
  membership->Leave();
}

}  // namespace
}  // namespace millstream::group
