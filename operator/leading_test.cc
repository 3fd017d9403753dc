#include "operator/leading.h"

#include <atomic>
#include <thread>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "gtest/gtest.h"
#include "operator/kube/testing/fake_api_server.h"

namespace millstream::program {
namespace {

// Two operators and one API server that can be away for each of them.
class Candidate {
 public:
  Candidate(const std::string& name, kube::FakeApiServer* server, const Clock* clock)
      : client_(server->Connect([this](const kube::HttpCall&) { return Fault(); }), kube::ClientOptions()),
        store_(kube::NewApiLeaseStore(&client_, {"millstream-system", "millstream-operator"})),
        election_({.identity = name}, store_.get(), clock),
        leading_(&election_, {[this] { Begin(); }, [this] { End(); }}, clock) {}

  Leading& leading() { return leading_; }
  runtime::LeaderElection& election() { return election_; }
  bool away = false;
  int begun = 0, ended = 0;

 private:
  std::optional<kube::FakeApiServer::Fault> Fault() const {
    if (!away) return std::nullopt;
    return kube::FakeApiServer::Fault{kube::FakeApiServer::Fault::Kind::kNoConnection, 0, 0, ""};
  }
  void Begin() {
    ++begun;
    EXPECT_TRUE(election_.leads());
  }
  void End() {
    ++ended;
    EXPECT_EQ(begun, ended);
  }

  kube::Client client_;
  std::unique_ptr<kube::LeaseStore> store_;
  runtime::LeaderElection election_;
  Leading leading_;
};

class LeadingTest : public ::testing::Test {
 protected:
  // Both step every two seconds, or sooner where one wants to.
  void Pass(absl::Duration time) {
    const absl::Duration end = clock_.Monotonic() + time;
    while (clock_.Monotonic() < end) {
      const absl::Duration wait_a = a_.leading().Step();
      const absl::Duration wait = std::min(wait_a, b_.leading().Step());
      EXPECT_FALSE(a_.leading().working() && b_.leading().working());
      clock_.Advance(std::max(wait, absl::Milliseconds(1)));
    }
  }
  kube::FakeApiServer server_;
  FakeClock clock_;
  Candidate a_{"a", &server_, &clock_};
  Candidate b_{"b", &server_, &clock_};
};

TEST_F(LeadingTest, OneWorks) {
  Pass(absl::Seconds(60));
  EXPECT_TRUE(a_.leading().working());
  EXPECT_EQ(a_.begun, 1);
  EXPECT_EQ(b_.begun, 0);
}

TEST_F(LeadingTest, TheOtherTakesOverAndTheFirstWorksOnLater) {
  Pass(absl::Seconds(10));
  a_.away = true;
  Pass(absl::Seconds(11));
  EXPECT_FALSE(a_.leading().working());
  Pass(absl::Seconds(10));
  EXPECT_TRUE(b_.leading().working());
  a_.away = false;
  b_.away = true;
  Pass(absl::Seconds(30));
  EXPECT_TRUE(a_.leading().working());
  EXPECT_EQ(a_.begun, 2);
  EXPECT_EQ(a_.ended, 1);
}

TEST_F(LeadingTest, AnApiServerThatIsAwayForTenMinutesEndsNoProcess) {
  Pass(absl::Seconds(10));
  a_.away = b_.away = true;
  Pass(absl::Minutes(10));
  EXPECT_FALSE(a_.leading().working() || b_.leading().working());
  EXPECT_LE(a_.leading().since_step(), absl::Seconds(10));
  a_.away = b_.away = false;
  Pass(absl::Seconds(20));
  EXPECT_TRUE(a_.leading().working() || b_.leading().working());
}

TEST_F(LeadingTest, WorkEndsWhenTheAllowanceDoes) {
  Pass(absl::Seconds(10));
  a_.away = true;
  // However rarely it would try again: never beyond what is allowed.
  while (a_.leading().working()) {
    const absl::Duration wait = a_.leading().Step();
    if (!a_.leading().working()) break;
    EXPECT_LE(wait, a_.election().Allowance());
    clock_.Advance(wait);
  }
  EXPECT_EQ(a_.ended, 1);
}

TEST_F(LeadingTest, RunEndsTheWork) {
  http::Interruption interruption;
  std::thread thread([&] { a_.leading().Run(interruption); });
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (!a_.leading().working() && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_TRUE(a_.leading().working());
  interruption.Interrupt();
  thread.join();
  EXPECT_FALSE(a_.leading().working());
  EXPECT_EQ(a_.ended, 1);
}

}  // namespace
}  // namespace millstream::program
