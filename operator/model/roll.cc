#include "operator/model/roll.h"

#include <algorithm>
#include <utility>

#include "common/base/strings.h"

namespace millstream::model {
namespace {

Step PodStep(Step::Kind kind, const PodSeen& pod, std::string reason, std::string note) {
  Step step;
  step.kind = kind;
  step.object = pod.name;
  step.uid = pod.uid;
  step.reason = std::move(reason);
  step.note = std::move(note);
  return step;
}

// Not ready for so long that it is no restart of its worker, and not busy with its state.
bool Broken(const WorkloadView& view, const PodSeen& pod) {
  return !pod.ready && view.now() - pod.ready_changed > kBrokenAfter && !view.Restores(pod);
}

void ReplaceLostVolume(const PodSeen& pod, const ClaimSeen& claim, Repairs* repairs) {
  if (!claim.terminating) {
    Step step;
    step.kind = Step::Kind::kDeleteClaim;
    step.object = claim.name;
    step.uid = claim.uid;
    step.reason = "VolumeLost";
    step.note = StrCat("the volume of claim ", claim.name,
                       " is gone: it is replaced by an empty one, the state is "
                       "restored from the changelogs");
    repairs->steps.push_back(std::move(step));
  }
  // The claim stays until no pod uses it.
  repairs->steps.push_back(PodStep(Step::Kind::kDeletePod, pod, "ReplacingPod",
                                   StrCat("pod ", pod.name, " is replaced: its volume is gone")));
  repairs->ordinals.push_back(pod.ordinal);
}

class Roller {
 public:
  Roller(const WorkloadView& view, const RollLimits& limits) : view_(view), limits_(limits) {}

  Roll Next() {
    for (int ordinal = 0; ordinal < view_.target(); ++ordinal) Sort(ordinal);
    if (old_.empty()) return std::move(roll_);
    roll_.reason = "RollingUpdate";
    roll_.operator_roll =
        std::all_of(old_.begin(), old_.end(), [this](const PodSeen* pod) { return view_.OutdatedByOperator(*pod); });
    if (roll_.operator_roll && !limits_.operator_roll) {
      roll_.reason = "WaitingForOtherRollouts";
      Say("the operator's update reaches this processor when others are done (maxConcurrentRollouts)");
      return std::move(roll_);
    }
    if (const PodSeen* pod = Candidate(); pod != nullptr) Replace(*pod);
    return std::move(roll_);
  }

 private:
  void Sort(int ordinal) {
    const PodSeen* pod = view_.Living(ordinal);
    const bool old = pod != nullptr && (view_.Outdated(*pod) || view_.FileSystemWaits(*pod));
    if (old) old_.push_back(pod);
    if (pod != nullptr && !old) ++done_;
    if (!view_.Available(ordinal)) down_.push_back(ordinal);
  }

  // The pod whose turn it is; nullptr: the message says what is waited for.
  const PodSeen* Candidate() {
    if (down_.empty()) {
      // One that was told to drain comes first, so that a roll ends what it began.
      for (const PodSeen* pod : old_) {
        if (view_.ToldToDrain(*pod)) return pod;
      }
      return old_.back();
    }
    // A pod that is down and has to be replaced anyway is never waited for, unless it works on its state.
    if (down_.size() == 1) {
      for (const PodSeen* pod : old_) {
        if (pod->ordinal == down_.front() && !pod->ready && !view_.Restores(*pod)) return pod;
      }
    }
    WaitForPods();
    return nullptr;
  }

  void WaitForPods() {
    std::string waits;
    for (const int ordinal : down_) {
      StrAppend(&waits, waits.empty() ? "" : "; ", view_.Describe(ordinal));
      roll_.stuck = roll_.stuck || view_.NeedsPerson(ordinal);
    }
    // A pod that is draining stays told: what it has handed over is not to be moved twice.
    for (const PodSeen* pod : old_) {
      if (view_.ToldToDrain(*pod) && pod->ready) roll_.draining = pod->ordinal;
    }
    Say(StrCat("waits: ", waits));
    roll_.look_again = kPollSidecars;
  }

  void Replace(const PodSeen& pod) {
    const spec::StreamProcessorSpec& typed = view_.processor().typed();
    const bool can_drain =
        typed.standby_replicas > 0 && view_.target() > 1 && typed.desired_state == spec::DesiredState::kRunning;
    if (!pod.ready || !can_drain) return Restart(pod, "is restarted in place");
    if (view_.Drained(pod)) return Restart(pod, "has drained and is replaced");
    if (view_.ToldToDrain(pod)) {
      if (view_.now() - pod.drain_since <= kDrainPatience) return KeepDraining(pod);
      return Restart(pod, StrCat("has not drained within ", absl::ToInt64Minutes(kDrainPatience),
                                 " minutes and is restarted in place"));
    }
    if (view_.observed().FreshReport(pod, view_.now()) == nullptr) {
      return Restart(pod, "is restarted in place: its sidecar does not answer, so it cannot be drained");
    }
    if (Settling(pod)) return;
    if (view_.WarmElsewhere(pod)) {
      roll_.drain_note = StrCat("pod ", pod.name, " hands its tasks over to warm standbys before it is replaced");
      return KeepDraining(pod);
    }
    Restart(pod, "is restarted in place: not all of its tasks have a warm standby");
  }

  // Copies are on their way: the pod before has just come back.
  bool Settling(const PodSeen& pod) {
    bool restores = false;
    for (const SidecarReport* report : view_.FreshReports()) {
      restores = restores || report->Count(TaskSeen::State::kRestoring) > 0;
    }
    const bool patient = view_.now() - view_.LastReady() < kWarmPatience;
    if (!patient || (!restores && view_.WarmElsewhere(pod))) return false;
    Say(StrCat("waits until there are warm standbys for the tasks of ", pod.name));
    roll_.look_again = kPollSidecars;
    return true;
  }

  void KeepDraining(const PodSeen& pod) {
    roll_.draining = pod.ordinal;
    roll_.look_again = kPollSidecars;
    const SidecarReport* report = view_.observed().FreshReport(pod, view_.now());
    const int left = report == nullptr ? 0 : report->Count(TaskSeen::State::kActive);
    Say(StrCat(pod.name, " hands over its tasks", left > 0 ? StrCat(", ", left, " left") : ""));
  }

  void Restart(const PodSeen& pod, std::string how) {
    // As it is until it ends: told to drain it must not take tasks back in its last second.
    if (view_.ToldToDrain(pod)) roll_.draining = pod.ordinal;
    const char* why = view_.Outdated(pod) ? "" : " so that its file system can grow";
    roll_.steps.push_back(PodStep(Step::Kind::kEvictPod, pod, "RollingPod", StrCat("pod ", pod.name, " ", how, why)));
    roll_.look_again = kPollSidecars;
    Say(StrCat(pod.name, " is replaced"));
  }

  void Say(const std::string& what) {
    roll_.message = StrCat(done_, " of ", view_.target(), " pods are up to date; ", what);
  }

  const WorkloadView& view_;
  const RollLimits& limits_;
  std::vector<const PodSeen*> old_;  // to be replaced, ascending
  std::vector<int> down_;            // of those wanted, up to date or not
  int done_ = 0;                     // up to date
  Roll roll_;
};

}  // namespace

Repairs RepairsOf(const WorkloadView& view) {
  Repairs repairs;
  for (const PodSeen& pod : view.observed().pods) {
    if (pod.ordinal >= view.target() || view.Living(pod.ordinal) == nullptr || pod.ready) continue;
    const ClaimSeen* claim = view.observed().FindClaim(pod.ordinal);
    if (pod.on_volume && claim != nullptr && claim->lost) {
      ReplaceLostVolume(pod, *claim, &repairs);
    } else if (!view.Outdated(pod)) {
      continue;
    } else if (!view.EverReady(pod)) {
      repairs.steps.push_back(PodStep(Step::Kind::kDeletePod, pod, "ReplacingPod",
                                      StrCat("pod ", pod.name, " is replaced: it never became ready and is outdated")));
      repairs.ordinals.push_back(pod.ordinal);
    } else if (Broken(view, pod)) {
      repairs.steps.push_back(PodStep(Step::Kind::kEvictPod, pod, "ReplacingPod",
                                      StrCat("pod ", pod.name, " is replaced: it is not ready any more and outdated")));
      repairs.ordinals.push_back(pod.ordinal);
    }
  }
  return repairs;
}

Roll RollOf(const WorkloadView& view, const RollLimits& limits) { return Roller(view, limits).Next(); }

}  // namespace millstream::model
