#ifndef MILLSTREAM_CLI_ACCESS_OPEN_ACCESS_H_
#define MILLSTREAM_CLI_ACCESS_OPEN_ACCESS_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/access/log_access.h"

namespace millstream::cli {

struct OpenAccessOptions {
  std::string folder;
  std::string program;  // what other processes call this one while it holds the folder: "millstream produce"
  bool create = false;  // make a missing folder
  // How long to wait while another short command holds the folder and serves nobody.
  absl::Duration patience = absl::Seconds(10);
  // Told once when waiting begins, with who holds the folder.
  std::function<void(const std::string& holder)> on_wait;
};

// Access to a data folder from any terminal: through the control socket of the `millstream run` that holds it,
// otherwise by opening it. The folder is held until the access is destroyed. FAILED_PRECONDITION: held by a process
// that serves nobody (named). NOT_FOUND: no such folder.
absl::StatusOr<std::unique_ptr<LogAccess>> OpenAccess(const OpenAccessOptions& options);

}  // namespace millstream::cli

#endif  // MILLSTREAM_CLI_ACCESS_OPEN_ACCESS_H_
