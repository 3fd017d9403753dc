#include "tests/sim/operator/cluster.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "common/base/strings.h"

namespace millstream::sim {

const std::vector<kube::Resource>& ChildKinds() {
  static const std::vector<kube::Resource>* const kinds = new std::vector<kube::Resource>{kube::kServiceAccounts,
                                                                                          kube::kConfigMaps,
                                                                                          kube::kNetworkPolicies,
                                                                                          kube::kServices,
                                                                                          kube::kPodDisruptionBudgets,
                                                                                          kube::kStatefulSets,
                                                                                          kube::kPodMonitors,
                                                                                          kube::kJobs,
                                                                                          kube::kPods};
  return *kinds;
}

Cluster::Cluster(FakeClock* clock, std::mt19937_64* random)
    : clock_(clock), random_(random), api_(clock), admin_(api_.Connect(), kube::ClientOptions()) {}

absl::Duration Cluster::Between(double low, double high) {
  return absl::Milliseconds(static_cast<int64_t>(std::uniform_real_distribution<double>(low, high)(*random_) * 1000));
}

void Cluster::Due(absl::Duration when) { next_ = std::min(next_, when - clock_->Monotonic()); }

std::string Cluster::Now() const {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", clock_->WallTime(), absl::UTCTimeZone());
}

absl::Duration Cluster::Step() {
  next_ = absl::Seconds(30);
  StepNamespaces();
  StepGarbage();
  StepSets();
  StepJobs();
  StepPods();
  StepClaims();
  if (numbers_move) lag_ = std::max<int64_t>(0, lag_ + Chance(400) - 200);
  return std::clamp(next_, absl::Milliseconds(50), absl::Seconds(30));
}

void Cluster::StepNamespaces() {
  std::vector<std::string> gone;
  for (const std::string& name : terminating_) {
    bool empty = true;
    std::vector<kube::Resource> kinds = ChildKinds();
    kinds.push_back(kube::kStreamProcessors);
    kinds.push_back(kube::kPersistentVolumeClaims);
    for (const kube::Resource& kind : kinds) {
      for (const Json& object : api_.All(kind)) {
        if (kube::KeyOf(object).name_space != name) continue;
        empty = false;
        if (kube::Find(object, {"metadata", "deletionTimestamp"}) == nullptr) {
          (void)admin_.Delete(kind, kube::KeyOf(object), {});
        }
      }
    }
    if (empty) gone.push_back(name);
    Due(clock_->Monotonic() + absl::Seconds(1));
  }
  for (const std::string& name : gone) terminating_.erase(name);
}

// Objects whose owner is gone.
void Cluster::StepGarbage() {
  std::set<std::string> alive;
  for (const Json& object : api_.All(kube::kStreamProcessors)) alive.insert(kube::UidOf(object));
  for (const kube::Resource& kind : {kube::kStatefulSets, kube::kJobs}) {
    for (const Json& object : api_.All(kind)) alive.insert(kube::UidOf(object));
  }
  for (const kube::Resource& kind : ChildKinds()) {
    for (const Json& object : api_.All(kind)) {
      const Json* owners = kube::Find(object, {"metadata", "ownerReferences"});
      if (owners == nullptr || owners->empty() || kube::Find(object, {"metadata", "deletionTimestamp"}) != nullptr)
        continue;
      const auto lives = [&alive](const Json& owner) { return alive.contains(kube::TextAt(owner, {"uid"})); };
      const auto living = std::count_if(owners->begin(), owners->end(), lives);
      if (living == static_cast<std::ptrdiff_t>(owners->size())) continue;
      if (living > 0) {
        // It stays, and those that are gone are no longer its owners: a StatefulSet may adopt it.
        api_.Edit(kind, kube::KeyOf(object), [&lives](Json* stays) {
          Json kept = Json::array();
          for (const Json& owner : (*stays)["metadata"]["ownerReferences"]) {
            if (lives(owner)) kept.push_back(owner);
          }
          (*stays)["metadata"]["ownerReferences"] = std::move(kept);
        });
        continue;
      }
      kube::DeleteOptions options;
      options.uid = kube::UidOf(object);
      (void)admin_.Delete(kind, kube::KeyOf(object), options);
      Due(clock_->Monotonic());
    }
  }
}

namespace {

// "NAME-3" -> 3, -1: it is no such name.
int OrdinalOf(const std::string& pod, const std::string& set) {
  int ordinal = -1;
  if (!absl::StartsWith(pod, set + "-") || !absl::SimpleAtoi(pod.substr(set.size() + 1), &ordinal)) return -1;
  return ordinal;
}

Json OwnerOf(const Json& object) {
  return Json{{"apiVersion", object["apiVersion"]}, {"kind", object["kind"]}, {"name", object["metadata"]["name"]},
              {"uid", object["metadata"]["uid"]},   {"controller", true},     {"blockOwnerDeletion", true}};
}

bool IsLeaving(const Json& object) { return kube::Find(object, {"metadata", "deletionTimestamp"}) != nullptr; }

bool Contains(const Json& labels, const Json& selector) {
  for (const auto& [label, value] : selector.items()) {
    if (kube::TextAt(labels, {label}) != value) return false;
  }
  return true;
}

}  // namespace

void Cluster::StepSets() {
  for (const Json& set : api_.All(kube::kStatefulSets)) {
    if (!IsLeaving(set)) StepSet(set);
  }
}

void Cluster::StepSet(const Json& set) {
  const kube::ObjectKey key = kube::KeyOf(set);
  const std::string uid = kube::UidOf(set);
  const int replicas = static_cast<int>(kube::IntAt(set, {"spec", "replicas"}, 1));
  std::set<int> there;
  int count = 0, ready = 0;
  for (const Json& pod : api_.All(kube::kPods)) {
    const kube::ObjectKey pod_key = kube::KeyOf(pod);
    const int ordinal = OrdinalOf(pod_key.name, key.name);
    if (pod_key.name_space != key.name_space || ordinal < 0) continue;
    if (!Contains(pod["metadata"].value("labels", Json::object()), set["spec"]["selector"]["matchLabels"])) continue;
    there.insert(ordinal);
    const std::string owner = kube::ControllerUidOf(pod);
    if (owner.empty() && !IsLeaving(pod)) {
      api_.Edit(kube::kPods, pod_key, [&](Json* object) {
        Json& owners = (*object)["metadata"]["ownerReferences"];
        if (!owners.is_array()) owners = Json::array();
        owners.push_back(OwnerOf(set));
      });
    } else if (owner != uid) {
      continue;
    }
    const std::string phase = kube::TextAt(pod, {"status", "phase"});
    if (!IsLeaving(pod) && (ordinal >= replicas || phase == "Failed" || phase == "Succeeded")) {
      kube::DeleteOptions options;
      options.uid = kube::UidOf(pod);
      (void)admin_.Delete(kube::kPods, pod_key, options);
      Due(clock_->Monotonic());
    }
    ++count;
    const Json* conditions = kube::Find(pod, {"status", "conditions"});
    if (conditions != nullptr && kube::TextAt((*conditions)[0], {"status"}) == "True") ++ready;
  }
  for (int ordinal = 0; ordinal < replicas; ++ordinal) {
    if (!there.contains(ordinal) && !IsTerminating(key.name_space)) MakePod(set, ordinal);
  }
  api_.Edit(kube::kStatefulSets, key, [&](Json* object) {
    if (object->is_null() || kube::UidOf(*object) != uid) return;
    (*object)["status"] = Json{
        {"replicas", count}, {"readyReplicas", ready}, {"observedGeneration", (*object)["metadata"]["generation"]}};
  });
}

void Cluster::MakePod(const Json& set, int ordinal) {
  const kube::ObjectKey key{kube::KeyOf(set).name_space, StrCat(kube::KeyOf(set).name, "-", ordinal)};
  for (const Json& claim : set["spec"].value("volumeClaimTemplates", Json::array())) {
    const kube::ObjectKey claim_key{key.name_space, StrCat(kube::TextAt(claim, {"metadata", "name"}), "-", key.name)};
    api_.Edit(kube::kPersistentVolumeClaims, claim_key, [&](Json* object) {
      if (!object->is_null()) return;
      (*object)["metadata"]["labels"] = claim["metadata"]["labels"];
      (*object)["spec"] = claim["spec"];
      (*object)["status"] = Json{{"phase", "Bound"}, {"capacity", claim["spec"]["resources"]["requests"]}};
    });
  }
  api_.Edit(kube::kPods, key, [&](Json* object) {
    *object = set["spec"]["template"];
    Json& metadata = (*object)["metadata"];
    metadata["labels"]["statefulset.kubernetes.io/pod-name"] = key.name;
    metadata["labels"]["apps.kubernetes.io/pod-index"] = StrCat(ordinal);
    metadata["ownerReferences"] = Json::array({OwnerOf(set)});
    // What the grace period is elsewhere: the pod stays until its kubelet has ended it.
    metadata["finalizers"] = Json::array({"simulation/kubelet"});
    (*object)["status"] = Json{{"phase", "Pending"}};
  });
  Due(clock_->Monotonic());
}

void Cluster::StepJobs() {
  for (const Json& job : api_.All(kube::kJobs)) {
    if (!IsLeaving(job)) StepJob(job);
  }
}

void Cluster::StepJob(const Json& job) {
  const kube::ObjectKey key = kube::KeyOf(job);
  if (const Json* conditions = kube::Find(job, {"status", "conditions"}); conditions != nullptr) {
    absl::Time finished;
    std::string error;
    if (!absl::ParseTime(absl::RFC3339_full, kube::TextAt((*conditions)[0], {"lastTransitionTime"}), &finished, &error))
      return;
    if (clock_->WallTime() - finished < absl::Seconds(kube::IntAt(job, {"spec", "ttlSecondsAfterFinished"}, 3600)))
      return;
    kube::DeleteOptions options;
    options.uid = kube::UidOf(job);
    (void)admin_.Delete(kube::kJobs, key, options);
    return;
  }
  for (const Json& pod : api_.All(kube::kPods)) {
    if (kube::ControllerUidOf(pod) != kube::UidOf(job)) continue;
    const auto life = lives_.find(kube::UidOf(pod));
    if (life == lives_.end() || IsLeaving(pod)) return;
    if (clock_->Monotonic() < life->second.ready) return Due(life->second.ready);
    // Without its ConfigMap a pod does not start.
    if (ManifestFor(job).empty()) return Due(clock_->Monotonic() + absl::Seconds(1));
    return FinishJob(job, pod);
  }
  if (IsTerminating(key.name_space)) return;
  api_.Edit(kube::kPods, {key.name_space, StrCat(key.name, "-", Chance(100000))}, [&](Json* object) {
    if (!object->is_null()) return;
    *object = job["spec"]["template"];
    (*object)["metadata"]["labels"]["batch.kubernetes.io/job-name"] = key.name;
    (*object)["metadata"]["labels"]["job-name"] = key.name;
    (*object)["metadata"]["ownerReferences"] = Json::array({OwnerOf(job)});
    (*object)["metadata"]["finalizers"] = Json::array({"simulation/kubelet"});
    (*object)["status"] = Json{{"phase", "Pending"}};
  });
  Due(clock_->Monotonic());
}

std::string Cluster::ManifestFor(const Json& job) const {
  const std::string map = kube::TextAt(job["spec"]["template"]["spec"]["volumes"][0], {"configMap", "name"});
  const Json config = api_.Read(kube::kConfigMaps, {kube::KeyOf(job).name_space, map});
  return kube::TextAt(config, {"data", "processor.yaml"});
}

// What `millstream-sidecar topics` would say: of the manifest in the ConfigMap, to a Kafka that is there or is not.
Json Cluster::VerdictFor(const Json& job, int* exit_code) {
  const Json& pod = job["spec"]["template"]["spec"];
  const Json& args = pod["containers"][0]["args"];
  const bool deletes = std::find(args.begin(), args.end(), "--delete") != args.end();
  const auto verdict = [&](bool ok, const char* reason, const char* message, bool retry) {
    *exit_code = ok ? 0 : retry ? 3 : 1;
    return Json{{"ok", ok}, {"reason", reason}, {"message", message}, {"retry", retry}, {"tasks", ok ? kTasks : 0}};
  };
  if (!kafka_up) return verdict(false, "BrokersUnreachable", "no broker of kafka:9092 answers", true);
  if (deletes) return verdict(true, "TopicsDeleted", "all internal topics are gone", false);
  const std::string manifest = ManifestFor(job);
  if (!absl::StrContains(manifest, "inputs")) return verdict(false, "InvalidManifest", "spec is required", false);
  if (absl::StrContains(manifest, "missing-topic")) {
    return verdict(false, "TopicMissing", "topic missing-topic does not exist", false);
  }
  return verdict(true, "TopicsReady", "2 topics", false);
}

void Cluster::FinishJob(const Json& job, const Json& pod) {
  int exit_code = 0;
  const Json verdict = VerdictFor(job, &exit_code);
  const std::string end = Now();
  if (exit_code == 0) said_yes_.insert({kube::ControllerUidOf(job), kube::KeyOf(job).name});
  api_.Edit(kube::kPods, kube::KeyOf(pod), [&](Json* object) {
    const Json ended = {{"exitCode", exit_code},
                        {"reason", exit_code == 0 ? "Completed" : "Error"},
                        {"message", verdict.dump()},
                        {"finishedAt", end}};
    (*object)["status"] =
        Json{{"phase", exit_code == 0 ? "Succeeded" : "Failed"},
             {"containerStatuses", Json::array({{{"name", "topics"}, {"state", {{"terminated", ended}}}}})}};
  });
  api_.Edit(kube::kJobs, kube::KeyOf(job), [&](Json* object) {
    Json condition = {
        {"type", exit_code == 0 ? "Complete" : "Failed"}, {"status", "True"}, {"lastTransitionTime", end}};
    if (exit_code != 0) {
      condition["reason"] = "BackoffLimitExceeded";
      condition["message"] = "Job has reached the specified backoff limit";
    }
    (*object)["status"] = Json{{"conditions", Json::array({condition})}, {exit_code == 0 ? "succeeded" : "failed", 1}};
    if (exit_code == 0) (*object)["status"]["completionTime"] = end;
  });
}

// Volumes that were asked to grow have grown.
void Cluster::StepClaims() {
  for (const Json& claim : api_.All(kube::kPersistentVolumeClaims)) {
    const Json* asked = kube::Find(claim, {"spec", "resources", "requests"});
    const Json* granted = kube::Find(claim, {"status", "capacity"});
    if (asked == nullptr || (granted != nullptr && *asked == *granted)) continue;
    api_.Edit(kube::kPersistentVolumeClaims, kube::KeyOf(claim),
              [](Json* object) { (*object)["status"]["capacity"] = (*object)["spec"]["resources"]["requests"]; });
  }
}

void Cluster::StepPods() {
  const absl::Duration now = clock_->Monotonic();
  std::set<std::string> seen;
  for (const Json& pod : api_.All(kube::kPods)) {
    const std::string uid = kube::UidOf(pod);
    seen.insert(uid);
    auto [at, is_new] = lives_.try_emplace(uid);
    Life& life = at->second;
    if (is_new) {
      life.starts = now + Between(0.2, 3);
      life.ready = life.starts + Between(0.5, 10);
      life.key = kube::KeyOf(pod);
    }
    life.set_uid = kube::ControllerUidOf(pod);
    if (IsLeaving(pod)) {
      life.running = false;
      if (life.gone == absl::InfiniteDuration()) life.gone = now + Between(0, 8);
      if (now < life.gone) {
        Due(life.gone);
      } else {
        api_.Edit(kube::kPods, life.key, [](Json* object) { *object = Json(); });
      }
      continue;
    }
    const std::string phase = kube::TextAt(pod, {"status", "phase"});
    if (phase == "Failed" || phase == "Succeeded") {
      life.running = false;
    } else if (!pod["metadata"]["labels"].contains("job-name")) {
      StepMember(pod, &life);
    }
  }
  std::erase_if(lives_, [&](const auto& life) { return !seen.contains(life.first); });
}

void Cluster::StepMember(const Json& pod, Life* life) {
  const absl::Duration now = clock_->Monotonic();
  if (now < life->starts) return Due(life->starts);
  const Json& containers = pod["spec"]["containers"];
  const bool broken_image = absl::StrContains(kube::TextAt(containers[0], {"image"}), "broken");
  if (!life->running) {
    life->running = true;
    WritePodStatus(life->key, *life, false);
  }
  StepSidecar(pod, life);
  life->has_worker = !broken_image;
  if (broken_image) {
    api_.Edit(kube::kPods, life->key, [](Json* object) {
      (*object)["status"]["containerStatuses"] = Json::array(
          {{{"name", "worker"}, {"state", {{"waiting", {{"reason", "ErrImagePull"}, {"message", "not found"}}}}}}});
    });
    return;
  }
  if (now < life->ready) return Due(life->ready);
  if (accidents && Chance(20) == 0) {
    ++accidents_so_far_;
    if (Chance(3) == 0) {
      api_.Edit(kube::kPods, life->key, [](Json* object) { (*object)["status"]["phase"] = "Failed"; });
      life->running = false;
      return Due(now);
    }
    life->broken_until = now + Between(2, 90);
  }
  if (now < life->broken_until) Due(life->broken_until);
  WritePodStatus(life->key, *life, now >= life->broken_until);
}

void Cluster::WritePodStatus(const kube::ObjectKey& pod, const Life& life, bool ready) {
  api_.Edit(kube::kPods, pod, [&](Json* object) {
    Json& status = (*object)["status"];
    status["phase"] = "Running";
    if (!status.contains("startTime")) status["startTime"] = Now();
    status["podIP"] = StrCat("10.0.", absl::Hex(std::hash<std::string>()(kube::UidOf(*object)) % 65536));
    if (!status.contains("conditions")) status["conditions"] = Json::array();
    Json& conditions = status["conditions"];
    const char* text = ready ? "True" : "False";
    if (!conditions.empty() && conditions[0]["status"] == text) return;
    conditions = Json::array({{{"type", "Ready"}, {"status", text}, {"lastTransitionTime", Now()}}});
    if (life.broken_until == -absl::InfiniteDuration()) return;
  });
}

void Cluster::StepSidecar(const Json& pod, Life* life) {
  const absl::Duration now = clock_->Monotonic();
  // The kubelet projects the annotation into a file, some time later.
  const std::string orders = kube::TextAt(pod, {"metadata", "annotations", "millstream.dev/orders"});
  if (orders != life->orders_seen) {
    life->orders_seen = orders;
    life->orders_due = now + Between(0, 5);
  }
  if (now < life->orders_due) {
    if (life->orders_due != absl::InfiniteDuration()) Due(life->orders_due);
  } else if (life->orders != life->orders_seen) {
    life->orders = life->orders_seen;
    const absl::StatusOr<Json> read = kube::ParseJson(life->orders, "orders");
    const bool drain = read.ok() && kube::BoolAt(*read, {"drain"});
    if (!drain) {
      life->drained = absl::InfiniteDuration();
    } else if (life->drained == absl::InfiniteDuration()) {
      life->drained = now + Between(0.5, 10);
    }
  }
}

std::vector<const Cluster::Life*> Cluster::MembersOf(const std::string& set_uid) const {
  std::vector<const Life*> members;
  for (const auto& [uid, life] : lives_) {
    if (life.set_uid == set_uid && life.running && life.has_worker && clock_->Monotonic() < life.drained) {
      members.push_back(&life);
    }
  }
  return members;
}

std::optional<model::SidecarReport> Cluster::ReportOf(const std::string& pod_uid) {
  const auto found = lives_.find(pod_uid);
  const absl::Duration now = clock_->Monotonic();
  if (found == lives_.end() || !found->second.running) return std::nullopt;
  const Life& life = found->second;
  if (now < life.broken_until || (accidents && Chance(10) == 0)) return std::nullopt;
  const absl::StatusOr<Json> orders = kube::ParseJson(life.orders.empty() ? "{}" : life.orders, "orders");
  model::SidecarReport report;
  report.heard = clock_->WallTime();
  report.pod_uid = pod_uid;
  report.version = "0.1.0";
  report.guarantee = "ExactlyOnce";
  report.state = orders.ok() ? kube::TextAt(*orders, {"state"}, "Running") : "Running";
  report.drained = now >= life.drained;
  // Without a worker it does not join the group, and has no task.
  report.ready = life.has_worker && now >= life.ready;
  report.workers = life.has_worker ? 1 : 0;
  report.partitions = kTasks;
  report.lag = absl::Seconds(lag_ / 100);
  const std::vector<const Life*> members = MembersOf(life.set_uid);
  const int64_t standbys = orders.ok() ? kube::IntAt(*orders, {"standbyReplicas"}) : 0;
  for (int i = 0; i < kTasks && !report.drained && life.has_worker; ++i) {
    model::TaskSeen task;
    task.task = i;
    task.state = now >= life.ready ? model::TaskSeen::State::kActive : model::TaskSeen::State::kRestoring;
    if (task.state == model::TaskSeen::State::kRestoring) task.bytes_left = 1000;
    task.lag = lag_ / kTasks;
    const size_t n = members.size();
    if (members[static_cast<size_t>(i) % n] == &life) {
      report.tasks.push_back(task);
    } else if (standbys > 0 && members[static_cast<size_t>(i + 1) % n] == &life) {
      if (task.state == model::TaskSeen::State::kActive) task.state = model::TaskSeen::State::kStandby;
      report.tasks.push_back(task);
    }
  }
  return report;
}

bool Cluster::ForbidsEviction(const kube::ObjectKey& pod) {
  const Json victim = api_.Read(kube::kPods, pod);
  if (victim.is_null()) return false;
  const auto is_ready = [](const Json& object) {
    const Json* conditions = kube::Find(object, {"status", "conditions"});
    return conditions != nullptr && !IsLeaving(object) && kube::TextAt((*conditions)[0], {"status"}) == "True";
  };
  if (!is_ready(victim)) return false;  // unhealthyPodEvictionPolicy: AlwaysAllow
  const std::string owner = kube::ControllerUidOf(victim);
  const Json set = api_.Read(kube::kStatefulSets, {pod.name_space, pod.name.substr(0, pod.name.rfind('-'))});
  int64_t ready = 0;
  for (const Json& other : api_.All(kube::kPods)) {
    if (kube::ControllerUidOf(other) == owner && is_ready(other)) ++ready;
  }
  return kube::UidOf(set) == owner && ready < kube::IntAt(set, {"spec", "replicas"}, 1);
}

}  // namespace millstream::sim
