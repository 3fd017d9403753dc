#include "operator/reconcile/pod_trouble.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "common/base/strings.h"
#include "operator/kube/event_recorder.h"
#include "operator/reconcile/mount_trouble.h"

namespace millstream::reconcile {
namespace {

using kube::Json;

// The end of a program's last words says what ended it.
constexpr size_t kMaxWords = 400;

std::string LastWords(const std::string& message) {
  const std::string_view text = ToStd(absl::StripAsciiWhitespace(message));
  if (text.size() <= kMaxWords) return std::string(text);
  std::string_view end = text.substr(text.size() - kMaxWords);
  // Whole lines where there are any.
  if (const size_t line = end.find('\n'); line != std::string_view::npos && line + 1 < end.size()) {
    end = end.substr(line + 1);
  }
  while (!end.empty() && (static_cast<unsigned char>(end.front()) & 0xC0) == 0x80) end.remove_prefix(1);
  return StrCat("... ", end);
}

// How a container ended the last time.
PodTrouble AfterEnd(const Json& ended, const std::string& container, std::string_view otherwise) {
  const std::string reason = kube::TextAt(ended, {"reason"});
  const std::string words = LastWords(kube::TextAt(ended, {"message"}));
  if (reason == "OOMKilled") {
    return {"", reason,
            StrCat("container ", container, " was killed at its memory limit: raise ",
                   container == "millstream" ? "spec.sidecar" : "spec.container", ".resources.limits.memory")};
  }
  std::string message = StrCat("container ", container, " ended with exit code ", kube::IntAt(ended, {"exitCode"}));
  if (!words.empty()) StrAppend(&message, ": ", words);
  return {"", std::string(otherwise), message};
}

std::optional<PodTrouble> OfContainer(const Json& status) {
  const std::string container = kube::TextAt(status, {"name"});
  const Json* last = kube::Find(status, {"lastState", "terminated"});
  if (const Json* waiting = kube::Find(status, {"state", "waiting"})) {
    const std::string reason = kube::TextAt(*waiting, {"reason"}, "ContainerCreating");
    const std::string message = kube::TextAt(*waiting, {"message"});
    if (reason == "CrashLoopBackOff" && last != nullptr) return AfterEnd(*last, container, reason);
    if (reason == "CrashLoopBackOff")
      return PodTrouble{"", reason, StrCat("container ", container, " ends again and again")};
    if (WaitsSilently(reason)) return PodTrouble{"", reason, ""};
    PodTrouble trouble{"", reason, StrCat("container ", container, ": ", message)};
    if (reason == "CreateContainerConfigError") {
      const std::string missing = TroubleFrom(message).reason;
      if (missing != "FailedMount") trouble.reason = missing;
    }
    if (absl::StrContains(reason, "Image"))
      StrAppend(&trouble.message, " (image ", kube::TextAt(status, {"image"}), ")");
    return trouble;
  }
  if (const Json* ended = kube::Find(status, {"state", "terminated"}); ended != nullptr) {
    if (kube::IntAt(*ended, {"exitCode"}) != 0) return AfterEnd(*ended, container, "ContainerFailed");
    return std::nullopt;
  }
  const bool is_up = kube::BoolAt(status, {"ready"});
  if (!is_up && last != nullptr && kube::TextAt(*last, {"reason"}) == "OOMKilled")
    return AfterEnd(*last, container, "");
  return std::nullopt;
}

bool IsReady(const Json& pod) {
  const Json* conditions = kube::Find(pod, {"status", "conditions"});
  for (const Json& condition : conditions != nullptr && conditions->is_array() ? *conditions : Json::array()) {
    if (kube::TextAt(condition, {"type"}) == "Ready") return kube::TextAt(condition, {"status"}) == "True";
  }
  return false;
}

std::optional<PodTrouble> OfScheduling(const Json& pod) {
  const Json* conditions = kube::Find(pod, {"status", "conditions"});
  for (const Json& condition : conditions != nullptr && conditions->is_array() ? *conditions : Json::array()) {
    if (kube::TextAt(condition, {"type"}) != "PodScheduled" || kube::TextAt(condition, {"status"}) != "False") continue;
    return PodTrouble{"", kube::TextAt(condition, {"reason"}, "Unschedulable"), kube::TextAt(condition, {"message"})};
  }
  return std::nullopt;
}

std::optional<PodTrouble> Find(const Json& pod) {
  if (kube::TextAt(pod, {"status", "phase"}) == "Failed") {
    const std::string reason = kube::TextAt(pod, {"status", "reason"}, "PodFailed");
    return PodTrouble{"", reason, kube::TextAt(pod, {"status", "message"}, "the pod failed and is replaced")};
  }
  if (std::optional<PodTrouble> trouble = OfScheduling(pod)) return trouble;
  std::optional<PodTrouble> silent;
  for (const char* list : {"initContainerStatuses", "containerStatuses"}) {
    const Json* statuses = kube::Find(pod, {"status", list});
    if (statuses == nullptr || !statuses->is_array()) continue;
    for (const Json& status : *statuses) {
      std::optional<PodTrouble> trouble = OfContainer(status);
      if (!trouble) continue;
      if (!WaitsSilently(trouble->reason)) return trouble;
      // A worker waits for the containers before it; what those wait for is what matters.
      if (!silent) silent = std::move(trouble);
    }
  }
  return silent;
}

}  // namespace

std::optional<PodTrouble> TroubleOf(const Json& pod) {
  if (IsReady(pod)) return std::nullopt;
  std::optional<PodTrouble> trouble = Find(pod);
  if (trouble) trouble->pod = kube::TextAt(pod, {"metadata", "name"});
  return trouble;
}

}  // namespace millstream::reconcile
