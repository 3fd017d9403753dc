#include "operator/model/pod_template.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "operator/model/merge.h"

namespace millstream::model {
namespace {

constexpr int kUser = 65532;  // "nonroot" of distroless images
constexpr int kGraceSeconds = 60;

std::string Text(std::string_view text) { return std::string(text); }

Json Mount(std::string_view volume, std::string_view path, bool read_only) {
  Json mount = {{"name", Text(volume)}, {"mountPath", Text(path)}};
  if (read_only) mount["readOnly"] = true;
  return mount;
}

Json FieldVariable(std::string_view name, std::string_view path) {
  return {{"name", Text(name)}, {"valueFrom", {{"fieldRef", {{"apiVersion", "v1"}, {"fieldPath", Text(path)}}}}}};
}

Json HttpProbe(std::string_view path, int period_seconds, int failures) {
  return {{"httpGet", {{"path", Text(path)}, {"port", Text(kPortName)}, {"scheme", "HTTP"}}},
          {"periodSeconds", period_seconds},
          {"failureThreshold", failures},
          {"timeoutSeconds", 5}};
}

// Every reference of spec.kafka, as (is a ConfigMap, reference).
using References = std::set<std::pair<bool, std::pair<std::string, std::string>>>;
References ReferencesOf(const spec::KafkaSpec& kafka) {
  References all;
  const auto add = [&all](const std::optional<spec::SecretRef>& ref, bool config_map) {
    if (ref) all.insert({config_map, {ref->name, ref->key}});
  };
  if (kafka.tls) {
    add(kafka.tls->ca, kafka.tls->ca_is_config_map);
    add(kafka.tls->certificate, false);
    add(kafka.tls->key, false);
  }
  if (kafka.sasl) {
    add(kafka.sasl->username_ref, false);
    add(kafka.sasl->password, false);
    if (kafka.sasl->oauth) add(kafka.sasl->oauth->client_secret, false);
  }
  return all;
}

// Projected as <name>/<key>, which is where --secrets looks. Projections follow rotated secrets.
absl::StatusOr<Json> SecretsVolume(const References& references) {
  std::map<std::pair<bool, std::string>, Json> items;
  std::set<std::string> paths;
  for (const auto& [config_map, ref] : references) {
    const std::string path = StrCat(ref.first, "/", ref.second);
    if (!paths.insert(path).second) {
      return absl::InvalidArgumentError(StrCat("spec.kafka: key ", ref.second,
                                               " of both a Secret and a ConfigMap named ", ref.first,
                                               " is used; rename one of them"));
    }
    Json& list = items[{config_map, ref.first}];
    if (list.is_null()) list = Json::array();
    list.push_back({{"key", ref.second}, {"path", path}});
  }
  Json sources = Json::array();
  for (auto& [named, list] : items) {
    sources.push_back({{named.first ? "configMap" : "secret", {{"name", named.second}, {"items", std::move(list)}}}});
  }
  return Json{{"name", "millstream-secrets"}, {"projected", {{"sources", std::move(sources)}, {"defaultMode", 0440}}}};
}

Json SidecarContainer(const Processor& processor, const ModelOptions& options, Json mounts) {
  Json args = Json::array({"--manifest", StrCat(kManifestFolder, "/", kManifestFile), "--state", Text(kStateFolder),
                           "--socket", StrCat(kSocketFolder, "/worker.sock"), "--http-address", "$(POD_IP)",
                           "--http-port", StrCat(kHttpPort), "--orders", StrCat(kOrdersFolder, "/orders")});
  if (!ReferencesOf(processor.typed().kafka).empty()) {
    args.push_back("--secrets");
    args.push_back(Text(kSecretsFolder));
  }
  if (options.cluster_name != "local") {
    args.push_back("--cluster");
    args.push_back(options.cluster_name);
  }
  mounts.push_back(Mount("millstream-socket", kSocketFolder, false));
  mounts.push_back(Mount("millstream-orders", kOrdersFolder, true));
  mounts.push_back(Mount(kStateVolume, kStateFolder, false));
  Json container = {
      {"name", Text(kSidecarContainer)},
      {"image", SidecarImageOf(processor, options)},
      {"args", std::move(args)},
      // The pod's address, and not all addresses: right with IPv4 and IPv6. The member is who it is in its group, the
      // same after a restart.
      {"env",
       Json::array({FieldVariable("POD_IP", "status.podIP"), FieldVariable("MILLSTREAM_MEMBER", "metadata.name")})},
      // Twenty minutes: a Kafka that cannot be reached is a condition to be reported, not a reason to restart.
      {"startupProbe", HttpProbe("/healthz", 2, 600)},
      {"readinessProbe", HttpProbe("/readyz", 2, 2)},
      // Not before a minute: a busy node is no reason to restore state once more.
      {"livenessProbe", HttpProbe("/healthz", 10, 6)},
      {"lifecycle", {{"preStop", {{"exec", {{"command", Json::array({"millstream-sidecar", "drain"})}}}}}}},
      // The last words of one that ended are in its status: the operator tells them, and reads no logs.
      {"terminationMessagePolicy", "FallbackToLogsOnError"},
      {"securityContext", ContainerSecurity()},
      {"volumeMounts", std::move(mounts)}};
  container["ports"] = Json::array();
  container["ports"].push_back(Json{{"name", Text(kPortName)}, {"containerPort", kHttpPort}, {"protocol", "TCP"}});
  if (const auto sidecar = processor.spec.find("sidecar"); sidecar != processor.spec.end()) {
    if (sidecar->contains("resources")) container["resources"] = (*sidecar)["resources"];
  }
  // A native sidecar: starts before the worker, ends behind it. A view's is the pod's only container.
  if (!processor.typed().is_view()) container["restartPolicy"] = "Always";
  return container;
}

bool HasItem(const Json& list, const char* key, std::string_view value) {
  for (const Json& item : list) {
    if (item.is_object() && item.contains(key) && item[key] == Text(value)) return true;
  }
  return false;
}

Json WorkerContainer(const Processor& processor) {
  Json container = processor.spec.value("container", Json::object());
  container["name"] = Text(kWorkerContainer);
  Json& env = container["env"];
  if (!env.is_array()) env = Json::array();
  if (!HasItem(env, "name", "HOME")) env.push_back(Json{{"name", "HOME"}, {"value", "/tmp"}});
  env.push_back(Json{{"name", "MILLSTREAM_SOCKET"}, {"value", StrCat(kSocketFolder, "/worker.sock")}});
  Json& mounts = container["volumeMounts"];
  if (!mounts.is_array()) mounts = Json::array();
  mounts.push_back(Mount("millstream-socket", kSocketFolder, false));
  if (!HasItem(mounts, "mountPath", "/tmp")) mounts.push_back(Mount("millstream-tmp", "/tmp", false));
  Json security = ContainerSecurity();
  if (container.contains("securityContext")) security.merge_patch(container["securityContext"]);
  container["securityContext"] = std::move(security);
  if (!container.contains("terminationMessagePolicy")) container["terminationMessagePolicy"] = "FallbackToLogsOnError";
  return container;
}

Json SpreadOver(const Processor& processor, std::string_view topology) {
  return {{"maxSkew", 1},
          {"topologyKey", Text(topology)},
          {"whenUnsatisfiable", "ScheduleAnyway"},
          {"labelSelector", {{"matchLabels", SelectorOf(processor)}}}};
}

Json TemplateMetadata(const Processor& processor) {
  Json annotations = {{Text(kAnnotationPrefix) + "manifest-hash", ManifestHash(processor)}};
  if (!processor.typed().is_view()) annotations["kubectl.kubernetes.io/default-container"] = Text(kWorkerContainer);
  if (!processor.restarted_at.empty()) annotations[Text(kAnnotationPrefix) + "restartedAt"] = processor.restarted_at;
  return {{"labels", PodLabelsOf(processor)}, {"annotations", std::move(annotations)}};
}

Json OrdersVolume() {
  const Json item = {
      {"path", "orders"},
      {"fieldRef", {{"apiVersion", "v1"}, {"fieldPath", StrCat("metadata.annotations['", kOrdersAnnotation, "']")}}}};
  return {{"name", "millstream-orders"}, {"downwardAPI", {{"items", Json::array({item})}, {"defaultMode", 0444}}}};
}

Json EmptyFolder(std::string_view name) { return {{"name", Text(name)}, {"emptyDir", Json::object()}}; }

}  // namespace

Json PodSecurityOf(const ModelOptions& options) {
  Json security = {{"runAsNonRoot", true},
                   {"fsGroupChangePolicy", "OnRootMismatch"},
                   {"seccompProfile", {{"type", "RuntimeDefault"}}}};
  if (!options.openshift) {
    security["runAsUser"] = kUser;
    security["runAsGroup"] = kUser;
    security["fsGroup"] = kUser;
  }
  return security;
}

Json ContainerSecurity() {
  return {{"allowPrivilegeEscalation", false},
          {"readOnlyRootFilesystem", true},
          {"capabilities", {{"drop", Json::array({"ALL"})}}}};
}

std::string SidecarImageOf(const Processor& processor, const ModelOptions& options) {
  const auto sidecar = processor.spec.find("sidecar");
  if (sidecar == processor.spec.end()) return options.sidecar_image;
  return sidecar->value("image", options.sidecar_image);
}

absl::StatusOr<Mounted> ConfigurationOf(const Processor& processor) {
  Mounted mounted;
  mounted.volumes.push_back(
      Json{{"name", "millstream-manifest"}, {"configMap", {{"name", processor.typed().name}, {"defaultMode", 0444}}}});
  mounted.mounts.push_back(Mount("millstream-manifest", kManifestFolder, true));
  mounted.volumes.push_back(EmptyFolder("millstream-sidecar-tmp"));
  mounted.mounts.push_back(Mount("millstream-sidecar-tmp", "/tmp", false));
  if (const References references = ReferencesOf(processor.typed().kafka); !references.empty()) {
    MS_ASSIGN_OR_RETURN(Json secrets, SecretsVolume(references));
    mounted.volumes.push_back(std::move(secrets));
    mounted.mounts.push_back(Mount("millstream-secrets", kSecretsFolder, true));
  }
  return mounted;
}

absl::StatusOr<Json> PodTemplateOf(const Processor& processor, const ModelOptions& options) {
  const Json overrides = processor.spec.value("podTemplate", Json::object());
  MS_RETURN_IF_ERROR(CheckPodTemplate(processor, overrides));
  MS_ASSIGN_OR_RETURN(Mounted mounted, ConfigurationOf(processor));
  Json volumes = std::move(mounted.volumes);
  volumes.push_back(EmptyFolder("millstream-socket"));
  volumes.push_back(OrdersVolume());
  if (!processor.spec.contains("storage")) volumes.push_back(EmptyFolder(kStateVolume));

  Json spec = {{"serviceAccountName", processor.typed().name},
               {"automountServiceAccountToken", false},
               {"enableServiceLinks", false},
               {"terminationGracePeriodSeconds", kGraceSeconds},
               {"securityContext", PodSecurityOf(options)}};
  spec["topologySpreadConstraints"] = Json::array();
  for (const char* topology : {"topology.kubernetes.io/zone", "kubernetes.io/hostname"}) {
    spec["topologySpreadConstraints"].push_back(SpreadOver(processor, topology));
  }
  spec["containers"] = Json::array();
  Json sidecar = SidecarContainer(processor, options, std::move(mounted.mounts));
  if (processor.typed().is_view()) {
    spec["containers"].push_back(std::move(sidecar));
  } else {
    spec["initContainers"] = Json::array();
    spec["initContainers"].push_back(std::move(sidecar));
    spec["containers"].push_back(WorkerContainer(processor));
    volumes.push_back(EmptyFolder("millstream-tmp"));
  }
  spec["volumes"] = std::move(volumes);
  Json pod = {{"metadata", TemplateMetadata(processor)}, {"spec", std::move(spec)}};
  pod = MergePodTemplate(std::move(pod), overrides);
  MS_RETURN_IF_ERROR(CheckMounts(pod));
  Json& annotations = pod["metadata"]["annotations"];
  annotations[Text(kTemplateHashAnnotation)] = HashOf(pod.dump());
  annotations[Text(kSpecHashAnnotation)] = SpecHash(processor);
  return pod;
}

}  // namespace millstream::model
