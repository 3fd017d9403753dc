#ifndef MILLSTREAM_CLI_KUBERNETES_TOOL_JOB_H_
#define MILLSTREAM_CLI_KUBERNETES_TOOL_JOB_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/kubernetes/cluster.h"

namespace millstream::cli {

// A command of `millstream` that has to reach the processor's Kafka with the processor's secrets, which nobody outside
// of the cluster needs to have: it runs as a Job, in the image and with the mounts of the processor's sidecars.

// The Job for `arguments` ("reset", "--to", "earliest"). `set`: the processor's StatefulSet, whose pods it resembles;
// `name`: of the Job. FAILED_PRECONDITION: the pods do not look as the operator makes them.
absl::StatusOr<Json> ToolJobOf(const Json& processor, const Json& set, const std::string& name,
                               const std::vector<std::string>& arguments);

struct ToolResult {
  int exit_code = 0;
  std::string output;  // of the container: what the command printed, and why it failed
};

// Makes the Job, waits for its end, reads what it printed, deletes it. `on_wait` is told why it takes long.
// DEADLINE_EXCEEDED: it still runs; the message says how to follow it. FAILED_PRECONDITION: it cannot start.
absl::StatusOr<ToolResult> RunTool(Cluster& cluster, const Json& processor, const std::vector<std::string>& arguments,
                                   absl::Duration patience, const std::function<void(const std::string& why)>& on_wait);

}  // namespace millstream::cli

#endif  // MILLSTREAM_CLI_KUBERNETES_TOOL_JOB_H_
