#include "sidecar/server/lost_workers.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millstream::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const absl::Status kCutOff = absl::FailedPreconditionError("DeadlineExceeded: batch 7");
const absl::Status kWentAway = absl::UnavailableError("the connection ended without GOODBYE");

class LostWorkersTest : public ::testing::Test {
 protected:
  void Connect(uint64_t id, int64_t pid) {
    ConnectedWorker worker{.id = WorkerId(id), .session = 0, .hello = {}, .pid = pid};
    worker.hello.name = "w";
    lost_.Connected(worker);
  }
  std::vector<int64_t> HangingPids() {
    std::vector<int64_t> pids;
    for (const LostWorker& worker : lost_.Hanging()) pids.push_back(worker.pid);
    return pids;
  }
  void PassGrace() { clock_.Advance(LostWorkers::kGrace); }

  FakeClock clock_;
  std::map<int64_t, uint64_t> processes_ = {{100, 1}, {101, 2}, {102, 3}};  // pid, start
  LostWorkers lost_{&clock_, [this](int64_t pid) {
                      const auto found = processes_.find(pid);
                      return found == processes_.end() ? std::nullopt : std::optional<uint64_t>(found->second);
                    }};
};

TEST_F(LostWorkersTest, CutOffAndAliveAndNotBackHangs) {
  Connect(1, 100);
  Connect(2, 101);
  EXPECT_THAT(HangingPids(), IsEmpty());
  lost_.Disconnected(WorkerId(1), kCutOff, false);
  EXPECT_THAT(HangingPids(), IsEmpty()) << "it may come back at once";
  PassGrace();
  ASSERT_THAT(HangingPids(), ElementsAre(100));
  EXPECT_EQ(lost_.Hanging()[0].name, "w");
  EXPECT_EQ(lost_.Hanging()[0].cause, "DeadlineExceeded: batch 7");
}

TEST_F(LostWorkersTest, ComingBackClearsIt) {
  Connect(1, 100);
  lost_.Disconnected(WorkerId(1), kCutOff, false);
  PassGrace();
  Connect(2, 100);
  PassGrace();
  EXPECT_THAT(HangingPids(), IsEmpty());
}

TEST_F(LostWorkersTest, AnotherProcessConnectingDoesNotClearIt) {
  Connect(1, 100);
  lost_.Disconnected(WorkerId(1), kCutOff, false);
  Connect(2, 101);
  PassGrace();
  EXPECT_THAT(HangingPids(), ElementsAre(100));
}

TEST_F(LostWorkersTest, OneThatEndsDoesNotHang) {
  Connect(1, 100);
  lost_.Disconnected(WorkerId(1), kWentAway, false);
  processes_.erase(100);
  PassGrace();
  EXPECT_THAT(HangingPids(), IsEmpty());
}

TEST_F(LostWorkersTest, AnotherProcessOfThatNumberIsNotTheOne) {
  Connect(1, 100);
  lost_.Disconnected(WorkerId(1), kCutOff, false);
  processes_[100] = 77;
  PassGrace();
  EXPECT_THAT(HangingPids(), IsEmpty());
}

TEST_F(LostWorkersTest, AProcessWithAnotherConnectionIsAlive) {
  Connect(1, 100);
  Connect(2, 100);
  lost_.Disconnected(WorkerId(1), kCutOff, false);
  PassGrace();
  EXPECT_THAT(HangingPids(), IsEmpty());
  lost_.Disconnected(WorkerId(2), kCutOff, false);
  PassGrace();
  EXPECT_THAT(HangingPids(), ElementsAre(100));
}

TEST_F(LostWorkersTest, LeavingInOrderIsNotBeingLost) {
  Connect(1, 100);
  lost_.Disconnected(WorkerId(1), kWentAway, true);
  PassGrace();
  EXPECT_THAT(HangingPids(), IsEmpty());
}

TEST_F(LostWorkersTest, WithoutANumberOnlyThoseCutOffCountAndTheNextConnectionTakesTheirPlace) {
  Connect(1, 0);
  Connect(2, 0);
  lost_.Disconnected(WorkerId(1), kWentAway, false);
  PassGrace();
  EXPECT_THAT(HangingPids(), IsEmpty());
  lost_.Disconnected(WorkerId(2), kCutOff, false);
  PassGrace();
  EXPECT_THAT(HangingPids(), ElementsAre(0));
  Connect(3, 0);
  EXPECT_THAT(HangingPids(), IsEmpty());
}

TEST_F(LostWorkersTest, AThreadOfThisProcessIsNobodysToKill) {
  processes_[getpid()] = 5;
  Connect(1, getpid());
  lost_.Disconnected(WorkerId(1), kCutOff, false);
  PassGrace();
  EXPECT_THAT(HangingPids(), IsEmpty());
}

TEST_F(LostWorkersTest, TheNumberKeptIsBounded) {
  for (uint64_t id = 1; id <= 2 * LostWorkers::kMostLost; ++id) {
    const int64_t pid = static_cast<int64_t>(1000 + id);
    processes_[pid] = id;
    Connect(id, pid);
    lost_.Disconnected(WorkerId(id), kCutOff, false);
  }
  PassGrace();
  ASSERT_EQ(HangingPids().size(), LostWorkers::kMostLost);
  EXPECT_EQ(HangingPids().back(), static_cast<int64_t>(1000 + 2 * LostWorkers::kMostLost))
      << "the oldest are forgotten";
}

TEST(StartOfProcessTest, LivesStoppedOrNotUntilItEnds) {
  const std::optional<uint64_t> mine = LostWorkers::StartOfProcess(getpid());
  ASSERT_TRUE(mine.has_value());
  EXPECT_EQ(LostWorkers::StartOfProcess(getpid()), mine);

  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    raise(SIGSTOP);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  ASSERT_TRUE(WIFSTOPPED(status));
  EXPECT_TRUE(LostWorkers::StartOfProcess(child).has_value());
  ASSERT_EQ(kill(child, SIGKILL), 0);
  siginfo_t info;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(LostWorkers::StartOfProcess(child).has_value()) << "dead, though not reaped";
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_FALSE(LostWorkers::StartOfProcess(child).has_value());
}

}  // namespace
}  // namespace millstream::server
