#ifndef MILLSTREAM_CLI_TOOLS_TOOL_H_
#define MILLSTREAM_CLI_TOOLS_TOOL_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/log/log.h"

namespace millstream::cli {

// Tools run where the log is open: in this process, or in the `millstream run` that holds the data folder, which is
// asked over its control socket. Hence one entrance, and JSON both ways.
inline constexpr const char* kLagTool = "lag";                      // LagRequest -> LagReport
inline constexpr const char* kResetTool = "reset";                  // ResetRequest, "execute" -> ResetPlan, "done"
inline constexpr const char* kAdoptTool = "adopt";                  // AdoptRequest, "execute" -> AdoptPlan
inline constexpr const char* kListDeadLettersTool = "deadLetters";  // DeadLetterRequest -> DeadLetterList
inline constexpr const char* kReplayDeadLettersTool = "replay";     // DeadLetterRequest, "execute" -> ReplayReport

// Runs one to its end; `request` and the answer are JSON objects. Thread-safe. UNIMPLEMENTED: an unknown tool;
// otherwise the errors of the tool.
absl::StatusOr<std::string> RunTool(log::Log* log, const std::string& tool, const std::string& request);

}  // namespace millstream::cli

#endif  // MILLSTREAM_CLI_TOOLS_TOOL_H_
