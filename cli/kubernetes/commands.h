#ifndef MILLSTREAM_CLI_KUBERNETES_COMMANDS_H_
#define MILLSTREAM_CLI_KUBERNETES_COMMANDS_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "cli/context.h"
#include "cli/kubernetes/cluster.h"

namespace millstream::cli {

// What the plugin's commands share, beside `Context` (output, what is to be done).
struct ClusterContext {
  Context base;
  ClusterOptions options;
  std::string name;  // of the processor

  absl::StatusOr<std::unique_ptr<Cluster>> Connect() const { return Cluster::Connect(options); }
  // Connects, finds the processor, calls `use` with both; prints errors. Returns the exit code.
  int WithProcessor(const std::function<absl::Status(Cluster& cluster, const Json& processor)>& use) const;

  // NAME / -n, --context, --kubeconfig / those and -o. The name first: arguments without a dash come in that order.
  void AddConnectionOptions(CLI::App* command);
  void AddClusterOptions(CLI::App* command);
  void AddName(CLI::App* command, bool required = true);
};

// Each adds one command (or a group of them). `context` outlives the app.
void RegisterStatus(CLI::App* app, ClusterContext* context);
void RegisterClusterTasks(CLI::App* app, ClusterContext* context);
void RegisterClusterLag(CLI::App* app, ClusterContext* context);
void RegisterClusterState(CLI::App* app, ClusterContext* context);
void RegisterChanges(CLI::App* app, ClusterContext* context);      // pause, resume, restart
void RegisterClusterJobs(CLI::App* app, ClusterContext* context);  // reset, dead-letters
void RegisterReport(CLI::App* app, ClusterContext* context);

}  // namespace millstream::cli

#endif  // MILLSTREAM_CLI_KUBERNETES_COMMANDS_H_
