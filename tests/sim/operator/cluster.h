#ifndef MILLSTREAM_TESTS_SIM_OPERATOR_CLUSTER_H_
#define MILLSTREAM_TESTS_SIM_OPERATOR_CLUSTER_H_

#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "operator/kube/client.h"
#include "operator/kube/testing/fake_api_server.h"
#include "operator/model/sidecar_report.h"

namespace millstream::sim {

using kube::Json;

// A Kubernetes cluster without nodes: an API server in memory, and everything else that acts on it but operators and
// people. Plays the controllers of StatefulSets, Jobs, owners and namespaces, the kubelets, the sidecars in the pods
// and the Kafka behind them, as far as an operator can tell. Nothing happens but in Step; all chance is from `random`.
class Cluster {
 public:
  Cluster(FakeClock* clock, std::mt19937_64* random);

  kube::FakeApiServer& api() { return api_; }
  kube::StoredObjects All(const kube::Resource& resource) const { return api_.All(resource); }
  kube::Client& admin() { return admin_; }  // a client without faults, for controllers and people

  // One look of every controller and kubelet. When the next is worth it.
  absl::Duration Step();

  // Whether a budget forbids the eviction of that pod now.
  bool ForbidsEviction(const kube::ObjectKey& pod);

  void TerminateNamespace(const std::string& name) { terminating_.insert(name); }
  bool IsTerminating(const std::string& name_space) const { return terminating_.contains(name_space); }

  // What the sidecar of the pod of that uid says; nullopt: it does not answer.
  std::optional<model::SidecarReport> ReportOf(const std::string& pod_uid);

  bool kafka_up = true;      // else topics cannot be checked
  bool accidents = false;    // pods crash and fail, sidecars fall silent
  bool numbers_move = true;  // lag goes up and down
  int accidents_so_far() const { return accidents_so_far_; }

  // Whether a Job of that name of the processor of that uid has ended well.
  bool HasSaidYes(const std::string& processor_uid, const std::string& job) const {
    return said_yes_.contains({processor_uid, job});
  }

  // How many tasks every processor has.
  static constexpr int kTasks = 6;

 private:
  // What a kubelet knows of a pod beyond its object, by uid.
  struct Life {
    absl::Duration starts, ready, gone = absl::InfiniteDuration();
    bool running = false;
    bool has_worker = true;
    absl::Duration broken_until = -absl::InfiniteDuration();
    std::string orders;       // as the sidecar has read them
    std::string orders_seen;  // as they are written
    absl::Duration orders_due = absl::InfiniteDuration();
    absl::Duration drained = absl::InfiniteDuration();  // when it is, infinite: it is not told to
    kube::ObjectKey key;
    std::string set_uid;
  };

  int64_t Chance(int64_t bound) { return static_cast<int64_t>((*random_)() % static_cast<uint64_t>(bound)); }
  absl::Duration Between(double low, double high);
  void Due(absl::Duration when);

  void StepNamespaces();
  void StepGarbage();
  void StepSets();
  void StepSet(const Json& set);
  void MakePod(const Json& set, int ordinal);
  void StepJobs();
  void StepJob(const Json& job);
  void FinishJob(const Json& job, const Json& pod);
  void StepPods();
  void StepClaims();
  void StepMember(const Json& pod, Life* life);
  void WritePodStatus(const kube::ObjectKey& pod, const Life& life, bool ready);
  void StepSidecar(const Json& pod, Life* life);
  std::string ManifestFor(const Json& job) const;  // in its ConfigMap; empty: there is none
  Json VerdictFor(const Json& job, int* exit_code);
  std::vector<const Life*> MembersOf(const std::string& set_uid) const;
  std::string Now() const;

  FakeClock* const clock_;
  std::mt19937_64* const random_;
  kube::FakeApiServer api_;
  kube::Client admin_;
  std::map<std::string, Life> lives_;
  std::set<std::string> terminating_;
  std::set<std::pair<std::string, std::string>> said_yes_;  // (uid of the processor, Job)
  absl::Duration next_ = absl::ZeroDuration();              // when something is due, while stepping
  int64_t lag_ = 1000;
  int accidents_so_far_ = 0;
};

// Every kind that children of processors are of.
const std::vector<kube::Resource>& ChildKinds();

}  // namespace millstream::sim

#endif  // MILLSTREAM_TESTS_SIM_OPERATOR_CLUSTER_H_
