#include "operator/model/workload_view.h"

#include <algorithm>

#include "common/base/strings.h"
#include "operator/model/json_path.h"
#include "operator/model/next_steps.h"
#include "operator/model/orders.h"
#include "operator/model/pod_template.h"

namespace millstream::model {
namespace {

// Enough to see what is wrong; the whole is in the pod.
constexpr size_t kMaxQuoted = 300;

std::string Quoted(const std::string& text) {
  if (text.size() <= kMaxQuoted) return text;
  size_t end = kMaxQuoted;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return StrCat(text.substr(0, end), " ...");
}

std::string Counted(int number, std::string_view what) { return StrCat(number, " ", what, number == 1 ? "" : "s"); }

}  // namespace

WorkloadView::WorkloadView(const Processor& processor, const Json& stateful_set, const Observation& observed,
                           absl::Time now)
    : processor_(processor), observed_(observed), now_(now) {
  const auto annotation = [&stateful_set](std::string_view name) {
    return TextAt(stateful_set, {"spec", "template", "metadata", "annotations", name});
  };
  template_hash_ = annotation(kTemplateHashAnnotation);
  spec_hash_ = annotation(kSpecHashAnnotation);
  if (observed.set) {
    current_ = observed.set->replicas;
  } else if (!observed.pods.empty()) {
    current_ = observed.pods.back().ordinal + 1;
  }
}

const PodSeen* WorkloadView::Living(int ordinal) const {
  const PodSeen* pod = observed_.FindPod(ordinal);
  return pod != nullptr && !pod->terminating && !pod->failed ? pod : nullptr;
}

bool WorkloadView::Available(int ordinal) const {
  const PodSeen* pod = Living(ordinal);
  return pod != nullptr && pod->ready && now_ - pod->ready_changed >= kSettleTime;
}

bool WorkloadView::EverReady(const PodSeen& pod) const {
  if (pod.ever_ready) return true;
  const SidecarReport* report = observed_.FreshReport(pod, now_);
  return report != nullptr && report->Count(TaskSeen::State::kActive) > 0;
}

bool WorkloadView::FileSystemWaits(const PodSeen& pod) const {
  const ClaimSeen* claim = observed_.FindClaim(pod.ordinal);
  return pod.on_volume && claim != nullptr && now_ - claim->file_system_waits_since > kFileSystemPatience &&
         pod.created < claim->file_system_waits_since;
}

bool WorkloadView::Restores(const PodSeen& pod) const {
  const SidecarReport* report = observed_.FreshReport(pod, now_);
  return report != nullptr && report->Count(TaskSeen::State::kRestoring) > 0;
}

bool WorkloadView::ToldToDrain(const PodSeen& pod) const { return SaysDrain(pod.orders); }

bool WorkloadView::Drained(const PodSeen& pod) const {
  const SidecarReport* report = observed_.FreshReport(pod, now_);
  return ToldToDrain(pod) && report != nullptr && report->drained && report->heard >= pod.drain_since;
}

bool WorkloadView::Gone(const PodSeen& pod) const {
  return !pod.ready && now_ - pod.ready_changed > kGoneAfter && observed_.FreshReport(pod, now_) == nullptr;
}

bool WorkloadView::WarmElsewhere(const PodSeen& pod) const {
  const SidecarReport* own = observed_.FreshReport(pod, now_);
  if (own == nullptr) return false;
  std::vector<const SidecarReport*> others;
  for (const PodSeen& other : observed_.pods) {
    if (other.ordinal == pod.ordinal || !Available(other.ordinal) || ToldToDrain(other)) continue;
    if (const SidecarReport* report = observed_.FreshReport(other, now_); report != nullptr) others.push_back(report);
  }
  return std::all_of(own->tasks.begin(), own->tasks.end(), [&others](const TaskSeen& task) {
    if (task.state != TaskSeen::State::kActive) return true;
    return std::any_of(others.begin(), others.end(), [&task](const SidecarReport* report) {
      return report->Holds(task.task, TaskSeen::State::kStandby);
    });
  });
}

bool WorkloadView::MayGo(int ordinal) const {
  const PodSeen* pod = Living(ordinal);
  return pod == nullptr || !EverReady(*pod) || Drained(*pod) || Gone(*pod);
}

absl::Time WorkloadView::LastReady() const {
  absl::Time last = absl::InfinitePast();
  for (const PodSeen& pod : observed_.pods) {
    if (pod.ready) last = std::max(last, pod.ready_changed);
  }
  return last;
}

std::vector<const SidecarReport*> WorkloadView::FreshReports() const {
  std::vector<const SidecarReport*> reports;
  for (const PodSeen& pod : observed_.pods) {
    if (pod.terminating) continue;
    if (const SidecarReport* report = observed_.FreshReport(pod, now_); report != nullptr) reports.push_back(report);
  }
  return reports;
}

std::string WorkloadView::PodName(int ordinal) const { return PodNameOf(processor_, ordinal); }

std::string WorkloadView::Describe(int ordinal) const {
  const std::string name = PodName(ordinal);
  const PodSeen* pod = observed_.FindPod(ordinal);
  if (pod == nullptr) return StrCat(name, " does not exist yet");
  if (pod->terminating) {
    if (!NeedsPerson(ordinal)) return StrCat(name, " is ending");
    return StrCat(
        name, " should have ended at ", absl::FormatTime("%H:%M:%S UTC", pod->terminating_since, absl::UTCTimeZone()),
        " and node ", pod->node,
        " does not confirm it; if the node is gone for good, delete the node, or the pod: kubectl delete pod ", name,
        " --force");
  }
  if (pod->failed) return StrCat(name, " has failed and is replaced");
  if (pod->ready) return StrCat(name, " became ready just now");
  if (!pod->waiting_reason.empty()) {
    return StrCat(name, pod->ever_ready ? " is not ready: " : " cannot start: ", pod->waiting_container,
                  pod->waiting_container.empty() ? "" : ": ", pod->waiting_reason,
                  pod->waiting_message.empty() ? "" : ": ", Quoted(pod->waiting_message));
  }
  if (const SidecarReport* report = observed_.FreshReport(*pod, now_); report != nullptr) {
    int64_t bytes_left = 0;
    for (const TaskSeen& task : report->tasks) bytes_left += task.bytes_left;
    if (const int restoring = report->Count(TaskSeen::State::kRestoring); restoring > 0) {
      return StrCat(name, " restores ", Counted(restoring, "task"), ", ", bytes_left >> 20, " MiB left");
    }
    // Its reason alone: there may be numbers in the message, which the status would follow. Ready has it.
    if (report->problem) return StrCat(name, " is not ready: ", report->problem->reason);
    if (report->workers == 0 && !processor_.typed().is_view()) return StrCat(name, " waits for its worker to connect");
  }
  return StrCat(name, pod->ever_ready ? " is not ready" : " is starting");
}

bool WorkloadView::NeedsPerson(int ordinal) const {
  const PodSeen* pod = observed_.FindPod(ordinal);
  if (pod == nullptr) return false;
  if (pod->terminating) return now_ - pod->terminating_since > kTerminatingNoted;
  return pod->waiting_reason == "InvalidImageName";
}

}  // namespace millstream::model
