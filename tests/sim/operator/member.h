#ifndef MILLSTREAM_TESTS_SIM_OPERATOR_MEMBER_H_
#define MILLSTREAM_TESTS_SIM_OPERATOR_MEMBER_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "common/base/metrics.h"
#include "operator/leading.h"
#include "operator/reconcile/operator.h"
#include "operator/reconcile/sidecar_reports.h"
#include "tests/sim/operator/cluster.h"
#include "tests/sim/operator/rules.h"
#include "tests/sim/operator/tally.h"

namespace millstream::sim {

// What may go wrong with a call, at this time of a simulation.
struct Weather {
  double faults = 0;      // share of calls that fail somehow
  double slow = 0;        // share of calls that take seconds
  bool api_down = false;  // for everybody
};

// One operator process: client, election, caches, work. Steps where the real one has threads. All pointers outlive it.
class Member {
 public:
  Member(std::string name, Cluster* cluster, FakeClock* clock, std::mt19937_64* random, const Weather* weather,
         Rules* rules, Tally* tally);
  ~Member();

  // A new process in its place.
  void Restart();
  // The process is gone, its lease is not.
  void Crash();
  bool alive() const { return life_ != nullptr; }
  bool leads() const { return alive() && life_->election.leads(); }
  bool working() const { return alive() && life_->leading.working(); }
  void set_partner(Member* partner) { partner_ = partner; }

  // Nothing of it goes on until then, and then everything at once: a machine that is paused.
  void StandStill(absl::Duration until) { stands_still_until_ = until; }

  // Each says how long to wait before its next.
  absl::Duration StepElection();
  absl::Duration StepReflector(size_t reflector);
  absl::Duration StepWork();
  size_t reflectors() const;
  // SIGTERM: work ends, the lease is released.
  void EndInOrder();

  bool partitioned = false;   // from the API server
  bool unauthorized = false;  // its token is no longer taken
  int passes() const { return passes_; }

 private:
  class Reports : public reconcile::SidecarReports {
   public:
    explicit Reports(Cluster* cluster) : cluster_(cluster) {}
    std::map<std::string, model::SidecarReport> Of(const std::vector<Pod>& pods, absl::Duration max_age) override;

   private:
    Cluster* const cluster_;
    std::map<std::string, model::SidecarReport> last_;  // by uid
  };
  // What a process has and loses.
  struct Life {
    Life(const std::string& identity, Member* member);
    std::unique_ptr<MetricsRegistry> metrics = NewMetricsRegistry();
    kube::Client lease_client;
    std::unique_ptr<kube::LeaseStore> lease;
    runtime::LeaderElection election;
    kube::Client client;
    Reports reports;
    reconcile::Operator work;
    program::Leading leading;
    struct Watching {
      const kube::Resource* kind = nullptr;  // nullptr: not known before its first watch
      int64_t seen = -1;                     // version of everything when that was looked at last
      int64_t delivered = 0;                 // version up to which it is known to have told everything
      bool up_to_date = false;               // the last watch was quiet
      absl::Duration stepped = -absl::InfiniteDuration();
    };
    std::vector<Watching> watching;  // by reflector
  };

  std::optional<kube::FakeApiServer::Fault> OnCall(const kube::HttpCall& call);
  std::optional<kube::FakeApiServer::Fault> FaultOf(const kube::HttpCall& call);
  std::optional<kube::FakeApiServer::Fault> AnyFault(const kube::HttpCall& call);
  std::optional<kube::FakeApiServer::Fault> RefusalByCluster(const kube::HttpCall& call);
  // Whether the kind that is watched has changed since the last look.
  bool HasNews(Life::Watching* watching) const;
  // Whether caches lack something that happened up to that version, and whether one now learns of something before
  // another one of what was before it.
  bool LacksNewsUntil(int64_t version) const;
  bool Overtakes(const Life::Watching& watching) const;
  absl::Duration StandsStill() const;  // for how long still; zero: it does not
  void CountFault(const kube::HttpCall& call, const kube::FakeApiServer::Fault& fault);
  bool TakeTime(const kube::HttpCall& call);
  bool Happens(double share);
  int64_t Chance(int64_t bound) { return static_cast<int64_t>((*random_)() % static_cast<uint64_t>(bound)); }

  const std::string name_;
  Cluster* const cluster_;
  FakeClock* const clock_;
  std::mt19937_64* const random_;
  const Weather* const weather_;
  Rules* const rules_;
  Tally* const tally_;
  absl::Duration stands_still_until_;
  Member* partner_ = nullptr;
  bool in_call_ = false;  // a partner's step within a slow call takes no time itself
  bool silent_ = false;   // the call under way gets no answer
  Life::Watching* stepping_ = nullptr;
  int lives_ = 0;
  int passes_ = 0;
  std::unique_ptr<Life> life_;
};

}  // namespace millstream::sim

#endif  // MILLSTREAM_TESTS_SIM_OPERATOR_MEMBER_H_
