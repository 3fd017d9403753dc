#include "cli/kubernetes/cluster.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "operator/kube/api_error.h"
#include "operator/kube/config.h"
#include "operator/kube/http_transport.h"
#include "operator/kube/json.h"

namespace millstream::cli {
namespace {

// The port of every sidecar in a cluster (operator/model/processor.h).
constexpr int kSidecarPort = 7979;
constexpr absl::Duration kDeadline = absl::Seconds(15);
constexpr char kUserAgent[] = "kubectl-millstream/" MILLSTREAM_VERSION;

int64_t OrdinalOf(const Json& pod) {
  const std::string name = kube::KeyOf(pod).name;
  int64_t ordinal = 0;
  return absl::SimpleAtoi(name.substr(name.rfind('-') + 1), &ordinal) ? ordinal : -1;
}

bool IsReady(const Json& pod) {
  const Json* conditions = kube::Find(pod, {"status", "conditions"});
  if (conditions == nullptr || !conditions->is_array()) return false;
  return std::any_of(conditions->begin(), conditions->end(), [](const Json& condition) {
    return kube::TextAt(condition, {"type"}) == "Ready" && kube::TextAt(condition, {"status"}) == "True";
  });
}

absl::StatusCode CodeOf(const std::string& name) {
  for (int code = 1; code <= 16; ++code) {
    const auto candidate = static_cast<absl::StatusCode>(code);
    if (absl::StatusCodeToString(candidate) == name) return candidate;
  }
  return absl::StatusCode::kUnavailable;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Cluster>> Cluster::Connect(const ClusterOptions& options) {
  MS_ASSIGN_OR_RETURN(const kube::ClientConfig config,
                      kube::FindConfig(options.kubeconfig, options.context, kube::ProcessEnvironment()));
  MS_ASSIGN_OR_RETURN(std::unique_ptr<kube::Transport> calls,
                      kube::NewHttpTransport(config, kUserAgent, &SystemClock()));
  MS_ASSIGN_OR_RETURN(std::unique_ptr<kube::Transport> raw, kube::NewHttpTransport(config, kUserAgent, &SystemClock()));
  kube::ClientOptions client;
  client.field_manager = "kubectl-millstream";
  client.deadline = kDeadline;
  return std::make_unique<Cluster>(std::make_unique<kube::Client>(std::move(calls), std::move(client)), std::move(raw),
                                   options.name_space.empty() ? config.name_space : options.name_space);
}

Cluster::Cluster(std::unique_ptr<kube::Client> client, std::unique_ptr<kube::Transport> transport,
                 std::string name_space)
    : client_(std::move(client)), transport_(std::move(transport)), name_space_(std::move(name_space)) {}

absl::StatusOr<Json> Cluster::Processor(const std::string& name) {
  absl::StatusOr<Json> found = client_->Get(kube::kStreamProcessors, {name_space_, name});
  if (!absl::IsNotFound(found.status())) return found;
  const absl::StatusOr<std::vector<Json>> all = Processors(false);
  if (!all.ok()) return found;
  std::string names;
  for (const Json& processor : *all) StrAppend(&names, names.empty() ? "" : ", ", kube::KeyOf(processor).name);
  return absl::NotFoundError(StrCat("there is no StreamProcessor ", name, " in namespace ", name_space_, "; ",
                                    names.empty() ? "it has none (-n chooses another)" : StrCat("it has: ", names)));
}

absl::StatusOr<std::vector<Json>> Cluster::Processors(bool all_namespaces) {
  kube::Selection selection;
  if (!all_namespaces) selection.name_space = name_space_;
  absl::StatusOr<kube::ObjectList> list = client_->List(kube::kStreamProcessors, selection);
  if (absl::IsNotFound(list.status())) {
    return absl::NotFoundError(
        "the cluster knows no StreamProcessors: install the operator (helm install millstream ...), or its CRD");
  }
  if (!list.ok()) return list.status();
  return std::move(list->items);
}

absl::StatusOr<std::vector<Json>> Cluster::Pods(const Json& processor) {
  const kube::ObjectKey key = kube::KeyOf(processor);
  kube::Selection selection;
  selection.name_space = key.name_space;
  selection.label_selector = StrCat("app.kubernetes.io/name=streamprocessor,app.kubernetes.io/instance=", key.name,
                                    ",app.kubernetes.io/component=processor");
  MS_ASSIGN_OR_RETURN(kube::ObjectList list, client_->List(kube::kPods, selection));
  std::sort(list.items.begin(), list.items.end(),
            [](const Json& a, const Json& b) { return OrdinalOf(a) < OrdinalOf(b); });
  return std::move(list.items);
}

absl::StatusOr<std::vector<PodReport>> Cluster::Reports(const Json& processor) {
  MS_ASSIGN_OR_RETURN(const std::vector<Json> pods, Pods(processor));
  std::vector<PodReport> reports;
  for (const Json& pod : pods) {
    PodReport& report = reports.emplace_back();
    report.name = kube::KeyOf(pod).name;
    report.node = kube::TextAt(pod, {"spec", "nodeName"});
    report.phase =
        kube::Find(pod, {"metadata", "deletionTimestamp"}) ? "Terminating" : kube::TextAt(pod, {"status", "phase"});
    report.ready = IsReady(pod);
    const absl::StatusOr<std::string> answer = AskSidecar(kube::KeyOf(pod), "/v1/tasks");
    report.status = answer.status();
    if (!answer.ok()) continue;
    absl::StatusOr<Json> tasks = kube::ParseJson(*answer, StrCat("/v1/tasks of pod ", report.name));
    report.status = tasks.status();
    if (tasks.ok()) report.tasks = *std::move(tasks);
  }
  return reports;
}

absl::StatusOr<std::string> Cluster::Fetch(const std::string& target, const std::string& what) {
  kube::HttpCall call;
  call.method = "GET";
  call.target = target;
  call.deadline = kDeadline;
  call.repeatable = true;
  const absl::StatusOr<kube::HttpAnswer> answer = transport_->Do(call);
  if (!answer.ok()) return Annotate(answer.status(), what);
  if (answer->status >= 200 && answer->status < 300) return answer->body;
  // Of a sidecar, or of the API server.
  const Json json = Json::parse(answer->body, nullptr, /*allow_exceptions=*/false);
  if (const Json* error = kube::Find(json, {"error"}); error != nullptr && error->is_object()) {
    std::string message = kube::TextAt(*error, {"message"});
    if (const std::string hint = kube::TextAt(*error, {"hint"}); !hint.empty()) StrAppend(&message, "; ", hint);
    return absl::Status(CodeOf(kube::TextAt(*error, {"code"})), message);
  }
  return kube::ToStatus(kube::ReadApiError(answer->status, answer->body, answer->retry_after), what);
}

absl::StatusOr<std::string> Cluster::AskSidecar(const kube::ObjectKey& pod, const std::string& path) {
  const std::string target =
      StrCat(kube::ObjectPath(kube::kPods, {pod.name_space, StrCat(pod.name, ":", kSidecarPort)}, "proxy"), path);
  absl::StatusOr<std::string> answer = Fetch(target, StrCat("ask the sidecar of pod ", pod.Text()));
  if (absl::IsPermissionDenied(answer.status()))
    return Annotate(answer.status(), "this needs the right `get` on `pods/proxy`");
  return answer;
}

absl::StatusOr<std::string> Cluster::Log(const kube::ObjectKey& pod, const std::string& container, int lines) {
  const std::string target = StrCat(kube::ObjectPath(kube::kPods, pod, "log"),
                                    kube::Query({{"container", container}, {"tailLines", StrCat(lines)}}));
  return Fetch(target, StrCat("read the log of container ", container, " of pod ", pod.Text()));
}

}  // namespace millstream::cli
