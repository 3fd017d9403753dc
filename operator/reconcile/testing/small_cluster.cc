#include "operator/reconcile/testing/small_cluster.h"

#include <utility>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/spec/reader.h"
#include "operator/model/testing/sample.h"
#include "operator/reconcile/metrics.h"

namespace millstream::reconcile {
namespace {

constexpr char kNamespace[] = "orders";
// Everything settles within a few rounds; a loop that does not is a bug that a test should see.
constexpr int kMaxRounds = 200;

kube::ObjectKey KeyFor(const std::string& name) { return {kNamespace, name}; }

Json SpecOf(std::string_view more) {
  const std::string text = StrCat("spec:\n", model::kMinimal, model::kWorker, more);
  const spec::ReadResult read = spec::ReadYaml(text);
  MS_CHECK(read.documents.size() == 1);
  return Json::parse(spec::ToCanonicalJson(read.documents.front())).at("spec");
}

// A namespace that is being deleted takes nothing new: as the admission of a real API server answers.
kube::HttpAnswer TerminatingAnswer() {
  const Json cause = {{"reason", "NamespaceTerminating"}, {"message", "namespace orders is being terminated"}};
  Json status = {{"kind", "Status"},
                 {"status", "Failure"},
                 {"code", 403},
                 {"reason", "Forbidden"},
                 {"message", "unable to create new content in namespace orders because it is being terminated"}};
  status["details"]["causes"] = Json::array();
  status["details"]["causes"].push_back(cause);
  return {403, "", status.dump()};
}

class Admission : public kube::Transport {
 public:
  Admission(std::unique_ptr<kube::Transport> server, const bool* terminating)
      : server_(std::move(server)), terminating_(terminating) {}

  absl::StatusOr<kube::HttpAnswer> Do(const kube::HttpCall& call) override {
    if (*terminating_ && MakesSomething(call)) return TerminatingAnswer();
    return server_->Do(call);
  }
  absl::StatusOr<kube::HttpAnswer> Stream(const kube::HttpCall& call, absl::Duration idle,
                                          const http::Interruption& interruption, const PieceSink& sink) override {
    return server_->Stream(call, idle, interruption, sink);
  }

 private:
  bool MakesSomething(const kube::HttpCall& call) const {
    if (call.method == "POST") return true;
    if (call.method != "PATCH") return false;
    kube::HttpCall look;
    look.method = "GET";
    look.target = call.target.substr(0, call.target.find('?'));
    const absl::StatusOr<kube::HttpAnswer> found = server_->Do(look);
    return found.ok() && found->status == 404;
  }

  const std::unique_ptr<kube::Transport> server_;
  const bool* const terminating_;
};

}  // namespace

std::map<std::string, model::SidecarReport> ScriptedSidecars::Of(const std::vector<Pod>& pods, absl::Duration) {
  std::map<std::string, model::SidecarReport> reports;
  for (const Pod& pod : pods) {
    const auto answer = answers.find(pod.name);
    if (answer == answers.end() || pod.ip.empty()) continue;
    absl::StatusOr<model::SidecarReport> report = model::ReadSidecarReport(answer->second, clock_->WallTime(), pod.uid);
    MS_CHECK_OK(report);
    reports[pod.name] = *std::move(report);
  }
  return reports;
}

OperatorOptions SmallCluster::DefaultOptions() {
  OperatorOptions options;
  options.model = model::SampleOptions();
  options.instance = "operator-0";
  options.workers = 0;
  return options;
}

SmallCluster::SmallCluster(OperatorOptions options) { RestartOperator(std::move(options)); }

void SmallCluster::RestartOperator(OperatorOptions options) {
  the_operator.reset();
  kube::ClientOptions client_options;
  client_options.on_call = [this, count = ApiCallCounter(metrics.get())](std::string_view verb,
                                                                         const kube::Resource& resource, int code) {
    count(verb, resource, code);
    if (verb != "get" && verb != "list" && verb != "watch") ++write_calls;
  };
  auto connection = server.Connect([this](const kube::HttpCall& call) { return faults ? faults(call) : std::nullopt; });
  client =
      std::make_unique<kube::Client>(std::make_unique<Admission>(std::move(connection), &terminating), client_options);
  the_operator = std::make_unique<Operator>(std::move(options), client.get(), &sidecars, &clock, metrics.get());
  the_operator->Lead();
}

std::string SmallCluster::Now() const {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", clock.WallTime(), absl::UTCTimeZone());
}

void SmallCluster::Apply(const std::string& name, std::string_view more, const std::string& name_space) {
  server.Edit(kube::kStreamProcessors, {name_space, name}, [&](Json* object) {
    if (object->is_null()) (*object)["metadata"]["creationTimestamp"] = Now();
    (*object)["spec"] = SpecOf(more);
  });
}

void SmallCluster::Edit(const kube::Resource& resource, const std::string& name,
                        const std::function<void(Json* object)>& change) {
  server.Edit(resource, KeyFor(name), change);
}

void SmallCluster::Remove(const kube::Resource& resource, const std::string& name) {
  Edit(resource, name, [](Json* object) { *object = Json(); });
}

Json SmallCluster::Read(const kube::Resource& resource, const std::string& name) const {
  return server.Read(resource, KeyFor(name));
}

std::vector<std::string> SmallCluster::Names(const kube::Resource& resource) const {
  std::vector<std::string> names;
  for (const Json& object : server.All(resource)) names.push_back(kube::KeyOf(object).name);
  return names;
}

void SmallCluster::EndJob(bool succeeded, const std::string& verdict) {
  const kube::StoredObjects jobs = server.All(kube::kJobs);
  MS_CHECK(jobs.size() == 1);
  const Json& job = jobs.front();
  const std::string name = kube::KeyOf(job).name;
  const Json& made_from = job.at("spec").at("template");
  Edit(kube::kPods, name + "-abcde", [&](Json* pod) {
    (*pod)["metadata"]["labels"] = made_from.at("metadata").at("labels");
    (*pod)["metadata"]["creationTimestamp"] = Now();
    (*pod)["metadata"]["ownerReferences"] = Json::array();
    (*pod)["metadata"]["ownerReferences"].push_back(
        Json{{"kind", "Job"}, {"name", name}, {"uid", kube::UidOf(job)}, {"controller", true}});
    (*pod)["status"] = {{"phase", succeeded ? "Succeeded" : "Failed"}};
    const Json ended = {
        {"exitCode", succeeded ? 0 : 1}, {"reason", succeeded ? "Completed" : "Error"}, {"message", verdict}};
    (*pod)["status"]["containerStatuses"] = Json::array();
    (*pod)["status"]["containerStatuses"].push_back(Json{{"name", "topics"}, {"state", {{"terminated", ended}}}});
  });
  Edit(kube::kJobs, name, [&](Json* object) {
    (*object)["status"]["conditions"] = Json::array();
    (*object)["status"]["conditions"].push_back(
        Json{{"type", succeeded ? "Complete" : "Failed"},
             {"status", "True"},
             {"lastTransitionTime", Now()},
             {"message", succeeded ? "" : "Job has reached the backoff limit"}});
  });
}

void SmallCluster::RunPods(const std::string& name, bool ready) {
  const Json set = Read(kube::kStatefulSets, name);
  MS_CHECK(!set.is_null());
  const int64_t replicas = kube::IntAt(set, {"spec", "replicas"});
  for (int64_t i = 0; i < replicas; ++i) {
    const std::string pod_name = StrCat(name, "-", i);
    Edit(kube::kPods, pod_name, [&](Json* pod) {
      const bool is_new = pod->is_null();
      if (is_new) {
        (*pod)["metadata"] = set.at("spec").at("template").at("metadata");
        (*pod)["metadata"]["creationTimestamp"] = Now();
        (*pod)["metadata"]["ownerReferences"] = Json::array();
        (*pod)["metadata"]["ownerReferences"].push_back(
            Json{{"kind", "StatefulSet"}, {"name", name}, {"uid", kube::UidOf(set)}, {"controller", true}});
        (*pod)["status"] = {{"phase", "Running"}, {"podIP", StrCat("10.0.0.", i + 1)}, {"startTime", Now()}};
      }
      const std::string was = is_new ? "" : kube::TextAt((*pod)["status"]["conditions"][0], {"status"});
      const std::string now = ready ? "True" : "False";
      if (was == now) return;
      (*pod)["status"]["conditions"] = Json::array();
      (*pod)["status"]["conditions"].push_back(Json{{"type", "Ready"}, {"status", now}, {"lastTransitionTime", Now()}});
    });
  }
  Edit(kube::kStatefulSets, name, [&](Json* object) {
    (*object)["status"] = {{"observedGeneration", kube::IntAt(*object, {"metadata", "generation"})},
                           {"replicas", replicas},
                           {"readyReplicas", ready ? replicas : 0}};
  });
}

void SmallCluster::Settle() {
  for (int round = 0; round < kMaxRounds; ++round) {
    const int before = Writes();
    for (size_t i = 0; i < the_operator->reflectors(); ++i) (void)the_operator->StepReflector(i);
    bool worked = false;
    while (the_operator->ReconcileOne()) worked = true;
    if (!worked && Writes() == before && round > 0) return;
  }
  MS_CHECK(!"the operator does not come to rest");
}

void SmallCluster::Pass(absl::Duration time) {
  for (absl::Duration passed = absl::ZeroDuration(); passed < time; passed += absl::Seconds(1)) {
    clock.Advance(absl::Seconds(1));
    Settle();
  }
}

int SmallCluster::Writes() const {
  int all = 0;
  for (const auto& [what, count] : server.writes()) all += count;
  return all;
}

Json SmallCluster::Status(const std::string& name) const {
  return Read(kube::kStreamProcessors, name).value("status", Json::object());
}

std::string SmallCluster::Condition(const std::string& name, const std::string& type) const {
  for (const Json& condition : Status(name).value("conditions", Json::array())) {
    if (kube::TextAt(condition, {"type"}) != type) continue;
    return StrCat(kube::TextAt(condition, {"status"}), " ", kube::TextAt(condition, {"reason"}), ": ",
                  kube::TextAt(condition, {"message"}));
  }
  return "";
}

std::vector<std::string> SmallCluster::Events() const {
  std::map<std::string, std::string> by_time;
  for (const Json& event : server.All(kube::kEvents)) {
    by_time[kube::TextAt(event, {"eventTime"}) + kube::KeyOf(event).name] =
        StrCat(kube::TextAt(event, {"reason"}), ": ", kube::TextAt(event, {"note"}));
  }
  std::vector<std::string> events;
  for (const auto& [time, text] : by_time) events.push_back(text);
  return events;
}

}  // namespace millstream::reconcile
