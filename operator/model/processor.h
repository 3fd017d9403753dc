#ifndef MILLSTREAM_OPERATOR_MODEL_PROCESSOR_H_
#define MILLSTREAM_OPERATOR_MODEL_PROCESSOR_H_

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/spec/manifest.h"

namespace millstream::model {

// Kubernetes objects as JSON; keys are sorted, so the same object is always the same text.
using Json = nlohmann::json;

// What holds for all processors of one operator: chart values and versions.
struct ModelOptions {
  std::string operator_version = "0.1.0";
  std::string sidecar_image;           // where a manifest names none
  std::string cluster_name = "local";  // in the owner stamp of a group: <cluster>/<namespace>/<name>
  std::string operator_namespace;      // whose pods may ask the sidecars, where there are network policies
  bool openshift = false;              // user and group ids are left to the platform
  bool network_policies = false;       // one for each processor
  Json network_peers = Json::array();  // NetworkPolicyPeers that may ask the sidecars as well
  bool pod_monitors = false;           // one for each processor, for the Prometheus operator
  std::map<std::string, std::string> pod_monitor_labels;  // by which a Prometheus selects
};

// One StreamProcessor as far as its children depend on it. A plain value.
struct Processor {
  spec::Manifest manifest;
  Json spec;                 // of the canonical manifest: defaults filled in
  std::string uid;           // of the StreamProcessor
  std::string restarted_at;  // its annotation millstream.dev/restartedAt; a new value rolls the pods
  int replicas = 1;          // in force: of the spec, or of autoscaling

  const spec::StreamProcessorSpec& typed() const { return manifest.processor; }
};

// INVALID_ARGUMENT: what a cluster needs and a local run does not: spec.container.image, spec.kafka.
absl::StatusOr<Processor> MakeProcessor(spec::Manifest manifest, std::string uid, std::string restarted_at);

// Names of containers, volumes and places that belong to Millstream in every pod.
inline constexpr std::string_view kSidecarContainer = "millstream";
inline constexpr std::string_view kWorkerContainer = "worker";
inline constexpr std::string_view kStateVolume = "state";
inline constexpr std::string_view kVolumePrefix = "millstream-";
inline constexpr std::string_view kManifestFile = "processor.yaml";
inline constexpr std::string_view kAnnotationPrefix = "millstream.dev/";
// Of Millstream's container. Containers of a pod share their ports, so it is one that programs seldom want; its name
// too.
inline constexpr int kHttpPort = 7979;
inline constexpr std::string_view kPortName = "millstream";

// The names of its children: all have the processor's own, but for the claims and the Job. A processor's name has at
// most 52 characters, so that these, and the controller's label with its hash, stay within 63.
std::string ClaimNameOf(const Processor& processor, int ordinal);  // state-NAME-ORDINAL
std::string PodNameOf(const Processor& processor, int ordinal);
std::string TopicsJobNameOf(const Processor& processor);  // NAME-t-HASH: another manifest, another Job

// What selects its pods. Never changes: a StatefulSet's selector cannot.
Json SelectorOf(const Processor& processor);
// The labels of its pods and claims: the selector and part-of, managed-by. No version: another operator rolls nothing.
Json PodLabelsOf(const Processor& processor);
// The labels of any other child: those and the version.
Json LabelsOf(const Processor& processor, const ModelOptions& options);
// metadata of a child: name, namespace, labels, and the owner that controls it.
Json MetadataOf(const Processor& processor, const ModelOptions& options, const std::string& name);

// Of what the sidecar reads only when it starts: the manifest without what takes effect in running pods (replicas,
// autoscale, desiredState, standbyReplicas, whenDeleted) and without what is in the pod template anyway. 16 hex digits.
std::string ManifestHash(const Processor& processor);
// Of everything that the user said and that takes effect in new pods only: the manifest's, with podTemplate, container,
// image, whether there is a volume, and restartedAt. 16 hex digits.
std::string SpecHash(const Processor& processor);
// FNV-1a, 64 bits, as 16 hex digits.
std::string HashOf(std::string_view text);

}  // namespace millstream::model

#endif  // MILLSTREAM_OPERATOR_MODEL_PROCESSOR_H_
