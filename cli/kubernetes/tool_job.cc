#include "cli/kubernetes/tool_job.h"

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "operator/kube/json.h"

namespace millstream::cli {
namespace {

using kube::Find;
using kube::TextAt;

constexpr char kContainer[] = "millstream";  // of the sidecars; also of the Job
constexpr absl::Duration kLookInterval = absl::Milliseconds(500);
constexpr int kDeadlineSeconds = 3600;  // a replay of a full dead-letter topic; whoever made it may be gone by then
constexpr int kKeptSeconds = 3600;      // if nobody deletes it
constexpr int kMaxLines = 100'000;

const Json* ContainerOf(const Json& pod_spec) {
  for (const char* list : {"initContainers", "containers"}) {
    const Json* containers = Find(pod_spec, {list});
    if (containers == nullptr || !containers->is_array()) continue;
    for (const Json& container : *containers) {
      if (TextAt(container, {"name"}) == kContainer) return &container;
    }
  }
  return nullptr;
}

// The value behind an option of the sidecar, as `--secrets DIR`.
std::string OptionOf(const Json& sidecar, const std::string& option) {
  const Json* args = Find(sidecar, {"args"});
  if (args == nullptr || !args->is_array()) return "";
  for (size_t i = 0; i + 1 < args->size(); ++i) {
    if ((*args)[i] == option && (*args)[i + 1].is_string()) return (*args)[i + 1].get<std::string>();
  }
  return "";
}

// Manifest, secrets and a place for temporary files; not the state, which is the sidecar's, and no socket.
bool IsWanted(const std::string& volume) {
  return volume == "millstream-manifest" || volume == "millstream-secrets" || volume == "millstream-sidecar-tmp";
}

Json Wanted(const Json* list) {
  Json wanted = Json::array();
  if (list == nullptr || !list->is_array()) return wanted;
  for (const Json& item : *list) {
    if (IsWanted(TextAt(item, {"name"}))) wanted.push_back(item);
  }
  return wanted;
}

// What a person wants to know while nothing happens.
std::string WhyItWaits(const Json& pod) {
  const Json* statuses = Find(pod, {"status", "containerStatuses"});
  if (statuses != nullptr && statuses->is_array()) {
    for (const Json& status : *statuses) {
      if (const std::string reason = TextAt(status, {"state", "waiting", "reason"}); !reason.empty())
        return StrCat(reason, ": ", TextAt(status, {"state", "waiting", "message"}));
    }
  }
  const Json* conditions = Find(pod, {"status", "conditions"});
  if (conditions != nullptr && conditions->is_array()) {
    for (const Json& condition : *conditions) {
      if (TextAt(condition, {"type"}) == "PodScheduled" && TextAt(condition, {"status"}) == "False")
        return StrCat(TextAt(condition, {"reason"}), ": ", TextAt(condition, {"message"}));
    }
  }
  return "";
}

std::optional<int64_t> ExitCodeOf(const Json& pod) {
  const Json* statuses = Find(pod, {"status", "containerStatuses"});
  if (statuses == nullptr || !statuses->is_array() || statuses->empty()) return std::nullopt;
  const Json* code = Find(statuses->front(), {"state", "terminated", "exitCode"});
  if (code == nullptr || !code->is_number_integer()) return std::nullopt;
  return code->get<int64_t>();
}

// One Job from its making to its end.
class Run {
 public:
  Run(Cluster& cluster, kube::ObjectKey job) : cluster_(cluster), job_(std::move(job)) {}

  absl::StatusOr<ToolResult> Wait(absl::Duration patience, const std::function<void(const std::string&)>& on_wait) {
    const absl::Duration end = SystemClock().Monotonic() + patience;
    std::string told;
    while (true) {
      MS_ASSIGN_OR_RETURN(const std::optional<Json> pod, Pod());
      if (pod) {
        if (const std::optional<int64_t> code = ExitCodeOf(*pod)) return Result(*pod, static_cast<int>(*code));
        const std::string why = WhyItWaits(*pod);
        if (!why.empty() && why != told && on_wait) on_wait(why);
        told = why;
      }
      if (SystemClock().Monotonic() > end) {
        return absl::DeadlineExceededError(
            StrCat("Job ", job_.Text(), " still runs", told.empty() ? "" : StrCat(" (", told, ")"),
                   "; follow it with: kubectl logs -f -n ", job_.name_space, " job/", job_.name));
      }
      std::this_thread::sleep_for(absl::ToChronoMilliseconds(kLookInterval));
    }
  }

 private:
  absl::StatusOr<std::optional<Json>> Pod() {
    kube::Selection selection;
    selection.name_space = job_.name_space;
    selection.label_selector = StrCat("job-name=", job_.name);
    MS_ASSIGN_OR_RETURN(kube::ObjectList pods, cluster_.client().List(kube::kPods, selection));
    if (pods.items.empty()) return std::optional<Json>();
    return std::optional<Json>(std::move(pods.items.front()));
  }

  absl::StatusOr<ToolResult> Result(const Json& pod, int code) {
    MS_ASSIGN_OR_RETURN(std::string output, cluster_.Log(kube::KeyOf(pod), kContainer, kMaxLines));
    return ToolResult{.exit_code = code, .output = std::move(output)};
  }

  Cluster& cluster_;
  const kube::ObjectKey job_;
};

}  // namespace

absl::StatusOr<Json> ToolJobOf(const Json& processor, const Json& set, const std::string& name,
                               const std::vector<std::string>& arguments) {
  const kube::ObjectKey key = kube::KeyOf(processor);
  const Json* pod = Find(set, {"spec", "template", "spec"});
  const Json* sidecar = pod == nullptr ? nullptr : ContainerOf(*pod);
  const std::string manifest = sidecar == nullptr ? "" : OptionOf(*sidecar, "--manifest");
  const std::string brokers = TextAt(processor, {"spec", "kafka", "bootstrapServers"});
  if (manifest.empty() || brokers.empty()) {
    return absl::FailedPreconditionError(
        StrCat("StatefulSet ", key.Text(),
               " has no container `millstream` as the operator makes it; kubectl millstream "
               "status ",
               key.name, " tells what it waits for"));
  }
  Json command = Json::array({"millstream"});
  for (const std::string& argument : arguments) command.push_back(argument);
  for (const std::string& argument : {std::string("--manifest"), manifest, std::string("--kafka"), brokers})
    command.push_back(argument);
  for (const char* option : {"--secrets", "--cluster"}) {
    const std::string value = OptionOf(*sidecar, option);
    if (value.empty()) continue;
    command.push_back(option);
    command.push_back(value);
  }
  const Json labels = {{"app.kubernetes.io/name", "streamprocessor"},
                       {"app.kubernetes.io/instance", key.name},
                       {"app.kubernetes.io/component", "tool"},
                       {"app.kubernetes.io/part-of", "millstream"},
                       {"app.kubernetes.io/managed-by", "kubectl-millstream"}};
  Json container = {{"name", kContainer},
                    {"image", TextAt(*sidecar, {"image"})},
                    {"command", std::move(command)},
                    {"volumeMounts", Wanted(Find(*sidecar, {"volumeMounts"}))}};
  for (const char* field : {"securityContext", "imagePullPolicy"}) {
    if (const Json* value = Find(*sidecar, {field})) container[field] = *value;
  }
  Json pod_spec = {{"restartPolicy", "Never"},
                   {"automountServiceAccountToken", false},
                   {"enableServiceLinks", false},
                   {"containers", Json::array({container})},
                   {"volumes", Wanted(Find(*pod, {"volumes"}))}};
  for (const char* field :
       {"serviceAccountName", "securityContext", "imagePullSecrets", "nodeSelector", "tolerations", "affinity"}) {
    if (const Json* value = Find(*pod, {field})) pod_spec[field] = *value;
  }
  const Json owner = {{"apiVersion", "millstream.dev/v1alpha1"},
                      {"kind", "StreamProcessor"},
                      {"name", key.name},
                      {"uid", kube::UidOf(processor)}};
  return Json{
      {"apiVersion", "batch/v1"},
      {"kind", "Job"},
      {"metadata",
       {{"name", name}, {"namespace", key.name_space}, {"labels", labels}, {"ownerReferences", Json::array({owner})}}},
      {"spec",
       {{"backoffLimit", 0},
        {"activeDeadlineSeconds", kDeadlineSeconds},
        {"ttlSecondsAfterFinished", kKeptSeconds},
        {"template", {{"metadata", {{"labels", labels}}}, {"spec", std::move(pod_spec)}}}}}};
}

absl::StatusOr<ToolResult> RunTool(Cluster& cluster, const Json& processor, const std::vector<std::string>& arguments,
                                   absl::Duration patience,
                                   const std::function<void(const std::string& why)>& on_wait) {
  const kube::ObjectKey key = kube::KeyOf(processor);
  const absl::StatusOr<Json> set = cluster.client().Get(kube::kStatefulSets, key);
  if (absl::IsNotFound(set.status())) {
    return absl::FailedPreconditionError(StrCat("StreamProcessor ", key.Text(),
                                                " has no StatefulSet yet; kubectl "
                                                "millstream status ",
                                                key.name, " tells what it waits for"));
  }
  if (!set.ok()) return set.status();
  // Within 63 characters: a processor's name has at most 52.
  const std::string name = StrCat(key.name, "-", absl::Hex(SystemClock().WallMillis() & 0xffffffff, absl::kZeroPad8));
  MS_ASSIGN_OR_RETURN(const Json job, ToolJobOf(processor, *set, name, arguments));
  MS_RETURN_IF_ERROR(cluster.client().Create(kube::kJobs, job).status());
  const kube::ObjectKey job_key{key.name_space, name};
  absl::StatusOr<ToolResult> result = Run(cluster, job_key).Wait(patience, on_wait);
  // One that still runs is left to run.
  if (result.ok()) (void)cluster.client().Delete(kube::kJobs, job_key, {});
  return result;
}

}  // namespace millstream::cli
