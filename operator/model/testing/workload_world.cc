#include "operator/model/testing/workload_world.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/spec/quantity.h"
#include "operator/model/children.h"
#include "operator/model/json_path.h"
#include "operator/model/orders.h"
#include "operator/model/pod_template.h"
#include "operator/model/set_change.h"
#include "operator/model/testing/sample.h"

namespace millstream::model {
namespace {

constexpr absl::Duration kTick = absl::Seconds(2);
constexpr absl::Duration kChaos = absl::Minutes(15);
// Six pods, each with all the patience for warm standbys and for a drain, and some more.
constexpr absl::Duration kQuietAtMost = absl::Hours(3);
constexpr absl::Duration kSession = absl::Seconds(45);
constexpr absl::Duration kCacheLag = absl::Seconds(10);
constexpr size_t kLogLines = 60;

std::string ClaimSize(const Json& spec) {
  const Json& claims = ListAt(spec, {"volumeClaimTemplates"});
  return claims.empty() ? "" : TextAt(claims.front(), {"spec", "resources", "requests", "storage"});
}

}  // namespace

WorkloadWorld::WorkloadWorld(uint64_t seed) : random_(seed) {
  tasks_.resize(Random(1, 8));
  replicas_ = Random(1, 4);
  standbys_ = Random(0, 1);
  storage_gib_ = Chance(0.5) ? 10 : 0;
  restore_time_ = absl::Seconds(Random(0, 60));
  image_quality_[0] = Quality::kGood;
  Rebuild();
}

int WorkloadWorld::Random(int from, int to) { return std::uniform_int_distribution<int>(from, to)(random_); }
bool WorkloadWorld::Chance(double probability) { return std::bernoulli_distribution(probability)(random_); }

void WorkloadWorld::Log(std::string what) {
  log_.push_back(StrCat(absl::ToInt64Seconds(now_ - start_), " s: ", what));
  if (log_.size() > kLogLines) log_.erase(log_.begin());
}

void WorkloadWorld::Fail(std::string what) {
  Log(what);
  if (failure_.empty()) failure_ = std::move(what);
}

void WorkloadWorld::Rebuild() {
  std::string spec =
      StrCat(kMinimal, "  container: {image: \"registry.example.com/totals:", image_, "\"}\n",
             "  replicas: ", replicas_, "\n  standbyReplicas: ", std::min(standbys_, std::max(0, replicas_ - 1)), "\n",
             "  desiredState: ", paused_ ? "Paused" : "Running", "\n");
  if (storage_gib_ > 0) StrAppend(&spec, "  storage: {size: ", storage_gib_, "Gi}\n");
  absl::StatusOr<Processor> processor = TryProcessor(spec);
  MS_CHECK_OK(processor);
  processor_ = *std::move(processor);
  ModelOptions options = SampleOptions();
  options.sidecar_image = StrCat("registry.example.com/sidecar:", operator_image_);
  absl::StatusOr<Json> set = StatefulSetOf(*processor_, options);
  MS_CHECK_OK(set);
  wanted_ = *std::move(set);
  quality_ = image_quality_.at(image_);
}

void WorkloadWorld::Edit() {
  ++counts_.edits;
  switch (Random(0, 9)) {
    case 0:
    case 1:
    case 2:
      replicas_ = Random(0, 6);
      break;
    case 3:
      standbys_ = Random(0, 2);
      break;
    case 4:
      paused_ = !paused_;
      break;
    case 5:
    case 6:
      image_ = image_quality_.rbegin()->first + 1;
      image_quality_[image_] = static_cast<Quality>(Random(0, 4) % 3);
      break;
    case 7:
      image_ = std::max(0, image_ - 1);  // a revert
      break;
    case 8:
      if (storage_gib_ == 0 || Chance(0.3)) {
        storage_gib_ = storage_gib_ == 0 ? 10 : 0;
      } else {
        storage_gib_ += 10;
      }
      break;
    case 9:
      ++operator_image_;
      break;
  }
  Rebuild();
  Log(StrCat("edit: replicas ", replicas_, ", standbys ", standbys_, paused_ ? ", paused" : "", ", image ", image_,
             " (", static_cast<int>(quality_), "), storage ", storage_gib_, ", operator ", operator_image_));
}

void WorkloadWorld::Trouble() {
  for (auto& [ordinal, pod] : pods_) {
    if (pod.terminating) continue;
    if (Chance(0.002)) pod.flaps_until = now_ + absl::Seconds(Random(1, 90));
    if (Chance(0.0005)) {
      Log(StrCat("node of ", ordinal, " fails"));
      Terminate(ordinal);
    }
    if (Chance(0.001)) {
      Log(StrCat("somebody spoils the orders of ", ordinal));
      if (Chance(0.7)) pod.orders = Chance(0.5) ? "" : "{nonsense";
      pod.drain_since = absl::InfiniteFuture();
      pod.orders_arrive = now_ + absl::Seconds(30);
    }
  }
  for (auto& [ordinal, claim] : claims_) {
    if (!Chance(0.0003) || claim.lost) continue;
    Log(StrCat("volume of ", ordinal, " is lost"));
    claim.lost = true;
    if (pods_.contains(ordinal) && pods_[ordinal].on_volume) pods_[ordinal].breaks = now_;
  }
  if (set_ && Chance(0.001)) {
    Log("somebody deletes the StatefulSet and keeps its pods");
    set_.reset();
  }
}

void WorkloadWorld::Terminate(int ordinal) {
  Pod& pod = pods_.at(ordinal);
  if (pod.terminating) return;
  pod.terminating = true;
  pod.ends = now_ + absl::Seconds(Random(1, 20));
}

void WorkloadWorld::RunController() {
  if (!set_ || set_->terminating) {
    if (set_ && Chance(0.5)) set_.reset();
    return;
  }
  if (set_->observed < set_->generation && Chance(0.5)) set_->observed = set_->generation;
  if (set_->observed < set_->generation) return;
  const int replicas = static_cast<int>(IntAt(set_->spec, {"replicas"}));
  const std::string size = ClaimSize(set_->spec);
  for (int ordinal = 0; ordinal < replicas; ++ordinal) {
    if (pods_.contains(ordinal)) continue;
    const auto claim = claims_.find(ordinal);
    if (claim != claims_.end() && claim->second.terminating) continue;
    Pod pod;
    pod.uid = StrCat("pod-", next_uid_++);
    pod.made_from = set_->made_from;
    pod.created = now_;
    pod.started = now_ + absl::Seconds(Random(2, 10));
    pod.ready_changed = pod.started;
    pod.on_volume = !size.empty();
    if (pod.made_from.quality == Quality::kCrashesLater) pod.breaks = pod.started + absl::Seconds(Random(10, 120));
    if (pod.on_volume && claim == claims_.end()) {
      Claim made;
      made.uid = StrCat("claim-", next_uid_++);
      made.asked = made.granted = spec::ParseQuantity(size).value_or(0);
      claims_[ordinal] = made;
    }
    if (pod.on_volume && claims_[ordinal].lost) pod.breaks = now_;
    // What its predecessor had in its own folder is gone.
    for (Task& task : tasks_) {
      const absl::Duration again = pod.on_volume ? absl::Seconds(2) : restore_time_;
      if (task.owner == ordinal) task.left = again;
      if (const auto copy = task.copies.find(ordinal); copy != task.copies.end()) copy->second = again;
    }
    pods_[ordinal] = pod;
  }
  for (auto& [ordinal, pod] : pods_) {
    if (ordinal >= replicas && !pod.terminating) Terminate(ordinal);
  }
}

void WorkloadWorld::RunKubelets() {
  for (auto at = pods_.begin(); at != pods_.end();) {
    at = at->second.ends <= now_ ? pods_.erase(at) : std::next(at);
  }
  for (auto& [ordinal, claim] : claims_) {
    if (claim.granted < claim.asked && Chance(0.3)) claim.granted = claim.asked;
  }
  std::erase_if(claims_, [this](const auto& item) { return item.second.terminating && !pods_.contains(item.first); });
  for (auto& [ordinal, pod] : pods_) {
    if (pod.orders_arrive <= now_) {
      pod.orders_seen = pod.orders;
      pod.orders_arrive = absl::InfiniteFuture();
    }
    pod.lives = now_ >= pod.started && now_ < pod.breaks && pod.made_from.quality != Quality::kNeverReady;
    const bool restored = std::all_of(tasks_.begin(), tasks_.end(), [&](const Task& task) {
      return task.owner != ordinal || task.left <= absl::ZeroDuration();
    });
    const bool ready = pod.lives && restored && now_ >= pod.flaps_until && now_ >= pod.started + absl::Seconds(6);
    if (ready != pod.ready) pod.ready_changed = now_;
    pod.ready = ready;
    if (ready && !pod.ever_ready) pod.first_ready = now_;
    pod.ever_ready = pod.ever_ready || ready;
    if (ready && !pod.terminating) down_by_us_.erase(ordinal);
  }
}

bool WorkloadWorld::Drains(const Pod& pod) const { return SaysDrain(pod.orders_seen); }

bool WorkloadWorld::WasReady(const Pod& pod) const { return now_ - pod.first_ready >= kCacheLag; }

bool WorkloadWorld::IsMember(int ordinal) const {
  const auto pod = pods_.find(ordinal);
  return pod != pods_.end() && pod->second.lives && !pod->second.terminating;
}

int WorkloadWorld::TasksOf(int ordinal) const {
  return static_cast<int>(
      std::count_if(tasks_.begin(), tasks_.end(), [ordinal](const Task& task) { return task.owner == ordinal; }));
}

void WorkloadWorld::RunGroup() {
  std::vector<int> members;  // that take part and do not drain
  for (const auto& [ordinal, pod] : pods_) {
    if (IsMember(ordinal) && !Drains(pod)) members.push_back(ordinal);
  }
  for (Task& task : tasks_) {
    if (IsMember(task.owner)) {
      task.owner_missing = absl::InfiniteFuture();
      task.left = std::max(absl::ZeroDuration(), task.left - kTick);
    } else if (task.owner >= 0) {
      task.owner_missing = std::min(task.owner_missing, now_);
      if (now_ - task.owner_missing > kSession) task.owner = -1;
    }
    for (auto& [ordinal, left] : task.copies) {
      if (IsMember(ordinal)) left = std::max(absl::ZeroDuration(), left - kTick);
    }
  }
  if (members.empty()) return;
  for (Task& task : tasks_) {
    if (task.owner >= 0) continue;
    task.owner = members[Random(0, static_cast<int>(members.size()) - 1)];
    task.left = restore_time_;
    for (const auto& [ordinal, left] : task.copies) {
      if (left > absl::ZeroDuration() || !std::count(members.begin(), members.end(), ordinal)) continue;
      task.owner = ordinal;
      task.left = absl::ZeroDuration();
      break;
    }
    task.copies.erase(task.owner);
    task.owner_missing = absl::InfiniteFuture();
  }
  MoveOneTask(members);
  KeepCopies(members);
}

// From one that drains, or from the fullest to the emptiest; only to where it is warm, else it is warmed up first.
void WorkloadWorld::MoveOneTask(const std::vector<int>& members) {
  const auto fewer = [this](int a, int b) { return TasksOf(a) < TasksOf(b); };
  const int emptiest = *std::min_element(members.begin(), members.end(), fewer);
  const int fullest = *std::max_element(members.begin(), members.end(), fewer);
  for (Task& task : tasks_) {
    const bool drains = pods_.contains(task.owner) && Drains(pods_.at(task.owner)) && IsMember(task.owner);
    const bool spread = task.owner == fullest && TasksOf(fullest) > TasksOf(emptiest) + 1;
    if ((!drains && !spread) || task.left > absl::ZeroDuration()) continue;
    for (const int to : members) {
      const auto copy = task.copies.find(to);
      if (to == task.owner || copy == task.copies.end() || copy->second > absl::ZeroDuration()) continue;
      if (spread && !drains && to != emptiest) continue;
      task.copies.erase(copy);
      if (!drains) task.copies[task.owner] = absl::ZeroDuration();
      task.owner = to;
      task.left = absl::ZeroDuration();
      return;
    }
    if (emptiest != task.owner) task.copies.try_emplace(emptiest, restore_time_);
  }
}

void WorkloadWorld::KeepCopies(const std::vector<int>& members) {
  const int wanted = processor_->typed().standby_replicas;
  for (Task& task : tasks_) {
    std::erase_if(task.copies, [this](const auto& copy) { return !pods_.contains(copy.first); });
    for (const int ordinal : members) {
      if (static_cast<int>(task.copies.size()) >= wanted) break;
      if (ordinal != task.owner) task.copies.try_emplace(ordinal, restore_time_);
    }
  }
}

// The operator asks the sidecars; some answers are lost.
void WorkloadWorld::Hear() {
  for (const auto& [ordinal, pod] : pods_) {
    if (!pod.lives || (!quiet_ && Chance(0.1))) continue;
    SidecarReport report;
    report.heard = now_;
    report.pod_uid = pod.uid;
    report.partitions = static_cast<int>(tasks_.size());
    report.workers = 1;
    report.drained = Drains(pod) && TasksOf(ordinal) == 0;
    report.state = TextAt(Json::parse(pod.orders_seen, nullptr, false), {"state"});
    for (size_t number = 0; number < tasks_.size(); ++number) {
      const Task& task = tasks_[number];
      const auto copy = task.copies.find(ordinal);
      if (task.owner != ordinal && copy == task.copies.end()) continue;
      TaskSeen seen;
      seen.task = static_cast<int>(number);
      if (task.owner == ordinal) {
        seen.state = task.left > absl::ZeroDuration() ? TaskSeen::State::kRestoring : TaskSeen::State::kActive;
      } else {
        seen.state = copy->second > absl::ZeroDuration() ? TaskSeen::State::kRestoring : TaskSeen::State::kStandby;
      }
      report.tasks.push_back(seen);
    }
    heard_[PodNameOf(*processor_, ordinal)] = report;
  }
}

Observation WorkloadWorld::Look() {
  // Caches lag behind, but never behind what the operator wrote itself.
  if (last_look_ && !wrote_ && !quiet_ && now_ - looked_ < kCacheLag && Chance(0.5)) {
    last_look_->reports = heard_;
    return *last_look_;
  }
  Observation look;
  if (set_) {
    SetSeen seen;
    seen.uid = set_->uid;
    seen.generation = set_->generation;
    seen.observed_generation = set_->observed;
    seen.replicas = static_cast<int>(IntAt(set_->spec, {"replicas"}));
    seen.template_hash = set_->made_from.hash;
    seen.terminating = set_->terminating;
    seen.spec = set_->spec;
    look.set = seen;
  }
  for (const auto& [ordinal, pod] : pods_) {
    PodSeen seen;
    seen.name = PodNameOf(*processor_, ordinal);
    seen.ordinal = ordinal;
    seen.uid = pod.uid;
    seen.template_hash = pod.made_from.hash;
    seen.spec_hash = pod.made_from.spec_hash;
    seen.created = pod.created;
    seen.ready = pod.ready;
    seen.ready_changed = pod.ready_changed;
    seen.ever_ready = pod.ever_ready;
    seen.terminating = pod.terminating;
    seen.on_volume = pod.on_volume;
    seen.terminating_since = pod.ends;
    seen.orders = pod.orders;
    seen.drain_since = pod.drain_since;
    look.pods.push_back(seen);
  }
  for (const auto& [ordinal, claim] : claims_) {
    ClaimSeen seen;
    seen.name = ClaimNameOf(*processor_, ordinal);
    seen.ordinal = ordinal;
    seen.uid = claim.uid;
    seen.asked = claim.asked;
    seen.granted = claim.granted;
    seen.lost = claim.lost;
    seen.terminating = claim.terminating;
    look.claims.push_back(seen);
  }
  look.reports = heard_;
  last_look_ = look;
  looked_ = now_;
  wrote_ = false;
  return look;
}

// Pods `from` to `to` (not included) lose their place.
void WorkloadWorld::CheckRemoval(int from, int to) {
  ++counts_.scale_ins;
  for (int ordinal = from; ordinal < to; ++ordinal) {
    const auto found = pods_.find(ordinal);
    if (found == pods_.end() || replicas_ == 0) continue;
    const Pod& pod = found->second;
    const bool gone = !pod.ready && now_ - pod.ready_changed > kGoneAfter;
    const bool drained = Drains(pod) && TasksOf(ordinal) == 0;
    if (!WasReady(pod) || pod.terminating || gone || drained) continue;
    Fail(StrCat("scale-in removes pod ", ordinal, " that has not drained and holds ", TasksOf(ordinal), " tasks"));
  }
}

void WorkloadWorld::ApplySet(const Decision& decision) {
  if (decision.hold_set || (set_ && set_->terminating)) return;
  const Json& spec = decision.stateful_set.at("spec");
  const Json& annotations = spec.at("template").at("metadata").at("annotations");
  const Template made_from{TextAt(annotations, {kTemplateHashAnnotation}), TextAt(annotations, {kSpecHashAnnotation}),
                           quality_};
  const int replicas = static_cast<int>(IntAt(spec, {"replicas"}));
  const int before =
      set_ ? static_cast<int>(IntAt(set_->spec, {"replicas"})) : (pods_.empty() ? 0 : pods_.rbegin()->first + 1);
  if (replicas < before) {
    Log(StrCat("scale in from ", before, " to ", replicas));
    CheckRemoval(replicas, before);
  }
  if (!set_) {
    set_ = Set{StrCat("set-", next_uid_++), 1, 0, spec, made_from, false};
    wrote_ = true;
    return;
  }
  if (set_->spec == spec) return;
  for (const char* field : {"serviceName", "podManagementPolicy", "selector", "volumeClaimTemplates"}) {
    if (set_->spec.value(field, Json()) != spec.value(field, Json())) {
      return Fail(StrCat("applies a StatefulSet whose ", field, " cannot be changed"));
    }
  }
  set_->spec = spec;
  set_->made_from = made_from;
  ++set_->generation;
  wrote_ = true;
}

int WorkloadWorld::OrdinalOf(const std::string& name) const {
  return std::atoi(name.substr(name.rfind('-') + 1).c_str());
}

void WorkloadWorld::Evict(int ordinal, const Step& step) {
  Pod& pod = pods_.at(ordinal);
  if (pod.terminating) return;
  if (pod.ready) {
    const int replicas = set_ ? static_cast<int>(IntAt(set_->spec, {"replicas"})) : 0;
    const auto healthy = std::count_if(pods_.begin(), pods_.end(),
                                       [](const auto& item) { return item.second.ready && !item.second.terminating; });
    if (healthy - 1 < replicas - 1) {
      ++counts_.refused_evictions;
      if (looked_ == now_) Fail(StrCat("evicts pod ", ordinal, " though it can see that the budget does not allow it"));
      return Log(StrCat("429: ", step.note));
    }
    for (const int other : down_by_us_) {
      if (other != ordinal && other < replicas)
        Fail(StrCat("evicts pod ", ordinal, " while pod ", other, " is down by our hand"));
    }
    down_by_us_.insert(ordinal);
  }
  ++counts_.evictions;
  if (Drains(pod) && TasksOf(ordinal) == 0) ++counts_.drained_evictions;
  Log(step.note);
  Terminate(ordinal);
}

void WorkloadWorld::Execute(const Step& step) {
  const int ordinal = OrdinalOf(step.object);
  const auto pod = pods_.find(ordinal);
  switch (step.kind) {
    case Step::Kind::kSetAnnotations: {
      if (pod == pods_.end() || pod->second.uid != step.uid) return;
      const std::string orders = TextAt(step.annotations, {kOrdersAnnotation});
      if (SaysDrain(orders) && !SaysDrain(pod->second.orders)) ++counts_.drains;
      pod->second.orders = orders;
      pod->second.orders_arrive = now_ + absl::Seconds(Random(1, 60));
      if (step.annotations.contains(std::string(kDrainSinceAnnotation))) {
        pod->second.drain_since = TimeAt(step.annotations, {kDrainSinceAnnotation}, absl::InfiniteFuture());
      }
      Log(StrCat("orders of ", ordinal, ": ", orders));
      break;
    }
    case Step::Kind::kDeletePod: {
      if (pod == pods_.end() || pod->second.uid != step.uid || pod->second.terminating) return;
      const bool lost = pod->second.on_volume && claims_.contains(ordinal) && claims_.at(ordinal).lost;
      if (WasReady(pod->second) && (pod->second.ready || !lost)) {
        Fail(StrCat("deletes pod ", ordinal, " that was ready: ", step.note));
      }
      ++counts_.deletions;
      Log(step.note);
      Terminate(ordinal);
      break;
    }
    case Step::Kind::kEvictPod:
      if (pod == pods_.end() || pod->second.uid != step.uid) return;
      Evict(ordinal, step);
      break;
    case Step::Kind::kGrowClaim: {
      const auto claim = claims_.find(ordinal);
      if (claim == claims_.end() || claim->second.uid != step.uid) return;
      const int64_t size = spec::ParseQuantity(step.size).value_or(0);
      if (size < claim->second.asked) Fail(StrCat("shrinks a claim: ", step.note));
      claim->second.asked = size;
      ++counts_.grown_claims;
      break;
    }
    case Step::Kind::kDeleteClaim: {
      const auto claim = claims_.find(ordinal);
      if (claim == claims_.end() || claim->second.uid != step.uid) return;
      if (!claim->second.lost) Fail(StrCat("deletes a claim that is not lost: ", step.note));
      claim->second.terminating = true;
      ++counts_.lost_claims;
      Log(step.note);
      break;
    }
    case Step::Kind::kRecreateSet:
      if (!set_ || set_->uid != step.uid) return;
      set_->terminating = true;
      ++counts_.recreated_sets;
      Log(step.note);
      break;
  }
  wrote_ = true;
}

void WorkloadWorld::Pass() {
  ++counts_.passes;
  Hear();
  const Observation look = Look();
  const Decision decision = NextSteps(*processor_, wanted_, look, {}, now_);
  if (decision.reason.empty() != decision.message.empty()) Fail("a reason without a message, or the other way round");
  ApplySet(decision);
  for (const Step& step : decision.steps) Execute(step);
}

std::string WorkloadWorld::WhatIsWrong(const Decision& decision) const {
  if (!decision.reason.empty()) return StrCat(decision.reason, ": ", decision.message);
  if (!decision.steps.empty()) return StrCat("a step is left: ", decision.steps.front().note);
  if (!set_ || IntAt(set_->spec, {"replicas"}) != replicas_) return "replicas are not as wanted";
  if (static_cast<int>(pods_.size()) != replicas_) return "pods are not as many as wanted";
  for (const auto& [ordinal, pod] : pods_) {
    if (!pod.ready) return StrCat("pod ", ordinal, " is not ready");
    if (pod.made_from.hash != set_->made_from.hash) return StrCat("pod ", ordinal, " is outdated");
    if (pod.orders_seen != OrdersOf(*processor_, false))
      return StrCat("pod ", ordinal, " has orders ", pod.orders_seen);
    if (storage_gib_ > 0 && claims_.at(ordinal).granted < (int64_t{storage_gib_} << 30)) return "a claim is too small";
    if (pod.on_volume != (storage_gib_ > 0)) return StrCat("pod ", ordinal, " has its state in the wrong place");
  }
  for (const Task& task : tasks_) {
    if (replicas_ > 0 && !pods_.contains(task.owner)) return "a task has no owner";
  }
  return "";
}

std::string WorkloadWorld::Run() {
  std::string wrong = "not begun";
  int steady = 0;
  for (; failure_.empty() && now_ - start_ < kChaos + kQuietAtMost && steady < 20; now_ += kTick) {
    if (!quiet_ && now_ - start_ >= kChaos) {
      quiet_ = true;
      image_ = image_quality_.rbegin()->first + 1;
      image_quality_[image_] = Quality::kGood;
      Rebuild();
      Log("quiet from now on");
    }
    if (!quiet_ && Chance(0.02)) Edit();
    if (!quiet_) Trouble();
    RunController();
    RunKubelets();
    RunGroup();
    Pass();
    if (!quiet_) continue;
    wrong = WhatIsWrong(NextSteps(*processor_, wanted_, Look(), {}, now_));
    steady = wrong.empty() ? steady + 1 : 0;
  }
  if (failure_.empty() && !wrong.empty()) Fail(StrCat("does not come to rest: ", wrong));
  if (failure_.empty()) return "";
  std::string text = StrCat(failure_, "\n");
  for (const auto& [ordinal, pod] : pods_) {
    StrAppend(&text, "pod ", ordinal, ": ", pod.made_from.hash, pod.lives ? " lives" : " dead",
              pod.ready ? " ready" : "", pod.terminating ? " terminating" : "", pod.ever_ready ? "" : " never ready",
              ", sees ", pod.orders_seen, ", ", TasksOf(ordinal), " tasks\n");
  }
  for (const std::string& line : log_) StrAppend(&text, line, "\n");
  return text;
}

}  // namespace millstream::model
