#ifndef MILLSTREAM_CLI_KUBERNETES_CLUSTER_H_
#define MILLSTREAM_CLI_KUBERNETES_CLUSTER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "operator/kube/client.h"

namespace millstream::cli {

using kube::Json;

// As kubectl's flags of the same names.
struct ClusterOptions {
  std::string kubeconfig, context;
  std::string name_space;       // empty: that of the context
  bool all_namespaces = false;  // where processors are listed
};

// One of the processor's pods, and what its sidecar says.
struct PodReport {
  std::string name, node, phase;
  bool ready = false;
  Json tasks;           // GET /v1/tasks; null if it could not be asked
  absl::Status status;  // why not
};

// A cluster as the plugin uses it: StreamProcessors, their pods, the sidecars in them through `pods/proxy`, Jobs. Knows
// no output. One thread.
class Cluster {
 public:
  // Finds out where the cluster is, as kubectl does (operator/kube/config.h).
  static absl::StatusOr<std::unique_ptr<Cluster>> Connect(const ClusterOptions& options);
  // `transport` is for calls that are no objects: the proxy and logs.
  Cluster(std::unique_ptr<kube::Client> client, std::unique_ptr<kube::Transport> transport, std::string name_space);

  kube::Client& client() { return *client_; }
  const std::string& name_space() const { return name_space_; }

  // NOT_FOUND lists those that there are.
  absl::StatusOr<Json> Processor(const std::string& name);
  absl::StatusOr<std::vector<Json>> Processors(bool all_namespaces);
  // By ordinal.
  absl::StatusOr<std::vector<Json>> Pods(const Json& processor);
  // All of them asked, one after the other.
  absl::StatusOr<std::vector<PodReport>> Reports(const Json& processor);

  // GET of a path of the pod's sidecar. UNAVAILABLE: it cannot be reached; other errors are the sidecar's own.
  absl::StatusOr<std::string> AskSidecar(const kube::ObjectKey& pod, const std::string& path);
  // The last lines of a container's log.
  absl::StatusOr<std::string> Log(const kube::ObjectKey& pod, const std::string& container, int lines);

 private:
  absl::StatusOr<std::string> Fetch(const std::string& target, const std::string& what);

  const std::unique_ptr<kube::Client> client_;
  const std::unique_ptr<kube::Transport> transport_;
  const std::string name_space_;
};

}  // namespace millstream::cli

#endif  // MILLSTREAM_CLI_KUBERNETES_CLUSTER_H_
