#include "operator/model/children.h"

#include <string>
#include <utility>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "operator/model/merge.h"
#include "operator/model/pod_template.h"

namespace millstream::model {
namespace {

// Enough to see what changed and to go back; each costs a ControllerRevision.
constexpr int kRevisions = 3;
constexpr int kTopicsDeadlineSeconds = 300;
constexpr int kTopicsKeptSeconds = 3600;

Json Object(const Processor& processor, const ModelOptions& options, std::string_view api_version,
            std::string_view kind) {
  return {{"apiVersion", std::string(api_version)},
          {"kind", std::string(kind)},
          {"metadata", MetadataOf(processor, options, processor.typed().name)}};
}

Json Matching(const Processor& processor) { return {{"matchLabels", SelectorOf(processor)}}; }

Json ClaimOf(const Processor& processor, const Json& storage) {
  Json spec = {{"accessModes", storage.value("accessModes", Json::array({"ReadWriteOnce"}))},
               {"resources", {{"requests", {{"storage", storage.at("size")}}}}}};
  if (storage.contains("storageClassName")) spec["storageClassName"] = storage["storageClassName"];
  Json metadata = {{"name", std::string(kStateVolume)}, {"labels", PodLabelsOf(processor)}};
  return {{"apiVersion", "v1"},
          {"kind", "PersistentVolumeClaim"},
          {"metadata", std::move(metadata)},
          {"spec", std::move(spec)}};
}

}  // namespace

Json ServiceAccountOf(const Processor& processor, const ModelOptions& options) {
  Json account = Object(processor, options, "v1", "ServiceAccount");
  account["automountServiceAccountToken"] = false;
  return account;
}

Json ConfigMapOf(const Processor& processor, const ModelOptions& options) {
  Json map = Object(processor, options, "v1", "ConfigMap");
  map["data"] = {{std::string(kManifestFile), processor.manifest.canonical_json}};
  return map;
}

Json ServiceOf(const Processor& processor, const ModelOptions& options) {
  Json service = Object(processor, options, "v1", "Service");
  const Json port = {{"name", "http"}, {"port", kHttpPort}, {"targetPort", kHttpPort}, {"protocol", "TCP"}};
  service["spec"] = {{"clusterIP", "None"},
                     // Sidecars find each other while they restore, long before they are ready.
                     {"publishNotReadyAddresses", true},
                     {"selector", SelectorOf(processor)},
                     {"ports", Json::array({port})}};
  return service;
}

Json DisruptionBudgetOf(const Processor& processor, const ModelOptions& options) {
  Json budget = Object(processor, options, "policy/v1", "PodDisruptionBudget");
  budget["spec"] = {{"maxUnavailable", 1},
                    // A pod that never became ready must not stop a node from being drained.
                    {"unhealthyPodEvictionPolicy", "AlwaysAllow"},
                    {"selector", Matching(processor)}};
  return budget;
}

Json NetworkPolicyOf(const Processor& processor, const ModelOptions& options) {
  Json from = Json::array();
  from.push_back(Json{{"podSelector", Matching(processor)}});
  const Json operator_pods = {{"matchLabels", {{"app.kubernetes.io/name", "millstream-operator"}}}};
  const Json operator_namespace = {{"matchLabels", {{"kubernetes.io/metadata.name", options.operator_namespace}}}};
  from.push_back(Json{{"namespaceSelector", operator_namespace}, {"podSelector", operator_pods}});
  for (const Json& peer : options.network_peers) from.push_back(peer);
  const Json port = {{"port", kHttpPort}, {"protocol", "TCP"}};
  const Json rule = {{"from", std::move(from)}, {"ports", Json::array({port})}};
  Json policy = Object(processor, options, "networking.k8s.io/v1", "NetworkPolicy");
  policy["spec"] = {{"podSelector", Matching(processor)},
                    {"policyTypes", Json::array({"Ingress"})},
                    {"ingress", Json::array({rule})}};
  return policy;
}

Json PodMonitorOf(const Processor& processor, const ModelOptions& options) {
  Json monitor = Object(processor, options, "monitoring.coreos.com/v1", "PodMonitor");
  for (const auto& [label, value] : options.pod_monitor_labels) monitor["metadata"]["labels"][label] = value;
  const Json endpoint = {{"port", std::string(kPortName)}, {"path", "/metrics"}};
  monitor["spec"] = {{"selector", Matching(processor)}, {"podMetricsEndpoints", Json::array({endpoint})}};
  return monitor;
}

absl::StatusOr<Json> StatefulSetOf(const Processor& processor, const ModelOptions& options) {
  MS_ASSIGN_OR_RETURN(Json pod_template, PodTemplateOf(processor, options));
  Json set = Object(processor, options, "apps/v1", "StatefulSet");
  Json spec = {{"replicas", processor.replicas},
               {"serviceName", processor.typed().name},
               {"podManagementPolicy", "Parallel"},
               // The operator rolls: it knows what is restored.
               {"updateStrategy", {{"type", "OnDelete"}}},
               {"revisionHistoryLimit", kRevisions},
               {"selector", Matching(processor)},
               {"template", std::move(pod_template)}};
  if (const auto storage = processor.spec.find("storage"); storage != processor.spec.end()) {
    spec["volumeClaimTemplates"] = Json::array({ClaimOf(processor, *storage)});
    spec["persistentVolumeClaimRetentionPolicy"] = {{"whenDeleted", storage->value("whenDeleted", "Retain")},
                                                    {"whenScaled", storage->value("whenScaled", "Retain")}};
  }
  set["spec"] = std::move(spec);
  return set;
}

absl::StatusOr<Json> TopicsJobOf(const Processor& processor, const ModelOptions& options) {
  MS_RETURN_IF_ERROR(CheckPodTemplate(processor, processor.spec.value("podTemplate", Json::object())));
  MS_ASSIGN_OR_RETURN(Mounted mounted, ConfigurationOf(processor));
  Json args = Json::array({"topics", "--manifest", StrCat(kManifestFolder, "/", kManifestFile)});
  if (mounted.mounts.back().at("name") == "millstream-secrets") {
    args.push_back("--secrets");
    args.push_back(std::string(kSecretsFolder));
  }
  if (options.cluster_name != "local") {
    args.push_back("--cluster");
    args.push_back(options.cluster_name);
  }
  const Json container = {
      {"name", "topics"},
      {"image", SidecarImageOf(processor, options)},
      {"args", std::move(args)},
      // A verdict, or what a program that could not even say one left behind.
      {"terminationMessagePolicy", "FallbackToLogsOnError"},
      {"securityContext", ContainerSecurity()},
      {"resources", {{"requests", {{"cpu", "50m"}, {"memory", "64Mi"}}}, {"limits", {{"memory", "256Mi"}}}}},
      {"volumeMounts", std::move(mounted.mounts)}};
  // Not the processor's selector: it is no pod of the group, no budget and no service concerns it.
  Json labels = LabelsOf(processor, options);
  labels["app.kubernetes.io/component"] = "topics";
  const Json pod_spec = {{"serviceAccountName", processor.typed().name},
                         {"automountServiceAccountToken", false},
                         {"enableServiceLinks", false},
                         {"restartPolicy", "Never"},
                         {"securityContext", PodSecurityOf(options)},
                         {"containers", Json::array({container})},
                         {"volumes", std::move(mounted.volumes)}};
  Json pod = {{"metadata", {{"labels", labels}}}, {"spec", pod_spec}};
  pod = MergePodTemplate(std::move(pod), JobOverridesOf(processor));
  Json job = Object(processor, options, "batch/v1", "Job");
  job["metadata"] = MetadataOf(processor, options, TopicsJobNameOf(processor));
  job["metadata"]["labels"] = labels;
  job["spec"] = {{"backoffLimit", 0},  // the operator decides when it is worth another try
                 {"activeDeadlineSeconds", kTopicsDeadlineSeconds},
                 {"ttlSecondsAfterFinished", kTopicsKeptSeconds},
                 {"template", std::move(pod)}};
  return job;
}

absl::StatusOr<std::vector<Json>> ChildrenOf(const Processor& processor, const ModelOptions& options) {
  MS_ASSIGN_OR_RETURN(Json set, StatefulSetOf(processor, options));
  std::vector<Json> children;
  children.push_back(ServiceAccountOf(processor, options));
  children.push_back(ConfigMapOf(processor, options));
  if (options.network_policies) children.push_back(NetworkPolicyOf(processor, options));
  children.push_back(ServiceOf(processor, options));
  children.push_back(DisruptionBudgetOf(processor, options));
  children.push_back(std::move(set));
  if (options.pod_monitors) children.push_back(PodMonitorOf(processor, options));
  return children;
}

}  // namespace millstream::model
