#include "tests/sim/operator/rest.h"

#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "common/base/strings.h"
#include "operator/model/children.h"
#include "operator/model/pod_template.h"
#include "operator/reconcile/difference.h"
#include "operator/reconcile/manifest_index.h"

namespace millstream::sim {
namespace {

struct ConditionText {
  std::string status, reason, message;
  int64_t generation = 0;
};

std::optional<ConditionText> ConditionOf(const Json& processor, const std::string& type) {
  const Json* conditions = kube::Find(processor, {"status", "conditions"});
  if (conditions == nullptr) return std::nullopt;
  for (const Json& condition : *conditions) {
    if (kube::TextAt(condition, {"type"}) != type) continue;
    return ConditionText{kube::TextAt(condition, {"status"}), kube::TextAt(condition, {"reason"}),
                         kube::TextAt(condition, {"message"}), kube::IntAt(condition, {"observedGeneration"})};
  }
  return std::nullopt;
}

// Looks at one processor.
class Visit {
 public:
  Visit(Cluster* cluster, const model::ModelOptions& options, const Json& processor, std::vector<std::string>* unrest)
      : cluster_(cluster), options_(options), processor_(processor), key_(kube::KeyOf(processor)), unrest_(unrest) {}

  void Run() {
    if (kube::Find(processor_, {"metadata", "deletionTimestamp"}) != nullptr)
      return Say("is still there, deleted long ago");
    if (!CheckConditions()) return;
    const absl::StatusOr<spec::Manifest> manifest = reconcile::ReadProcessor(processor_);
    if (!manifest.ok()) return Expect("False", {"InvalidSpec"});
    absl::StatusOr<model::Processor> processor =
        model::MakeProcessor(*manifest, kube::UidOf(processor_),
                             kube::TextAt(processor_, {"metadata", "annotations", "millstream.dev/restartedAt"}));
    if (!processor.ok()) return Expect("False", {"InvalidSpec"});
    const Twin twin = OlderTwinOf(processor->typed().group);
    if (twin == Twin::kYes) return Expect("False", {"GroupOwnedByAnother"});
    if (twin == Twin::kPerhaps) return;
    if (const Json* desired = kube::Find(processor_, {"status", "autoscale", "desiredReplicas"});
        desired != nullptr && processor_["spec"].contains("autoscale")) {
      processor->replicas = desired->get<int>();
    }
    const bool missing = absl::StrContains(processor_["spec"].dump(), "missing-topic");
    if (missing) {
      CheckJobs(*processor);
      return Expect("False", {"TopicMissing"});
    }
    CheckChildren(*processor);
    CheckJobs(*processor);
    const bool broken = absl::StrContains(processor_["spec"].dump(), "broken");
    if (processor->replicas == 0) return Expect("False", {"ScaledToZero"});
    const bool paused = processor->typed().desired_state == spec::DesiredState::kPaused;
    if (broken)
      return Expect("False",
                    paused ? std::set<std::string>{"ErrImagePull", "Paused"} : std::set<std::string>{"ErrImagePull"});
    CheckPods(*processor);
    return paused ? Expect("False", {"Paused"}) : Expect("True", {"Processing"});
  }

 private:
  void Say(const std::string& what) { unrest_->push_back(StrCat(key_.Text(), " ", what)); }

  bool CheckConditions() {
    const int64_t generation = kube::IntAt(processor_, {"metadata", "generation"});
    if (kube::IntAt(processor_, {"status", "observedGeneration"}) != generation) {
      Say(StrCat("generation ", generation, " is not observed"));
      return false;
    }
    for (const char* type : {"Ready", "TopicsReady", "WorkloadReady", "Restored"}) {
      const std::optional<ConditionText> condition = ConditionOf(processor_, type);
      if (!condition || condition->reason.empty() || condition->generation != generation) {
        Say(StrCat("condition ", type, " is missing, of another generation, or without a reason"));
        return false;
      }
    }
    const std::optional<ConditionText> reconciling = ConditionOf(processor_, "Reconciling");
    const std::optional<ConditionText> ready = ConditionOf(processor_, "Ready");
    if (reconciling && ready->status == "True") {
      Say(StrCat("is ready and reconciling: ", reconciling->reason, ", ", reconciling->message));
    }
    return true;
  }

  void Expect(const std::string& status, const std::set<std::string>& reasons) {
    const std::optional<ConditionText> ready = ConditionOf(processor_, "Ready");
    if (ready->status == status && reasons.contains(ready->reason)) return;
    Say(StrCat("Ready is ", ready->status, " ", ready->reason, " (", ready->message, "), not ", status, " ",
               *reasons.begin()));
  }

  // Whether an older processor has that group. One whose manifest cannot be read keeps what it claimed before, as long
  // as an operator has seen that.
  enum class Twin { kNo, kPerhaps, kYes };
  Twin OlderTwinOf(const std::string& group) const {
    Twin twin = Twin::kNo;
    const auto age = [](const Json& object) {
      return std::pair(kube::TextAt(object, {"metadata", "creationTimestamp"}), kube::KeyOf(object));
    };
    for (const Json& other : cluster_->api().All(kube::kStreamProcessors)) {
      if (kube::KeyOf(other) == key_ || age(other) > age(processor_)) continue;
      const absl::StatusOr<spec::Manifest> manifest = reconcile::ReadProcessor(other);
      if (!manifest.ok()) {
        // Its last good one is what its workload runs, and so much an operator knows that has just started.
        const Json map = cluster_->api().Read(kube::kConfigMaps, kube::KeyOf(other));
        const absl::StatusOr<spec::Manifest> last =
            reconcile::ReadManifestText(kube::TextAt(map, {"data", model::kManifestFile}), "the last good one");
        const bool is_its = kube::ControllerUidOf(map) == kube::UidOf(other) && last.ok();
        if (is_its && last->processor.group == group) return Twin::kYes;
        twin = Twin::kPerhaps;
      } else if (manifest->processor.group == group) {
        return Twin::kYes;
      }
    }
    return twin;
  }

  void CheckChildren(const model::Processor& processor) {
    const absl::StatusOr<std::vector<Json>> children = model::ChildrenOf(processor, options_);
    if (!children.ok()) return Say(StrCat("has no children: ", std::string(children.status().message())));
    for (const Json& child : *children) {
      for (const kube::Resource& kind : ChildKinds()) {
        if (!kube::IsOfKind(child, kind)) continue;
        const Json there = cluster_->api().Read(kind, kube::KeyOf(child));
        if (there.is_null()) {
          Say(StrCat("has no ", kind.kind));
        } else if (!reconcile::IsAsWanted(child, there)) {
          Say(StrCat(kind.kind, " differs: wanted ", child.dump(), " is ", there.dump()));
        }
      }
    }
  }

  // Of the manifest that is in force; others have nobody who asks for them.
  void CheckJobs(const model::Processor& processor) {
    for (const Json& job : cluster_->api().All(kube::kJobs)) {
      const std::string name = kube::KeyOf(job).name;
      if (kube::ControllerUidOf(job) != processor.uid || name == model::TopicsJobNameOf(processor)) continue;
      Say(StrCat("Job ", name, " is of a former manifest"));
    }
  }

  void CheckPods(const model::Processor& processor) {
    const absl::StatusOr<Json> pod_template = model::PodTemplateOf(processor, options_);
    const std::string hash_name = std::string(model::kTemplateHashAnnotation);
    const std::string hash = kube::TextAt(*pod_template, {"metadata", "annotations", hash_name});
    int ready = 0;
    for (const Json& pod : cluster_->api().All(kube::kPods)) {
      if (kube::KeyOf(pod).name_space != key_.name_space || pod["metadata"]["labels"].contains("job-name") ||
          kube::TextAt(pod, {"metadata", "labels", "app.kubernetes.io/instance"}) != key_.name) {
        continue;
      }
      const std::string name = kube::KeyOf(pod).name;
      if (kube::TextAt(pod, {"metadata", "annotations", hash_name}) != hash) Say(StrCat("pod ", name, " is old"));
      const Json* conditions = kube::Find(pod, {"status", "conditions"});
      if (conditions == nullptr || kube::TextAt((*conditions)[0], {"status"}) != "True") {
        Say(StrCat("pod ", name, " is not ready"));
      } else {
        ++ready;
      }
      const Json orders = Json::parse(kube::TextAt(pod, {"metadata", "annotations", "millstream.dev/orders"}, "{}"));
      if (kube::BoolAt(orders, {"drain"})) Say(StrCat("pod ", name, " is told to drain"));
    }
    if (ready != processor.replicas) Say(StrCat("has ", ready, " ready pods, not ", processor.replicas));
  }

  Cluster* const cluster_;
  const model::ModelOptions& options_;
  const Json& processor_;
  const kube::ObjectKey key_;
  std::vector<std::string>* const unrest_;
};

// Children without a processor, of a former one, or left behind.
void FindOrphans(Cluster* cluster, std::vector<std::string>* unrest) {
  std::map<std::string, std::string> owners;  // uid -> "KIND namespace/name"
  for (const Json& object : cluster->api().All(kube::kStreamProcessors)) {
    owners[kube::UidOf(object)] = kube::KeyOf(object).Text();
  }
  for (const kube::Resource& kind : {kube::kStatefulSets, kube::kJobs}) {
    for (const Json& object : cluster->api().All(kind)) {
      owners[kube::UidOf(object)] = StrCat(kube::KeyOf(object).name_space, "/",
                                           kube::TextAt(object, {"metadata", "labels", "app.kubernetes.io/instance"}));
    }
  }
  std::map<std::string, int> jobs;
  for (const kube::Resource& kind : ChildKinds()) {
    for (const Json& object : cluster->api().All(kind)) {
      if (kube::TextAt(object, {"metadata", "labels", "app.kubernetes.io/name"}) != "streamprocessor") continue;
      if (kube::Find(object, {"metadata", "deletionTimestamp"}) != nullptr) continue;
      const kube::ObjectKey key = kube::KeyOf(object);
      const std::string instance =
          StrCat(key.name_space, "/", kube::TextAt(object, {"metadata", "labels", "app.kubernetes.io/instance"}));
      const auto owner = owners.find(kube::ControllerUidOf(object));
      if (owner == owners.end() || owner->second != instance) {
        unrest->push_back(StrCat(kind.kind, " ", key.Text(), " is nobody's"));
      }
      if (kind.plural == "jobs" && ++jobs[instance] > 1) unrest->push_back(StrCat(instance, " has several Jobs"));
    }
  }
}

}  // namespace

std::vector<std::string> Unrest(Cluster* cluster, const model::ModelOptions& options) {
  std::vector<std::string> unrest;
  for (const Json& processor : cluster->api().All(kube::kStreamProcessors)) {
    Visit(cluster, options, processor, &unrest).Run();
  }
  FindOrphans(cluster, &unrest);
  return unrest;
}

}  // namespace millstream::sim
