#ifndef MILLSTREAM_CLI_ACCESS_CONTROL_SERVER_H_
#define MILLSTREAM_CLI_ACCESS_CONTROL_SERVER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "cli/access/log_access.h"

namespace millstream::cli {

// Serves the LogAccess of the process that holds a data folder to `millstream` commands in other terminals, on
// <folder>/control.sock. One thread per connection, at most kMaxConnections; further ones are told so.
class ControlServer {
 public:
  static constexpr int kMaxConnections = 64;  // terminals of one person, with room for scripts

  // `access` is used by many threads (LocalAccess) and outlives the server. `program` is what clients call the holder:
  // "millstream run". Only the holder of the folder may call: a stale socket is replaced.
  static absl::StatusOr<std::unique_ptr<ControlServer>> Start(const std::string& folder, const std::string& program,
                                                              LogAccess* access);

  // Closes every connection, removes the socket and joins the threads.
  ~ControlServer();
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

 private:
  class Impl;
  explicit ControlServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace millstream::cli

#endif  // MILLSTREAM_CLI_ACCESS_CONTROL_SERVER_H_
