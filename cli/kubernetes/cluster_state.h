#ifndef MILLSTREAM_CLI_KUBERNETES_CLUSTER_STATE_H_
#define MILLSTREAM_CLI_KUBERNETES_CLUSTER_STATE_H_

#include <memory>
#include <string>
#include <vector>

#include "cli/access/http_state.h"
#include "cli/access/local_access.h"

namespace millstream::cli {

// Somebody who has some of the tasks, and how it is asked.
struct StateHolder {
  std::string name;
  SidecarQuestion ask;
};

// State of a processor whose tasks are spread over several sidecars. A key is asked for until somebody has its task; a
// scan asks all of them and is refused with UNAVAILABLE while a task is with nobody: rather no list than a shorter one.
// Rows of a scan come in the order of their keys, over all tasks. What `holders` refer to outlives it.
std::unique_ptr<ProcessorBackend> NewClusterState(std::vector<StateHolder> holders);

}  // namespace millstream::cli

#endif  // MILLSTREAM_CLI_KUBERNETES_CLUSTER_STATE_H_
