#ifndef MILLSTREAM_OPERATOR_RECONCILE_TESTING_SMALL_CLUSTER_H_
#define MILLSTREAM_OPERATOR_RECONCILE_TESTING_SMALL_CLUSTER_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/metrics.h"
#include "operator/kube/testing/fake_api_server.h"
#include "operator/reconcile/operator.h"

namespace millstream::reconcile {

// Sidecars that say what a test has them say.
class ScriptedSidecars : public SidecarReports {
 public:
  explicit ScriptedSidecars(const Clock* clock) : clock_(clock) {}
  // The body of GET /v1/tasks, by pod.
  std::map<std::string, Json> answers;

  std::map<std::string, model::SidecarReport> Of(const std::vector<Pod>& pods, absl::Duration max_age) override;

 private:
  const Clock* const clock_;
};

// An operator that is driven step by step on an API server in memory, and a hand that plays the other controllers: Jobs
// end and pods come when a test says so. One thread.
class SmallCluster {
 public:
  explicit SmallCluster(OperatorOptions options = DefaultOptions());

  static OperatorOptions DefaultOptions();
  // Another operator in the place of the one that ran so far: its caches and memory are empty.
  void RestartOperator(OperatorOptions options = DefaultOptions());
  // Answers calls instead of the server, for the operator's connection only.
  std::function<std::optional<kube::FakeApiServer::Fault>(const kube::HttpCall& call)> faults;

  // Whether the namespace is being deleted: nothing new may be made in it.
  bool terminating = false;

  // A processor as kubectl apply makes or changes it: `more` are further fields of its spec, two blanks before each.
  void Apply(const std::string& name, std::string_view more = "", const std::string& name_space = "orders");
  void Edit(const kube::Resource& resource, const std::string& name, const std::function<void(Json* object)>& change);
  void Remove(const kube::Resource& resource, const std::string& name);
  Json Read(const kube::Resource& resource, const std::string& name) const;
  bool Has(const kube::Resource& resource, const std::string& name) const { return !Read(resource, name).is_null(); }
  std::vector<std::string> Names(const kube::Resource& resource) const;

  // The one Job of the processor ends; `verdict` is its pod's last word.
  void EndJob(bool succeeded, const std::string& verdict);
  void EndJobWell() { EndJob(true, R"({"ok":true,"reason":"TopicsReady","message":"3 topics","retry":false})"); }
  // Pods as the StatefulSet's controller makes them, ready or not, and its status.
  void RunPods(const std::string& name, bool ready = true);
  void EditPod(const std::string& pod, const std::function<void(Json* object)>& change) {
    Edit(kube::kPods, pod, change);
  }

  // Steps everything until nothing changes any more at this moment.
  void Settle();
  // The same in pieces of time, so that what waits for its time has it.
  void Pass(absl::Duration time);
  // All writes of everybody so far that changed something.
  int Writes() const;
  // What the operator has asked to be written so far, changes or not.
  int write_calls = 0;

  // Of the processor's status.
  Json Status(const std::string& name) const;
  // "True Reason: message"; empty: there is no such condition.
  std::string Condition(const std::string& name, const std::string& type) const;
  std::vector<std::string> Events() const;  // "Reason: note", in their order

  kube::FakeApiServer server;
  FakeClock clock;
  ScriptedSidecars sidecars{&clock};
  std::unique_ptr<MetricsRegistry> metrics = NewMetricsRegistry();
  std::unique_ptr<kube::Client> client;
  std::unique_ptr<Operator> the_operator;

 private:
  std::string Now() const;
};

}  // namespace millstream::reconcile

#endif  // MILLSTREAM_OPERATOR_RECONCILE_TESTING_SMALL_CLUSTER_H_
