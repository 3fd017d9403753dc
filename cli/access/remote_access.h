#ifndef MILLSTREAM_CLI_ACCESS_REMOTE_ACCESS_H_
#define MILLSTREAM_CLI_ACCESS_REMOTE_ACCESS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "cli/access/log_access.h"

namespace millstream::cli {

// Connects to the process that holds `folder`. NOT_FOUND: nobody listens there. FAILED_PRECONDITION: it is another
// version.
absl::StatusOr<std::unique_ptr<LogAccess>> ConnectRemoteAccess(const std::string& folder);

}  // namespace millstream::cli

#endif  // MILLSTREAM_CLI_ACCESS_REMOTE_ACCESS_H_
