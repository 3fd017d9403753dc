#include "sidecar/host/task_owners.h"

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"

namespace millstream::host {
namespace {

class TaskOwnersTest : public testing::Test {
 protected:
  std::string WhereIs(int task) {
    std::string found;
    absl::Notification done;
    owners_.Find(TaskId(task), [&](const std::string& where) {
      found = where;
      done.Notify();
    });
    done.WaitForNotification();
    return found;
  }

  absl::StatusOr<std::vector<TaskOwners::Member>> answer_ = std::vector<TaskOwners::Member>();
  int asked_ = 0;
  FakeClock clock_;
  TaskOwners owners_{[this] {
                       ++asked_;
                       return answer_;
                     },
                     &clock_};
};

TEST_F(TaskOwnersTest, NamesTheMember) {
  answer_ = std::vector<TaskOwners::Member>{{"member m-1 at 10.0.0.1:8080", {TaskId(0), TaskId(2)}},
                                            {"member m-2 at 10.0.0.2:8080", {TaskId(1)}}};
  EXPECT_EQ(WhereIs(2), "member m-1 at 10.0.0.1:8080");
  EXPECT_EQ(WhereIs(1), "member m-2 at 10.0.0.2:8080");
  EXPECT_EQ(WhereIs(3), "");
  EXPECT_EQ(asked_, 1);
}

TEST_F(TaskOwnersTest, AsksAgainAfterASecond) {
  EXPECT_EQ(WhereIs(0), "");
  answer_ = std::vector<TaskOwners::Member>{{"member m at h:1", {TaskId(0)}}};
  EXPECT_EQ(WhereIs(0), "");
  clock_.Advance(absl::Seconds(2));
  EXPECT_EQ(WhereIs(0), "member m at h:1");
}

TEST_F(TaskOwnersTest, WhatCannotBeFoundOutIsUnknown) {
  answer_ = absl::UnavailableError("no broker");
  EXPECT_EQ(WhereIs(0), "");
  owners_.Stop();
  EXPECT_EQ(WhereIs(0), "");
}

}  // namespace
}  // namespace millstream::host
