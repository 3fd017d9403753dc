#include "operator/model/observation.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "common/base/strings.h"
#include "operator/model/json_path.h"
#include "operator/model/next_steps.h"
#include "operator/model/pod_template.h"

namespace millstream::model {
namespace {

// A kubelet writes a pod's first "not ready" when it starts it; times in the API are whole seconds. No pod is ready
// before the sidecar's container is started, probed, and the worker's as well.
constexpr absl::Duration kStartOfPod = absl::Seconds(5);

int OrdinalOf(std::string_view name, std::string_view prefix) {
  if (!absl::StartsWith(ToAbsl(name), ToAbsl(prefix))) return -1;
  const std::string_view digits = name.substr(prefix.size());
  int ordinal = -1;
  // "totals-01" and "totals-+1" are somebody else's.
  if (!absl::SimpleAtoi(ToAbsl(digits), &ordinal) || ordinal < 0 || StrCat(ordinal) != digits) return -1;
  return ordinal;
}

std::string AnnotationAt(const Json& object, std::string_view name) {
  return TextAt(object, {"metadata", "annotations", name});
}

struct Waiting {
  std::string container, reason, message;
};

// Of one container's state: waiting, ended, or ended before it waits for its restart: that says more than "back-off".
bool ReadWaiting(const Json& status, Waiting* waiting) {
  if (const Json* state = Find(status, {"state", "waiting"}); state != nullptr) {
    *waiting = {TextAt(status, {"name"}), TextAt(*state, {"reason"}), TextAt(*state, {"message"})};
    // Nothing is wrong with these.
    if (waiting->reason == "PodInitializing" || waiting->reason == "ContainerCreating") return false;
    const Json* last = Find(status, {"lastState", "terminated"});
    if (waiting->reason == "CrashLoopBackOff" && last != nullptr) {
      const std::string said = TextAt(*last, {"message"});
      StrAppend(&waiting->message, waiting->message.empty() ? "" : "; ", "it ended with ", TextAt(*last, {"reason"}),
                ", exit code ", IntAt(*last, {"exitCode"}), said.empty() ? "" : ": ", said);
    }
    return !waiting->reason.empty();
  }
  if (const Json* state = Find(status, {"state", "terminated"}); state != nullptr) {
    // An init container that did its work.
    if (IntAt(*state, {"exitCode"}) == 0 && TextAt(*state, {"reason"}) == "Completed") return false;
    *waiting = {TextAt(status, {"name"}), TextAt(*state, {"reason"}),
                StrCat("exit code ", IntAt(*state, {"exitCode"}), TextAt(*state, {"message"}).empty() ? "" : ": ",
                       TextAt(*state, {"message"}))};
    if (waiting->reason.empty()) waiting->reason = "Error";
    return true;
  }
  return false;
}

void ReadContainers(const Json& pod, PodSeen* seen) {
  Waiting first;
  for (const char* list : {"initContainerStatuses", "containerStatuses"}) {
    for (const Json& status : ListAt(pod, {"status", list})) {
      seen->restarts += static_cast<int>(IntAt(status, {"restartCount"}));
      if (Waiting waiting; first.reason.empty() && ReadWaiting(status, &waiting)) first = waiting;
    }
  }
  const Json* scheduled = ItemOf(ListAt(pod, {"status", "conditions"}), "type", "PodScheduled");
  if (first.reason.empty() && scheduled != nullptr && TextAt(*scheduled, {"status"}) == "False") {
    first = {"", TextAt(*scheduled, {"reason"}), TextAt(*scheduled, {"message"})};
  }
  seen->waiting_container = first.container;
  seen->waiting_reason = first.reason;
  seen->waiting_message = first.message;
}

}  // namespace

const PodSeen* Observation::FindPod(int ordinal) const {
  for (const PodSeen& pod : pods) {
    if (pod.ordinal == ordinal) return &pod;
  }
  return nullptr;
}

const ClaimSeen* Observation::FindClaim(int ordinal) const {
  for (const ClaimSeen& claim : claims) {
    if (claim.ordinal == ordinal) return &claim;
  }
  return nullptr;
}

const SidecarReport* Observation::FreshReport(const PodSeen& pod, absl::Time now) const {
  const auto found = reports.find(pod.name);
  if (found == reports.end() || found->second.pod_uid != pod.uid) return nullptr;
  return now - found->second.heard <= kReportKept ? &found->second : nullptr;
}

SetSeen ReadSet(const Json& stateful_set) {
  SetSeen seen;
  seen.uid = TextAt(stateful_set, {"metadata", "uid"});
  seen.resource_version = TextAt(stateful_set, {"metadata", "resourceVersion"});
  seen.generation = IntAt(stateful_set, {"metadata", "generation"});
  seen.observed_generation = IntAt(stateful_set, {"status", "observedGeneration"});
  seen.replicas = static_cast<int>(IntAt(stateful_set, {"spec", "replicas"}, 1));  // the API server's default
  if (const Json* made_from = Find(stateful_set, {"spec", "template"}); made_from != nullptr) {
    seen.template_hash = AnnotationAt(*made_from, kTemplateHashAnnotation);
  }
  seen.terminating = Find(stateful_set, {"metadata", "deletionTimestamp"}) != nullptr;
  if (const Json* spec = Find(stateful_set, {"spec"}); spec != nullptr) seen.spec = *spec;
  return seen;
}

PodSeen ReadPod(const Json& pod, std::string_view processor_name) {
  PodSeen seen;
  seen.name = TextAt(pod, {"metadata", "name"});
  seen.uid = TextAt(pod, {"metadata", "uid"});
  seen.resource_version = TextAt(pod, {"metadata", "resourceVersion"});
  seen.ordinal = OrdinalOf(seen.name, StrCat(processor_name, "-"));
  seen.template_hash = AnnotationAt(pod, kTemplateHashAnnotation);
  seen.spec_hash = AnnotationAt(pod, kSpecHashAnnotation);
  seen.orders = AnnotationAt(pod, kOrdersAnnotation);
  seen.drain_since = TimeAt(pod, {"metadata", "annotations", kDrainSinceAnnotation}, absl::InfiniteFuture());
  seen.created = TimeAt(pod, {"metadata", "creationTimestamp"}, absl::InfinitePast());
  seen.terminating = Find(pod, {"metadata", "deletionTimestamp"}) != nullptr;
  if (seen.terminating) {
    seen.terminating_since = TimeAt(pod, {"metadata", "deletionTimestamp"}, absl::InfiniteFuture());
  }
  const std::string phase = TextAt(pod, {"status", "phase"});
  seen.failed = phase == "Failed" || phase == "Succeeded";
  if (const Json* state = ItemOf(ListAt(pod, {"spec", "volumes"}), "name", kStateVolume); state != nullptr) {
    seen.on_volume = Find(*state, {"persistentVolumeClaim"}) != nullptr;
  }
  seen.node = TextAt(pod, {"spec", "nodeName"});
  seen.ip = TextAt(pod, {"status", "podIP"});
  const absl::Time started = TimeAt(pod, {"status", "startTime"}, absl::InfiniteFuture());
  if (const Json* ready = ItemOf(ListAt(pod, {"status", "conditions"}), "type", "Ready"); ready != nullptr) {
    seen.ready = TextAt(*ready, {"status"}) == "True";
    seen.ready_changed = TimeAt(*ready, {"lastTransitionTime"}, absl::InfinitePast());
    seen.ever_ready = seen.ready || (started != absl::InfiniteFuture() && seen.ready_changed > started + kStartOfPod);
  }
  if (!seen.ready) ReadContainers(pod, &seen);
  return seen;
}

ClaimSeen ReadClaim(const Json& claim, std::string_view processor_name) {
  ClaimSeen seen;
  seen.name = TextAt(claim, {"metadata", "name"});
  seen.uid = TextAt(claim, {"metadata", "uid"});
  seen.resource_version = TextAt(claim, {"metadata", "resourceVersion"});
  seen.ordinal = OrdinalOf(seen.name, StrCat(kStateVolume, "-", processor_name, "-"));
  seen.asked_text = TextAt(claim, {"spec", "resources", "requests", "storage"});
  seen.asked = BytesAt(claim, {"spec", "resources", "requests", "storage"});
  seen.granted = BytesAt(claim, {"status", "capacity", "storage"});
  seen.storage_class = TextAt(claim, {"spec", "storageClassName"});
  seen.lost = TextAt(claim, {"status", "phase"}) == "Lost";
  seen.terminating = Find(claim, {"metadata", "deletionTimestamp"}) != nullptr;
  for (const Json& condition : ListAt(claim, {"status", "conditions"})) {
    if (TextAt(condition, {"status"}) != "True") continue;
    const std::string type = TextAt(condition, {"type"});
    if (type == "FileSystemResizePending") {
      seen.file_system_waits_since = TimeAt(condition, {"lastTransitionTime"}, absl::InfiniteFuture());
    } else if (type == "ControllerResizeError" || type == "NodeResizeError") {
      seen.resize_error = TextAt(condition, {"message"});
      if (seen.resize_error.empty()) seen.resize_error = type;
    }
  }
  return seen;
}

Observation ReadObservation(std::string_view processor_name, const Json* stateful_set, const std::vector<Json>& pods,
                            const std::vector<Json>& claims) {
  Observation observation;
  if (stateful_set != nullptr) observation.set = ReadSet(*stateful_set);
  for (const Json& pod : pods) {
    PodSeen seen = ReadPod(pod, processor_name);
    if (seen.ordinal >= 0) observation.pods.push_back(std::move(seen));
  }
  for (const Json& claim : claims) {
    ClaimSeen seen = ReadClaim(claim, processor_name);
    if (seen.ordinal >= 0) observation.claims.push_back(std::move(seen));
  }
  const auto by_ordinal = [](const auto& a, const auto& b) { return a.ordinal < b.ordinal; };
  std::sort(observation.pods.begin(), observation.pods.end(), by_ordinal);
  std::sort(observation.claims.begin(), observation.claims.end(), by_ordinal);
  return observation;
}

}  // namespace millstream::model
