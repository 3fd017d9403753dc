#ifndef MILLSTREAM_CLI_RUN_SOCKET_FOLDER_H_
#define MILLSTREAM_CLI_RUN_SOCKET_FOLDER_H_

#include <string>

#include "absl/status/statusor.h"

namespace millstream::cli {

// Makes a folder of mode 0700 for worker sockets, with a path short enough for them: in $XDG_RUNTIME_DIR, else under
// /tmp.
absl::StatusOr<std::string> MakeSocketFolder();
// Removes it and the sockets in it.
void RemoveSocketFolder(const std::string& folder);

}  // namespace millstream::cli

#endif  // MILLSTREAM_CLI_RUN_SOCKET_FOLDER_H_
