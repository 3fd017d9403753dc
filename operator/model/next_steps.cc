#include "operator/model/next_steps.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/strings.h"
#include "operator/model/json_path.h"
#include "operator/model/orders.h"
#include "operator/model/pod_template.h"
#include "operator/model/roll.h"
#include "operator/model/set_change.h"
#include "operator/model/workload_view.h"

namespace millstream::model {
namespace {

// Pods tell when they change; that they do not for too long is seen by looking.
constexpr absl::Duration kPollStuck = absl::Seconds(30);

std::string Pods(int number) { return StrCat(number, number == 1 ? " pod" : " pods"); }

class Pass {
 public:
  Pass(const Processor& processor, const Json& stateful_set, const Observation& observed, const RollLimits& limits,
       absl::Time now)
      : processor_(processor),
        wanted_(stateful_set),
        observed_(observed),
        limits_(limits),
        now_(now),
        view_(processor, stateful_set, observed, now) {}

  Decision Run() {
    ChooseReplicas();
    ChooseSet();
    GrowClaims();
    const bool settled = Settled();
    Repairs repairs;
    Roll roll;
    if (settled) repairs = RepairsOf(view_);
    // Nothing else goes down while something is repaired, or while a scale-in moves tasks.
    if (settled && repairs.steps.empty() && !scaling_in_) roll = RollOf(view_, limits_);
    // In a scale-in the roll pauses, and a pod that was draining for it works again.
    GiveOrders(roll, settled && repairs.steps.empty());
    decision_.steps.insert(decision_.steps.end(), repairs.steps.begin(), repairs.steps.end());
    decision_.steps.insert(decision_.steps.end(), roll.steps.begin(), roll.steps.end());
    decision_.operator_roll = settled ? roll.operator_roll : WantsOperatorRoll(wanted_, observed_);
    Explain(repairs, roll);
    NoteIdleReplicas();
    return std::move(decision_);
  }

 private:
  // How many pods there may be now.
  void ChooseReplicas() {
    const int target = view_.target();
    const int current = view_.current();
    int replicas = std::max(target, current);
    if (target == 0) replicas = 0;  // nobody is left to hand over to: each pod commits what it has begun and ends
    while (replicas > target && view_.MayGo(replicas - 1)) --replicas;
    scaling_in_ = replicas > target;
    decision_.replicas = replicas;
    if (!observed_.set || replicas == current) return;
    decision_.scale_reason = replicas > current ? "ScalingOut" : "ScalingIn";
    decision_.scale_note = StrCat("from ", Pods(current), " to ", Pods(replicas));
    if (replicas != target) StrAppend(&decision_.scale_note, ", on the way to ", target);
  }

  // The object to apply, and whether the one that is there has to go first.
  void ChooseSet() {
    decision_.stateful_set = wanted_;
    decision_.stateful_set["spec"]["replicas"] = decision_.replicas;
    if (!observed_.set) return;
    if (observed_.set->terminating) {
      decision_.hold_set = true;
      return;
    }
    SetChange change = CompareSets(wanted_.at("spec"), observed_.set->spec);
    if (!change.claim_templates.empty()) {
      decision_.stateful_set["spec"]["volumeClaimTemplates"] = std::move(change.claim_templates);
    }
    for (std::string& refused : change.refused) decision_.notes.push_back(std::move(refused));
    if (!change.recreate) return;
    recreates_ = true;
    decision_.hold_set = true;
    Step step;
    step.kind = Step::Kind::kRecreateSet;
    step.object = processor_.typed().name;
    step.uid = observed_.set->uid;
    step.reason = "RecreatingStatefulSet";
    step.note = StrCat("the StatefulSet is made anew while its pods go on: ", change.why);
    recreate_note_ = step.note;
    decision_.steps.push_back(std::move(step));
  }

  // Before the pods that need the room. Claims that no pod uses grow when one does.
  void GrowClaims() {
    const Json& templates = ListAt(decision_.stateful_set, {"spec", "volumeClaimTemplates"});
    if (templates.empty()) return;
    const Json* size = Find(templates.front(), {"spec", "resources", "requests", "storage"});
    const int64_t wanted = BytesAt(templates.front(), {"spec", "resources", "requests", "storage"});
    std::vector<Step> steps;
    for (const ClaimSeen& claim : observed_.claims) {
      if (claim.ordinal >= std::max(view_.target(), decision_.replicas) || claim.terminating || claim.lost) continue;
      if (!claim.resize_error.empty()) {
        decision_.notes.push_back(StrCat("the volume of claim ", claim.name, " does not grow: ", claim.resize_error));
      }
      if (claim.granted > 0 && claim.granted < claim.asked) grows_ = claim.name;
      if (claim.file_system_waits_since != absl::InfiniteFuture()) LookAgain(absl::Minutes(1));
      // A claim that is not bound cannot be changed.
      if (claim.asked >= wanted || claim.granted == 0) continue;
      Step step;
      step.kind = Step::Kind::kGrowClaim;
      step.object = claim.name;
      step.uid = claim.uid;
      step.size = size->is_string() ? size->get<std::string>() : size->dump();
      step.reason = "GrowingVolume";
      step.note = StrCat("claim ", claim.name, " grows from ", claim.asked_text, " to ", step.size);
      grows_ = claim.name;
      steps.push_back(std::move(step));
    }
    decision_.steps.insert(decision_.steps.begin(), steps.begin(), steps.end());
  }

  // New pods will be made as wanted, so old ones may go.
  bool Settled() const {
    if (!observed_.set || observed_.set->terminating || recreates_) return false;
    return observed_.set->generation == observed_.set->observed_generation &&
           observed_.set->template_hash == view_.template_hash();
  }

  void GiveOrders(const Roll& roll, bool judged) {
    for (const PodSeen& pod : observed_.pods) {
      if (view_.Living(pod.ordinal) == nullptr) continue;
      const bool told = view_.ToldToDrain(pod);
      bool drain = roll.draining == pod.ordinal;
      // Surplus; to zero nobody drains.
      if (pod.ordinal >= view_.target()) drain = view_.target() > 0 || told;
      // Nothing was decided about it in this pass: it stays as it is.
      if (!judged && pod.ordinal < view_.target()) drain = told && view_.Outdated(pod);
      std::string orders = OrdersOf(processor_, drain);
      // It is told now, or somebody took the time away.
      const bool undated = drain && (!told || pod.drain_since > now_ + absl::Minutes(1));
      if (orders == pod.orders && !undated) continue;
      Step step;
      step.kind = Step::Kind::kSetAnnotations;
      step.object = pod.name;
      step.uid = pod.uid;
      step.annotations = Json{{std::string(kOrdersAnnotation), std::move(orders)}};
      if (undated) {
        step.annotations[std::string(kDrainSinceAnnotation)] =
            absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", now_, absl::UTCTimeZone());
      }
      if (drain && !told) {
        step.reason = "DrainingPod";
        step.note = pod.ordinal >= view_.target()
                        ? StrCat("pod ", pod.name, " hands its tasks over: it is not wanted any more")
                        : roll.drain_note;
      } else if (!drain && told) {
        step.annotations[std::string(kDrainSinceAnnotation)] = nullptr;
        step.reason = "KeepingPod";
        step.note = StrCat("pod ", pod.name, " takes part again: it was told to drain and is wanted after all");
      }
      decision_.steps.push_back(std::move(step));
    }
  }

  // The first thing that is under way is what a person wants to know.
  void Explain(const Repairs& repairs, const Roll& roll) {
    if (recreates_) {
      Say("RecreatingStatefulSet", recreate_note_);
    } else if (!observed_.set) {
      Say("CreatingStatefulSet", StrCat("the StatefulSet with ", Pods(decision_.replicas), " is made"));
    } else if (observed_.set->terminating) {
      Say("RecreatingStatefulSet", "the StatefulSet is deleted and made anew when it is gone");
    } else if (!repairs.steps.empty()) {
      Say("ReplacingPods", repairs.steps.back().note);
      LookAgain(kPollSidecars);
    } else if (scaling_in_) {
      ExplainScaleIn();
    } else if (!roll.reason.empty()) {
      Say(roll.reason, roll.message);
      decision_.stuck = decision_.stuck || roll.stuck;
      LookAgain(roll.look_again);
    } else if (!Settled()) {
      Say("UpdatingStatefulSet", "the StatefulSet's controller has not seen the newest template yet");
    } else {
      ExplainQuiet();
    }
  }

  void ExplainScaleIn() {
    std::string waits;
    for (int ordinal = decision_.replicas - 1; ordinal >= view_.target(); --ordinal) {
      const PodSeen* pod = view_.Living(ordinal);
      if (pod == nullptr || view_.MayGo(ordinal)) continue;
      const SidecarReport* report = observed_.FreshReport(*pod, now_);
      StrAppend(&waits, waits.empty() ? "" : "; ", pod->name);
      if (report == nullptr) {
        StrAppend(&waits, " has not said how far it is");
      } else {
        const int held = report->Count(TaskSeen::State::kActive) + report->Count(TaskSeen::State::kRestoring);
        StrAppend(&waits, " still has ", held, held == 1 ? " task" : " tasks");
      }
    }
    Say("ScalingIn", StrCat("from ", Pods(decision_.replicas), " to ", view_.target(), ": ", waits));
    LookAgain(kPollSidecars);
  }

  // Nothing is to be replaced: pods start, volumes grow, orders take effect; or all is as wanted.
  void ExplainQuiet() {
    std::string waits;
    bool settling = false;
    for (int ordinal = 0; ordinal < view_.target(); ++ordinal) {
      if (view_.Available(ordinal)) continue;
      const PodSeen* pod = view_.Living(ordinal);
      if (pod != nullptr && pod->ready) {
        settling = true;
        continue;
      }
      StrAppend(&waits, waits.empty() ? "" : "; ", view_.Describe(ordinal));
      decision_.stuck = decision_.stuck || view_.NeedsPerson(ordinal);
    }
    if (settling) LookAgain(kSettleTime);
    if (!waits.empty()) {
      LookAgain(kPollStuck);
      return Say("StartingPods", waits);
    }
    if (decision_.replicas != view_.current()) return Say(decision_.scale_reason, decision_.scale_note);
    for (const PodSeen& pod : observed_.pods) {
      if (pod.ordinal < view_.target()) continue;
      decision_.stuck = decision_.stuck || view_.NeedsPerson(pod.ordinal);
      LookAgain(kPollStuck);
      return Say("ScalingIn", pod.terminating ? view_.Describe(pod.ordinal) : StrCat(pod.name, " is about to end"));
    }
    if (!grows_.empty()) return Say("GrowingVolume", StrCat("the volume of claim ", grows_, " is growing"));
    ExplainState();
  }

  // Paused or running, as soon as every sidecar that answers says so.
  void ExplainState() {
    const std::string wanted(spec::ToString(processor_.typed().desired_state));
    for (const PodSeen& pod : observed_.pods) {
      const SidecarReport* report = observed_.FreshReport(pod, now_);
      if (pod.terminating || report == nullptr || report->state.empty() || report->state == wanted) continue;
      const bool pausing = wanted == "Paused";
      Say(pausing ? "Pausing" : "Resuming", StrCat(pod.name, " is still ", pausing ? "running" : "paused"));
      LookAgain(kPollSidecars);
      return;
    }
  }

  void NoteIdleReplicas() {
    const int tasks = TotalsOf(view_.FreshReports()).total;
    const int idle = view_.target() - tasks;
    if (tasks == 0 || idle <= 0) return;
    const bool copies = processor_.typed().standby_replicas > 0;
    decision_.notes.push_back(StrCat(idle, " of ", view_.target(), " replicas ", idle == 1 ? "is" : "are",
                                     copies ? " there for copies only" : " idle", ": there are ", tasks,
                                     " tasks, one for each partition"));
  }

  void Say(std::string reason, std::string message) {
    decision_.reason = std::move(reason);
    decision_.message = std::move(message);
  }

  void LookAgain(absl::Duration after) { decision_.look_again = std::min(decision_.look_again, after); }

  const Processor& processor_;
  const Json& wanted_;
  const Observation& observed_;
  const RollLimits& limits_;
  const absl::Time now_;
  const WorkloadView view_;
  Decision decision_;
  bool scaling_in_ = false;
  bool recreates_ = false;
  std::string recreate_note_, grows_;
};

}  // namespace

Decision NextSteps(const Processor& processor, const Json& stateful_set, const Observation& observed,
                   const RollLimits& limits, absl::Time now) {
  return Pass(processor, stateful_set, observed, limits, now).Run();
}

bool WantsOperatorRoll(const Json& stateful_set, const Observation& observed) {
  const Json* annotations = Find(stateful_set, {"spec", "template", "metadata", "annotations"});
  if (annotations == nullptr) return false;
  const std::string template_hash = TextAt(*annotations, {kTemplateHashAnnotation});
  const std::string spec_hash = TextAt(*annotations, {kSpecHashAnnotation});
  bool some = false;
  for (const PodSeen& pod : observed.pods) {
    if (pod.terminating || pod.template_hash == template_hash) continue;
    if (pod.spec_hash != spec_hash) return false;  // the user wants them replaced
    some = true;
  }
  return some;
}

}  // namespace millstream::model
