#ifndef MILLSTREAM_CLI_ACCESS_STATE_ANSWERS_H_
#define MILLSTREAM_CLI_ACCESS_STATE_ANSWERS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/access/local_access.h"
#include "common/log/embedded/embedded_log.h"
#include "sidecar/host/data_folder.h"
#include "sidecar/server/query_backend.h"

namespace millstream::cli {

// A running processor whose state can be asked for.
struct RunningProcessor {
  std::string name;  // <namespace>/<name>
  std::vector<TaskId> tasks;
  server::QueryBackend* queries = nullptr;
  std::function<void(TaskId)> restart;  // of a stopped task
  std::function<void(bool)> pause;      // or, false, goes on
};

// Answers from running engines. The backends outlive it. Thread-safe; waits up to 30 s for an engine's answer.
std::unique_ptr<ProcessorBackend> NewRunningState(std::vector<RunningProcessor> processors);

// Answers from the folder while nothing runs: opens the task's database, brings it up to its changelog's end, reads;
// lookups from their topics. `folder` and `log` outlive it.
std::unique_ptr<ProcessorBackend> NewOfflineState(const host::DataFolder* folder, log::EmbeddedLog* log);

}  // namespace millstream::cli

#endif  // MILLSTREAM_CLI_ACCESS_STATE_ANSWERS_H_
