#ifndef MILLSTREAM_CLI_STATE_SOURCE_H_
#define MILLSTREAM_CLI_STATE_SOURCE_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "cli/access/local_access.h"
#include "cli/context.h"

namespace millstream::cli {

// Where state is read: where the context says, unless `open` says otherwise; `add_options` adds its own arguments to a
// command before all others.
struct StateSource {
  std::function<absl::StatusOr<std::unique_ptr<ProcessorBackend>>()> open;
  std::function<void(CLI::App* command)> add_options;
};

// RegisterState of commands.h for another source. `context` outlives the app.
void RegisterState(CLI::App* app, Context* context, const StateSource& source);

}  // namespace millstream::cli

#endif  // MILLSTREAM_CLI_STATE_SOURCE_H_
