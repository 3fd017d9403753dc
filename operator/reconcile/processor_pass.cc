#include "operator/reconcile/processor_pass.h"

#include <algorithm>
#include <utility>

#include "common/base/log_line.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "operator/kube/api_error.h"
#include "operator/model/autoscale.h"
#include "operator/reconcile/finalizer.h"
#include "operator/reconcile/status_writer.h"

namespace millstream::reconcile {
namespace {

// Fresh enough while anything moves (model::kPollSidecars is how often that is looked at).
constexpr absl::Duration kReportAge = absl::Seconds(2);
constexpr absl::Duration kSoon = absl::Seconds(5);
// Sidecars that a Kafka keeps from working: no watch tells when it is back. Asking costs the API server nothing.
constexpr absl::Duration kBlockedLook = absl::Seconds(10);
constexpr absl::Duration kStaleBound = absl::Seconds(10);
constexpr char kManifestHash[] = "millstream.dev/manifest-hash";

const kube::Resource* ResourceOf(const Json& child) {
  static constexpr kube::Resource kKinds[] = {kube::kServiceAccounts,      kube::kConfigMaps,      kube::kServices,
                                              kube::kPodDisruptionBudgets, kube::kNetworkPolicies, kube::kPodMonitors,
                                              kube::kStatefulSets};
  for (const kube::Resource& resource : kKinds) {
    if (kube::IsOfKind(child, resource)) return &resource;
  }
  return nullptr;
}

bool IsSet(const Json& child) { return kube::IsOfKind(child, kube::kStatefulSets); }

// A ConfigMap is refused for nothing but its size, which is the manifest's.
std::string_view RefusedAs(const kube::Resource& resource) {
  return resource.kind == kube::kConfigMaps.kind ? "InvalidSpec" : "ChildRefused";
}

bool IsMember(const Json& pod) {
  return kube::TextAt(pod, {"metadata", "labels", "app.kubernetes.io/component"}) == "processor";
}

}  // namespace

ProcessorPass::ProcessorPass(Reconciler* reconciler, ProcessorMemory* memory, const Json& processor, std::string id)
    : reconciler_(reconciler),
      memory_(memory),
      key_(kube::KeyOf(processor)),
      id_(std::move(id)),
      again_(ResyncOf(key_.Text())) {
  input_.processor = processor;
  input_.operator_version = reconciler_->options_.model.operator_version;
  input_.now = reconciler_->around_.clock->WallTime();
  input_.held_back = kube::TextAt(processor, {"metadata", "annotations", kPauseAnnotation}) == "true";
}

absl::StatusOr<runtime::Pass> ProcessorPass::Run() {
  ReadManifest();
  Observe();
  if (input_.model && !input_.problem.exists() && !input_.held_back) {
    Autoscale();
    absl::StatusOr<std::vector<Json>> children = model::ChildrenOf(*input_.model, reconciler_->options_.model);
    if (!children.ok()) {
      Settle({"InvalidPodTemplate", std::string(children.status().message()), true, absl::OkStatus()});
    } else if (KeepFinalizer() && KeepChildren(*children) && RemoveUnwanted() && KeepTopics()) {
      for (Json& child : *children) {
        if (IsSet(child)) KeepWorkload(std::move(child));
      }
    }
  }
  const absl::Status& trouble = input_.problem.status;
  if (kube::IsNamespaceTerminating(trouble)) return trouble;
  // The API server's trouble is none of the processor: what was true of it is true still.
  if (!trouble.ok() && !input_.problem.needs_person) return trouble;
  MS_RETURN_IF_ERROR(WriteStatus());
  // A quota, a policy or a right may be another one soon: no backoff up to a quarter of an hour.
  if (absl::IsPermissionDenied(trouble)) {
    LogWarning("a pass is forbidden to write",
               {{"object", key_.Text()}, {"reconcile", id_}, {"error", std::string(trouble.message())}});
    return runtime::Pass{again_};
  }
  MS_RETURN_IF_ERROR(trouble);
  MS_RETURN_IF_ERROR(failed_);
  return runtime::Pass{again_};
}

void ProcessorPass::LookAgain(absl::Duration delay) { again_ = std::min(again_, std::max(delay, absl::Seconds(1))); }

void ProcessorPass::Settle(Problem problem) {
  // What is in the way of a child is not in our caches: its going is no news.
  if (problem.status.ok()) LookAgain(kSoon);
  if (!input_.problem.exists()) input_.problem = std::move(problem);
}

void ProcessorPass::ReadManifest() {
  ManifestIndex* const index = reconciler_->around_.manifests;
  std::shared_ptr<const reconcile::ReadManifest> read = index->Find(key_);
  const int64_t generation = kube::IntAt(input_.processor, {"metadata", "generation"});
  if (read == nullptr || read->uid != memory_->uid || read->generation != generation) {
    index->Update(input_.processor);
    read = index->Find(key_);
  }
  const auto refuse = [this](const absl::Status& status) {
    input_.problem = {"InvalidSpec", std::string(status.message()), true, absl::OkStatus()};
  };
  if (!read->manifest.ok()) return refuse(read->manifest.status());
  const std::string restarted = kube::TextAt(input_.processor, {"metadata", "annotations", kRestartedAnnotation});
  absl::StatusOr<model::Processor> made = model::MakeProcessor(*read->manifest, memory_->uid, restarted);
  if (!made.ok()) return refuse(made.status());
  input_.model = *std::move(made);
  if (model::AutoscaleBoundsOf(*input_.model)) {
    input_.model->replicas = static_cast<int>(
        kube::IntAt(input_.processor, {"status", "autoscale", "desiredReplicas"}, input_.model->replicas));
  }
  if (std::optional<Problem> conflict = index->ConflictOf(key_)) input_.problem = *std::move(conflict);
}

void ProcessorPass::Observe() {
  World* const world = reconciler_->around_.world;
  const Json set = world->Get(kube::kStatefulSets, key_);
  // Another owner's is none of this workload: its name is taken, which applying it will say.
  const bool is_ours = !set.is_null() && kube::ControllerUidOf(set) == memory_->uid;
  pods_ = world->Of(kube::kPods, key_);
  std::erase_if(pods_, [](const Json& pod) { return !IsMember(pod); });
  input_.seen = model::ReadObservation(key_.name, is_ours ? &set : nullptr, pods_,
                                       world->Of(kube::kPersistentVolumeClaims, key_));
  AskSidecars(pods_);
  if (AwaitsReports(input_.seen, input_.now)) LookAgain(kReportAge);
  for (const model::PodSeen& pod : input_.seen.pods) {
    const model::SidecarReport* report = input_.seen.FreshReport(pod, input_.now);
    if (report == nullptr) continue;
    if (report->Count(model::TaskSeen::State::kRestoring) > 0) LookAgain(kSoon);
    if (report->problem && report->problem->blocks) LookAgain(kBlockedLook);
  }
  FindTrouble(pods_);
}

void ProcessorPass::AskSidecars(const std::vector<Json>& pods) {
  std::vector<SidecarReports::Pod> asked;
  for (const Json& pod : pods) {
    asked.push_back({kube::KeyOf(pod).name, kube::UidOf(pod), kube::TextAt(pod, {"status", "podIP"})});
  }
  input_.seen.reports = reconciler_->around_.sidecars->Of(asked, kReportAge);
}

void ProcessorPass::FindTrouble(const std::vector<Json>& pods) {
  for (const Json& pod : pods) {
    if (kube::Find(pod, {"metadata", "deletionTimestamp"}) != nullptr) continue;
    std::optional<PodTrouble> trouble = TroubleOf(pod);
    if (!trouble) continue;
    if (WaitsSilently(trouble->reason)) {
      const absl::Time created = TimeFrom(kube::TextAt(pod, {"metadata", "creationTimestamp"}), input_.now);
      const MountTrouble::Trouble mount = reconciler_->mounts_.Of(kube::KeyOf(pod), kube::UidOf(pod), created);
      LookAgain(kSoon);
      if (mount.reason.empty()) continue;
      trouble->reason = mount.reason;
      trouble->message = mount.message;
    }
    input_.trouble = std::move(trouble);
    return;
  }
}

void ProcessorPass::Autoscale() {
  const std::optional<model::AutoscaleBounds> bounds = model::AutoscaleBoundsOf(*input_.model);
  if (!bounds) return;
  std::vector<const model::SidecarReport*> reports;
  int ready = 0;
  for (const model::PodSeen& pod : input_.seen.pods) {
    ready += pod.ready ? 1 : 0;
    if (const model::SidecarReport* report = input_.seen.FreshReport(pod, input_.now)) reports.push_back(report);
  }
  const model::TaskTotals totals = model::TotalsOf(reports);
  const bool steady = input_.seen.set && ready == input_.seen.set->replicas &&
                      reports.size() == input_.seen.pods.size() && totals.restoring == 0;
  const Json* before = kube::Find(input_.processor, {"status", "autoscale"});
  const Json none = Json::object();
  const Json& was = before == nullptr ? none : *before;
  const int current = input_.model->replicas;
  const absl::Time last = TimeFrom(kube::TextAt(was, {"lastScaleTime"}), absl::InfinitePast());
  const model::AutoscaleDecision decision =
      model::Autoscale(*bounds, current, last, model::SampleOf(totals, ready, steady, input_.now), &memory_->autoscale);
  input_.model->replicas = decision.replicas;
  input_.autoscale = was;
  input_.autoscale["desiredReplicas"] = decision.replicas;
  LookAgain(model::kPollSidecars);
  // The reason has numbers in it: that of the last change stays.
  if (!decision.changed && was.contains("reason")) return;
  input_.autoscale["reason"] = decision.reason;
  if (!decision.changed) return;
  input_.autoscale["lastScaleTime"] = absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", input_.now, absl::UTCTimeZone());
  reconciler_->events_.Record(
      input_.processor, {false, decision.replicas > current ? "ScaledOut" : "ScaledIn", "Autoscale", decision.reason});
}

bool ProcessorPass::KeepFinalizer() {
  const bool wanted = input_.model->typed().internal_topics.when_deleted == spec::DeletionPolicy::kDelete;
  const absl::StatusOr<Json> changed =
      SetFinalizer(reconciler_->around_.client, reconciler_->around_.world, input_.processor, wanted);
  if (!changed.ok()) {
    Settle(ProblemOf(changed.status(), StrCat("the finalizer of ", key_.Text()), "InvalidSpec"));
    return false;
  }
  input_.processor["metadata"] = changed->at("metadata");
  return true;
}

bool ProcessorPass::KeepChildren(const std::vector<Json>& children) {
  for (const Json& child : children) {
    if (IsSet(child)) continue;
    const kube::Resource* resource = ResourceOf(child);
    MS_CHECK(resource != nullptr);
    if (resource->kind == kube::kPodMonitors.kind && !reconciler_->around_.world->Knows(*resource, key_.name_space)) {
      continue;
    }
    if (Problem problem = reconciler_->writer_.Ensure(*resource, child, RefusedAs(*resource)); problem.exists()) {
      Settle(std::move(problem));
      return false;
    }
  }
  return true;
}

bool ProcessorPass::RemoveUnwanted() {
  const model::ModelOptions& options = reconciler_->options_.model;
  for (const auto& [resource, wanted] : {std::pair(kube::kNetworkPolicies, options.network_policies),
                                         std::pair(kube::kPodMonitors, options.pod_monitors)}) {
    if (wanted) continue;
    for (const Json& child : reconciler_->around_.world->Of(resource, key_)) {
      if (kube::ControllerUidOf(child) != memory_->uid) continue;
      failed_.Update(reconciler_->writer_.Remove(resource, child));
    }
  }
  return true;
}

// A template that was applied after a Job had said yes to the same manifest.
bool ProcessorPass::TopicsWereChecked(const std::vector<Json>& pods) const {
  const std::string hash = model::ManifestHash(*input_.model);
  if (input_.seen.set &&
      kube::TextAt(input_.seen.set->spec, {"template", "metadata", "annotations", kManifestHash}) == hash) {
    return true;
  }
  // While a StatefulSet is made anew only its pods are there.
  return !input_.seen.set && std::any_of(pods.begin(), pods.end(), [&hash](const Json& pod) {
    return kube::TextAt(pod, {"metadata", "annotations", kManifestHash}) == hash;
  });
}

bool ProcessorPass::KeepTopics() {
  const Json* conditions = kube::Find(input_.processor, {"status", "conditions"});
  input_.topics = reconciler_->topics_.Ensure(*input_.model, reconciler_->options_.model, TopicsWereChecked(pods_),
                                              conditions == nullptr ? Json() : *conditions);
  LookAgain(input_.topics->look_again);
  if (input_.topics->problem.exists()) Settle(input_.topics->problem);
  return input_.topics->ready;
}

void ProcessorPass::KeepWorkload(Json wanted_set) {
  const std::string key = key_.Text();
  model::RollLimits limits;
  if (model::WantsOperatorRoll(wanted_set, input_.seen)) {
    limits.operator_roll = reconciler_->rollouts_.Take(key);
  } else {
    reconciler_->rollouts_.Give(key);
  }
  input_.decision = model::NextSteps(*input_.model, wanted_set, input_.seen, limits, input_.now);
  if (reconciler_->options_.model.pod_monitors &&
      !reconciler_->around_.world->Knows(kube::kPodMonitors, key_.name_space)) {
    input_.decision->notes.push_back("there is no PodMonitor: their definition is not installed in this cluster");
  }
  const model::Decision& decision = *input_.decision;
  LookAgain(decision.look_again);
  if (AwaitsOwnRemovals()) return LookAgain(absl::Seconds(1));
  if (!decision.scale_reason.empty()) {
    reconciler_->events_.Record(input_.processor, {false, decision.scale_reason, "Scale", decision.scale_note});
  }
  if (!decision.hold_set) {
    Problem problem = reconciler_->writer_.Ensure(kube::kStatefulSets, decision.stateful_set, "InvalidPodTemplate");
    if (problem.exists()) {
      // Nothing of it is carried out.
      input_.decision.reset();
      return Settle(std::move(problem));
    }
  }
  ExecuteSteps();
}

bool ProcessorPass::AwaitsOwnRemovals() {
  const absl::Duration now = reconciler_->around_.clock->Monotonic();
  const auto is_there = [this](const ProcessorMemory::Removal& removal) {
    const model::Observation& seen = input_.seen;
    if (seen.set && seen.set->uid == removal.uid) return !seen.set->terminating;
    for (const model::PodSeen& pod : seen.pods) {
      if (pod.uid == removal.uid) return !pod.terminating;
    }
    for (const model::ClaimSeen& claim : seen.claims) {
      if (claim.uid == removal.uid) return !claim.terminating;
    }
    return false;
  };
  std::erase_if(memory_->removals, [&](const ProcessorMemory::Removal& removal) {
    return now - removal.at > kStaleBound || !is_there(removal);
  });
  return !memory_->removals.empty();
}

void ProcessorPass::ExecuteSteps() {
  for (const model::Step& step : input_.decision->steps) {
    const absl::Status status = Execute(step);
    if (status.ok()) {
      if (!step.reason.empty()) {
        reconciler_->events_.Record(input_.processor, {false, step.reason, "Reconcile", step.note});
      }
      continue;
    }
    if (absl::IsResourceExhausted(status) && step.kind == model::Step::Kind::kEvictPod) {
      input_.decision->message = StrCat("pod ", step.object, " is to be replaced, and PodDisruptionBudget ", key_.name,
                                        " does not allow it now");
      LookAgain(kSoon);
      continue;
    }
    // Gone, or another one by now: the next pass decides anew.
    if (absl::IsNotFound(status) || absl::IsAborted(status)) {
      LookAgain(absl::Seconds(1));
      continue;
    }
    failed_.Update(Annotate(status, step.note));
  }
}

absl::Status ProcessorPass::KeepPodsOwned() {
  for (const Json& pod : pods_) {
    Json owners = Json::array();
    if (const Json* before = kube::Find(pod, {"metadata", "ownerReferences"}); before != nullptr) owners = *before;
    const auto is_ours = [this](const Json& owner) { return kube::TextAt(owner, {"uid"}) == memory_->uid; };
    if (std::any_of(owners.begin(), owners.end(), is_ours)) continue;
    owners.push_back(Json{{"apiVersion", kube::kStreamProcessors.ApiVersion()},
                          {"kind", std::string(kube::kStreamProcessors.kind)},
                          {"name", key_.name},
                          {"uid", memory_->uid}});
    // The list as a whole, so only over the version it was read from.
    const Json patch = {
        {"metadata", {{"ownerReferences", std::move(owners)}, {"resourceVersion", kube::ResourceVersionOf(pod)}}}};
    MS_ASSIGN_OR_RETURN(Json patched, reconciler_->around_.client->Patch(kube::kPods, kube::KeyOf(pod), patch));
    reconciler_->around_.world->Learn(kube::kPods, std::move(patched));
  }
  return absl::OkStatus();
}

absl::Status ProcessorPass::Removed(const model::Step& step, const absl::Status& status) {
  if (status.ok()) memory_->removals.push_back({step.object, step.uid, reconciler_->around_.clock->Monotonic()});
  return status;
}

absl::Status ProcessorPass::Execute(const model::Step& step) {
  kube::Client* const client = reconciler_->around_.client;
  World* const world = reconciler_->around_.world;
  const kube::ObjectKey object{key_.name_space, step.object};
  kube::DeleteOptions deletion;
  deletion.uid = step.uid;
  Log(step.note.empty() ? LogLevel::kDebug : LogLevel::kInfo, "step",
      {{"object", key_.Text()}, {"reconcile", id_}, {"on", step.object}, {"why", step.note}});
  switch (step.kind) {
    case model::Step::Kind::kSetAnnotations: {
      const Json patch = {{"metadata", {{"annotations", step.annotations}, {"uid", step.uid}}}};
      MS_ASSIGN_OR_RETURN(Json pod, client->Patch(kube::kPods, object, patch));
      world->Learn(kube::kPods, std::move(pod));
      return absl::OkStatus();
    }
    case model::Step::Kind::kDeletePod:
      return Removed(step, client->Delete(kube::kPods, object, deletion));
    case model::Step::Kind::kEvictPod:
      return Removed(step, client->Evict(object, step.uid));
    case model::Step::Kind::kGrowClaim: {
      const Json patch = {{"metadata", {{"uid", step.uid}}},
                          {"spec", {{"resources", {{"requests", {{"storage", step.size}}}}}}}};
      MS_ASSIGN_OR_RETURN(Json claim, client->Patch(kube::kPersistentVolumeClaims, object, patch));
      world->Learn(kube::kPersistentVolumeClaims, std::move(claim));
      return absl::OkStatus();
    }
    case model::Step::Kind::kDeleteClaim:
      return Removed(step, client->Delete(kube::kPersistentVolumeClaims, object, deletion));
    case model::Step::Kind::kRecreateSet:
      MS_RETURN_IF_ERROR(KeepPodsOwned());
      deletion.dependents = kube::DeleteOptions::Dependents::kOrphan;
      return Removed(step, client->Delete(kube::kStatefulSets, object, deletion));
  }
  return absl::InternalError("a step of an unknown kind");
}

absl::Status ProcessorPass::WriteStatus() {
  const ReadyWas before = ReadyIn(input_.processor.value("status", Json::object()));
  Json after;
  MS_RETURN_IF_ERROR(WriteStatusIfNews(reconciler_->around_, input_, memory_, &after));
  const ReadyWas now = ReadyIn(after);
  const bool is_bad =
      now.status != "True" && (input_.problem.exists() || (input_.topics && input_.topics->stalled) ||
                               (input_.trouble && input_.trouble->reason == now.reason) || now.reason == "TaskStopped");
  // The steps on the way to Ready are no events; that it is there, that it is not any more, and what is in the way,
  // are.
  const bool flipped = now.status != before.status && (now.status == "True" || before.status == "True");
  if (!flipped && !(is_bad && now.reason != before.reason)) return absl::OkStatus();
  reconciler_->events_.Record(input_.processor, {is_bad, now.reason, "Reconcile", now.message});
  return absl::OkStatus();
}

}  // namespace millstream::reconcile
