#include "operator/options.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "CLI/CLI.hpp"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "operator/kube/json.h"

namespace millstream::program {
namespace {

constexpr const char* kVersion = MILLSTREAM_VERSION;  // of the project, from the build
// A DNS-1123 label: names of namespaces, leases and clusters are such.
constexpr size_t kMaxLabel = 63;

bool IsLabel(const std::string& text) {
  const auto legal = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; };
  return !text.empty() && text.size() <= kMaxLabel && text.front() != '-' && text.back() != '-' &&
         std::all_of(text.begin(), text.end(), legal);
}

// What CLI11 fills in, before it is looked at as a whole.
struct Raw {
  Options options;
  std::string peers, level = "info", format = "json";
  std::vector<std::string> monitor_labels;
};

void AddWhereAndWho(CLI::App* app, Raw* raw) {
  Options& options = raw->options;
  app->add_option("--kubeconfig", options.kubeconfig,
                  "File that says where the API server is; default: KUBECONFIG, the pod's service account, "
                  "~/.kube/config");
  app->add_option("--context", options.context, "Context of the kubeconfig; default: its current one");
  app->add_option("--namespaces", options.namespaces, "Namespaces to work in, by commas; default: all")->delimiter(',');
  app->add_option("--operator-namespace", options.operator_namespace,
                  "Where the operator runs and its lease is; default: POD_NAMESPACE of the environment, else that of "
                  "the service account or context");
  app->add_option("--identity", options.identity,
                  "Who this process is, unique; default: POD_NAME of the environment, else the host's name");
  app->add_flag("--leader-elect,!--no-leader-elect", options.leader_election,
                "Work only while holding the lease; without it there must be no second operator (default: on)");
  app->add_option("--lease-name", options.lease_name, "The lease of the leader election")->capture_default_str();
}

void AddWhatItMakes(CLI::App* app, Raw* raw) {
  Options& options = raw->options;
  app->add_option("--cluster-name", options.model.cluster_name,
                  "Name of this Kubernetes cluster in the owner stamps of groups, where several share a Kafka")
      ->capture_default_str();
  app->add_option("--sidecar-image", options.model.sidecar_image,
                  "Image of Millstream's container where a manifest names none; needed");
  app->add_option("--max-concurrent-rollouts", options.max_concurrent_rollouts,
                  "So many processors roll at a time when the default sidecar image has changed")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app->add_flag("--openshift", options.model.openshift, "Leave user and group ids of pods to the platform");
  app->add_flag("--network-policies", options.model.network_policies,
                "Make a NetworkPolicy for each processor: only its group, the operator and --network-peers reach its "
                "sidecars");
  app->add_option("--network-peers", raw->peers, "JSON list of NetworkPolicyPeers that may reach sidecars as well");
  app->add_flag("--pod-monitors", options.model.pod_monitors,
                "Make a PodMonitor for each processor (needs the Prometheus operator)");
  app->add_option("--pod-monitor-labels", raw->monitor_labels, "Labels of the PodMonitors: a=b,c=d")->delimiter(',');
}

void AddHowItRuns(CLI::App* app, Raw* raw) {
  Options& options = raw->options;
  app->add_option("--workers", options.workers, "So many processors are looked at at a time")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app->add_option("--http-address", options.http_address, "Where /healthz, /readyz and /metrics are")
      ->capture_default_str();
  app->add_option("--http-port", options.http_port, "0: a free one, which the log names")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  app->add_option("--probe", options.probe,
                  "Do nothing but ask this URL (http://host:port/readyz) and print the answer; exit code 0 for 2xx");
  app->add_option("--log-level", raw->level, "debug, info, warn or error")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}))
      ->capture_default_str();
  app->add_option("--log-format", raw->format, "json or text")
      ->check(CLI::IsMember({"json", "text"}))
      ->capture_default_str();
}

absl::Status TakePeers(const std::string& text, model::Json* peers) {
  if (text.empty()) return absl::OkStatus();
  MS_ASSIGN_OR_RETURN(*peers, kube::ParseJson(text, "--network-peers"));
  const auto is_peer = [](const model::Json& peer) { return peer.is_object() && !peer.empty(); };
  if (peers->is_array() && std::all_of(peers->begin(), peers->end(), is_peer)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--network-peers: a JSON list of NetworkPolicyPeers is wanted, as "
      "'[{\"podSelector\": {\"matchLabels\": {\"app\": \"dashboard\"}}}]'");
}

absl::Status TakeLabels(const std::vector<std::string>& pairs, std::map<std::string, std::string>* labels) {
  for (const std::string& pair : pairs) {
    const size_t equals = pair.find('=');
    if (equals == 0 || equals == std::string::npos) {
      return absl::InvalidArgumentError(StrCat("--pod-monitor-labels: '", pair, "' is not of the form name=value"));
    }
    (*labels)[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  return absl::OkStatus();
}

absl::Status CheckNames(const Options& options) {
  std::map<std::string, std::string> names = {{"--lease-name", options.lease_name},
                                              {"--cluster-name", options.model.cluster_name}};
  if (!options.operator_namespace.empty()) names["--operator-namespace"] = options.operator_namespace;
  for (const auto& [option, name] : names) {
    if (IsLabel(name)) continue;
    return absl::InvalidArgumentError(
        StrCat(option, ": '", name, "' is no name: up to 63 lowercase letters, digits and '-' within"));
  }
  for (const std::string& name : options.namespaces) {
    if (!IsLabel(name)) return absl::InvalidArgumentError(StrCat("--namespaces: '", name, "' names no namespace"));
  }
  if (options.model.sidecar_image.empty() && options.probe.empty()) {
    return absl::InvalidArgumentError(
        "--sidecar-image is needed: the image of Millstream's container, as registry/name:tag");
  }
  return absl::OkStatus();
}

absl::StatusOr<Options> Finish(Raw raw) {
  static const std::map<std::string, LogLevel> kLevels = {{"debug", LogLevel::kDebug},
                                                          {"info", LogLevel::kInfo},
                                                          {"warn", LogLevel::kWarning},
                                                          {"error", LogLevel::kError}};
  Options& options = raw.options;
  options.log_level = kLevels.at(raw.level);
  options.log_format = raw.format == "json" ? LogFormat::kJson : LogFormat::kText;
  options.model.operator_version = kVersion;
  options.model.operator_namespace = options.operator_namespace;
  MS_RETURN_IF_ERROR(TakePeers(raw.peers, &options.model.network_peers));
  MS_RETURN_IF_ERROR(TakeLabels(raw.monitor_labels, &options.model.pod_monitor_labels));
  // One that is given twice would be watched twice.
  const std::set<std::string> distinct(options.namespaces.begin(), options.namespaces.end());
  options.namespaces.assign(distinct.begin(), distinct.end());
  MS_RETURN_IF_ERROR(CheckNames(options));
  return std::move(options);
}

}  // namespace

absl::StatusOr<Options> ParseOptions(std::vector<std::string> arguments, const kube::Environment& environment) {
  Raw raw;
  CLI::App app{"Millstream's operator: makes and keeps what the StreamProcessors of a Kubernetes cluster ask for.",
               std::string(kProgram)};
  app.set_version_flag("--version", StrCat(kProgram, " ", kVersion));
  AddWhereAndWho(&app, &raw);
  AddWhatItMakes(&app, &raw);
  AddHowItRuns(&app, &raw);
  raw.options.operator_namespace = environment("POD_NAMESPACE").value_or("");
  raw.options.identity = environment("POD_NAME").value_or("");
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 takes a vector
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, err;
    const int code = app.exit(error, out, err);
    if (code == 0) return absl::CancelledError(out.str());
    return absl::InvalidArgumentError(err.str());
  }
  return Finish(std::move(raw));
}

}  // namespace millstream::program
