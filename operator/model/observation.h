#ifndef MILLSTREAM_OPERATOR_MODEL_OBSERVATION_H_
#define MILLSTREAM_OPERATOR_MODEL_OBSERVATION_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "operator/model/processor.h"
#include "operator/model/sidecar_report.h"

namespace millstream::model {

// What was seen of one processor's workload, as plain values: what next_steps.h decides from. Read from the API
// server's objects by the functions below, which take anything: a field that is missing or of another kind reads as its
// default.

// The StatefulSet.
struct SetSeen {
  std::string uid, resource_version;
  int64_t generation = 0, observed_generation = 0;  // equal: its controller has seen the newest template
  int replicas = 0;                                 // spec.replicas
  std::string template_hash;                        // of the template it makes pods from (pod_template.h)
  bool terminating = false;
  Json spec;  // whole, to compare what cannot be changed
};

// A pod of the StatefulSet.
struct PodSeen {
  std::string name, uid, resource_version;
  int ordinal = -1;
  std::string template_hash, spec_hash;  // of the template it was made from (pod_template.h); empty: not by us
  absl::Time created = absl::InfinitePast();
  bool ready = false;
  absl::Time ready_changed = absl::InfinitePast();  // when it became ready, or stopped being it
  // It was ready once. Kubernetes does not say it outright: a pod that was never ready is "not ready since it started".
  bool ever_ready = false;
  bool failed = false;       // phase Failed or Succeeded: the StatefulSet's controller replaces it
  bool terminating = false;  // has a deletionTimestamp
  bool on_volume = false;    // its state is on a claim's volume; claims may be there without being used
  absl::Time terminating_since = absl::InfiniteFuture();  // when its grace period ends
  // What it waits for, where it is not ready: the first container that waits or ended ("ErrImagePull",
  // "CrashLoopBackOff", "OOMKilled"), or "Unschedulable", with the server's text.
  std::string waiting_container, waiting_reason, waiting_message;
  int restarts = 0;                                 // of all its containers
  std::string orders;                               // its annotation (orders.h); empty: none yet
  absl::Time drain_since = absl::InfiniteFuture();  // when it was told to drain
  std::string node, ip;
};

// The volume claim of one pod.
struct ClaimSeen {
  std::string name, uid, resource_version;
  int ordinal = -1;
  std::string asked_text;          // spec.resources.requests.storage
  int64_t asked = 0, granted = 0;  // bytes; granted: status.capacity, 0 before it is bound
  std::string storage_class;
  bool lost = false;  // its volume is gone for good
  bool terminating = false;
  // The volume has grown, the file system waits for a restart of the pod, since then.
  absl::Time file_system_waits_since = absl::InfiniteFuture();
  std::string resize_error;  // the storage's own text; empty: none
};

struct Observation {
  std::optional<SetSeen> set;
  std::vector<PodSeen> pods;                     // ascending ordinals
  std::vector<ClaimSeen> claims;                 // the same
  std::map<std::string, SidecarReport> reports;  // by pod; absent: not heard (since this operator started)

  const PodSeen* FindPod(int ordinal) const;      // nullptr: there is none
  const ClaimSeen* FindClaim(int ordinal) const;  // nullptr: there is none
  // What that very pod's sidecar said in the last half minute; nullptr: nothing.
  const SidecarReport* FreshReport(const PodSeen& pod, absl::Time now) const;
};

// Of objects as the API server gives them. A pod's or claim's ordinal is in its name; -1: not one of `processor_name`.
SetSeen ReadSet(const Json& stateful_set);
PodSeen ReadPod(const Json& pod, std::string_view processor_name);
ClaimSeen ReadClaim(const Json& claim, std::string_view processor_name);

// All of them. Pods and claims that are none of the set's are left out.
Observation ReadObservation(std::string_view processor_name, const Json* stateful_set, const std::vector<Json>& pods,
                            const std::vector<Json>& claims);

// A report that is older is not believed any more: sidecars are asked every few seconds while anything moves.
inline constexpr absl::Duration kReportKept = absl::Seconds(30);

}  // namespace millstream::model

#endif  // MILLSTREAM_OPERATOR_MODEL_OBSERVATION_H_
