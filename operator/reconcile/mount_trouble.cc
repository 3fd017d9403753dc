#include "operator/reconcile/mount_trouble.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "common/base/strings.h"

namespace millstream::reconcile {
namespace {

// Events of kubelets are of the old kind.
constexpr kube::Resource kCoreEvents{"", "v1", "events", "Event"};

}  // namespace

bool WaitsSilently(const std::string& reason) {
  return reason.empty() || reason == "ContainerCreating" || reason == "PodInitializing";
}

MountTrouble::Trouble TroubleFrom(const std::string& kubelet_says) {
  const std::string lower = absl::AsciiStrToLower(kubelet_says);
  const bool missing = absl::StrContains(lower, "not found") || absl::StrContains(lower, "couldn't find key") ||
                       absl::StrContains(lower, "non-existent secret key") ||
                       absl::StrContains(lower, "non-existent config key");
  if (missing && absl::StrContains(lower, "secret")) return {"SecretNotFound", kubelet_says};
  if (missing && absl::StrContains(lower, "config")) return {"ConfigMapNotFound", kubelet_says};
  return {"FailedMount", kubelet_says};
}

MountTrouble::Trouble MountTrouble::Of(const kube::ObjectKey& pod, const std::string& uid, absl::Time created) {
  if (clock_->WallTime() - created < kPatience) return {};
  const absl::Duration now = clock_->Monotonic();
  {
    absl::MutexLock lock(&mutex_);
    const auto known = answers_.find(uid);
    if (known != answers_.end() && now - known->second.at < kKept) return known->second.trouble;
    if (answers_.size() >= kMaxRemembered) answers_.clear();
  }
  Trouble trouble = Ask(pod, uid);
  absl::MutexLock lock(&mutex_);
  answers_[uid] = {trouble, now};
  return trouble;
}

MountTrouble::Trouble MountTrouble::Ask(const kube::ObjectKey& pod, const std::string& uid) const {
  kube::Selection selection;
  selection.name_space = pod.name_space;
  selection.field_selector = StrCat("involvedObject.uid=", uid, ",reason=FailedMount");
  const absl::StatusOr<kube::ObjectList> events = client_->List(kCoreEvents, selection);
  if (!events.ok()) return {};
  std::string newest, said;
  for (const kube::Json& event : events->items) {
    if (kube::TextAt(event, {"involvedObject", "uid"}) != uid || kube::TextAt(event, {"reason"}) != "FailedMount")
      continue;
    const std::string time = kube::TextAt(event, {"lastTimestamp"});
    if (time < newest) continue;
    newest = time;
    said = kube::TextAt(event, {"message"});
  }
  return said.empty() ? Trouble() : TroubleFrom(said);
}

}  // namespace millstream::reconcile
