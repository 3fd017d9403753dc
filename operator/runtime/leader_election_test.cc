#include "operator/runtime/leader_election.h"

#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "common/base/strings.h"
#include "gtest/gtest.h"

namespace millstream::runtime {
namespace {

// One lease as an API server keeps it. Whether it can be reached, and whether answers of writes get lost, is up to the
// test.
class FakeServer {
 public:
  absl::StatusOr<kube::Lease> Read() const {
    if (!lease_) return absl::NotFoundError("no lease");
    return *lease_;
  }
  absl::StatusOr<kube::Lease> Write(const kube::Lease& lease) {
    const std::string current = lease_ ? lease_->resource_version : "";
    if (lease.resource_version != current) return absl::AbortedError("conflict");
    lease_ = lease;
    lease_->resource_version = StrCat(++version_);
    ++writes_;
    return *lease_;
  }
  const std::optional<kube::Lease>& lease() const { return lease_; }
  int writes() const { return writes_; }

 private:
  std::optional<kube::Lease> lease_;
  int version_ = 0;
  int writes_ = 0;
};

class FakeStore : public kube::LeaseStore {
 public:
  explicit FakeStore(FakeServer* server) : server_(server) {}
  absl::StatusOr<kube::Lease> Read() override {
    if (down) return absl::UnavailableError("down");
    return server_->Read();
  }
  absl::StatusOr<kube::Lease> Write(const kube::Lease& lease) override {
    if (down) return absl::UnavailableError("down");
    absl::StatusOr<kube::Lease> written = server_->Write(lease);
    if (lose_answers) return absl::UnavailableError("the answer is lost");
    return written;
  }
  bool down = false;
  bool lose_answers = false;

 private:
  FakeServer* const server_;
};

struct Candidate {
  Candidate(const std::string& name, FakeServer* server, const Clock* clock)
      : store(server),
        election({.identity = name,
                  .lease_duration = absl::Seconds(15),
                  .renew_deadline = absl::Seconds(10),
                  .retry_period = absl::Seconds(2)},
                 &store, clock) {}
  FakeStore store;
  LeaderElection election;
};

class LeaderElectionTest : public ::testing::Test {
 protected:
  FakeClock clock_;
  FakeServer server_;
  Candidate a_{"a", &server_, &clock_};
  Candidate b_{"b", &server_, &clock_};
};

TEST_F(LeaderElectionTest, TheFirstLeadsAndKeepsLeading) {
  EXPECT_FALSE(a_.election.leads());
  EXPECT_EQ(a_.election.Step(), absl::Seconds(2));
  EXPECT_TRUE(a_.election.leads());
  EXPECT_EQ(a_.election.Allowance(), absl::Seconds(10));
  for (int i = 0; i < 100; ++i) {
    clock_.Advance(absl::Seconds(2));
    a_.election.Step();
    b_.election.Step();
    ASSERT_TRUE(a_.election.leads());
    ASSERT_FALSE(b_.election.leads());
  }
  EXPECT_EQ(a_.election.term(), 1);
  EXPECT_EQ(b_.election.holder(), "a");
  EXPECT_EQ(server_.lease()->transitions, 1);
}

TEST_F(LeaderElectionTest, ALeaderThatCannotRenewStopsBeforeAnotherBegins) {
  a_.election.Step();
  b_.election.Step();
  a_.store.down = true;
  bool gap = false;
  for (int i = 0; i < 20 && !b_.election.leads(); ++i) {
    clock_.Advance(absl::Seconds(1));
    a_.election.Step();
    b_.election.Step();
    EXPECT_FALSE(a_.election.leads() && b_.election.leads());
    gap = gap || (!a_.election.leads() && !b_.election.leads());
  }
  EXPECT_TRUE(b_.election.leads());
  EXPECT_TRUE(gap);
  // It comes back and finds somebody else.
  a_.store.down = false;
  a_.election.Step();
  EXPECT_FALSE(a_.election.leads());
  EXPECT_EQ(a_.election.holder(), "b");
}

TEST_F(LeaderElectionTest, AReleasedLeaseIsTakenAtOnce) {
  a_.election.Step();
  b_.election.Step();
  EXPECT_TRUE(a_.election.Release().ok());
  EXPECT_FALSE(a_.election.leads());
  b_.election.Step();
  EXPECT_TRUE(b_.election.leads());
  // Releasing what is not held does not hurt the other.
  EXPECT_TRUE(a_.election.Release().ok());
  EXPECT_EQ(server_.lease()->holder, "b");
}

TEST_F(LeaderElectionTest, ARenewalWhoseAnswerIsLostDoesNotProlong) {
  a_.election.Step();
  a_.store.lose_answers = true;
  for (int i = 0; i < 5; ++i) {
    clock_.Advance(absl::Seconds(2));
    a_.election.Step();
  }
  EXPECT_FALSE(a_.election.leads());
  // The lease still has its name: it takes it back, as a new term.
  a_.store.lose_answers = false;
  a_.election.Step();
  EXPECT_TRUE(a_.election.leads());
  EXPECT_EQ(a_.election.term(), 2);
}

TEST_F(LeaderElectionTest, CalendarsDoNotMatter) {
  a_.election.Step();
  b_.election.Step();
  // b's calendar (the same clock here) jumps a year ahead: the lease looks expired, and is not.
  clock_.SetWallTime(clock_.WallTime() + absl::Hours(24 * 365));
  b_.election.Step();
  EXPECT_FALSE(b_.election.leads());
}

TEST(LeaderElectionSimulationTest, NeverTwoLeaders) {
  const uint64_t first_seed = std::random_device()();
  for (uint64_t seed = first_seed; seed < first_seed + 200; ++seed) {
    SCOPED_TRACE(StrCat("seed ", seed));
    std::mt19937_64 random(seed);
    FakeClock clock;
    FakeServer server;
    std::vector<std::unique_ptr<Candidate>> all;
    for (const char* name : {"a", "b", "c"}) all.push_back(std::make_unique<Candidate>(name, &server, &clock));
    for (int step = 0; step < 500; ++step) {
      Candidate& one = *all[random() % all.size()];
      switch (random() % 12) {
        case 0:
          one.store.down = !one.store.down;
          break;
        case 1:
          one.store.lose_answers = !one.store.lose_answers;
          break;
        case 2:
          if (random() % 8 == 0) (void)one.election.Release();
          break;
        default:
          one.election.Step();
      }
      clock.Advance(absl::Milliseconds(random() % 1500));
      int leaders = 0;
      for (const auto& candidate : all) leaders += candidate->election.leads() ? 1 : 0;
      ASSERT_LE(leaders, 1);
    }
    // When all is well again, one leads.
    for (const auto& candidate : all) candidate->store.down = candidate->store.lose_answers = false;
    for (int round = 0; round < 10; ++round) {
      clock.Advance(absl::Seconds(2));
      for (const auto& candidate : all) candidate->election.Step();
    }
    int leaders = 0;
    for (const auto& candidate : all) leaders += candidate->election.leads() ? 1 : 0;
    EXPECT_EQ(leaders, 1);
  }
}

}  // namespace
}  // namespace millstream::runtime
