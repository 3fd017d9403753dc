#ifndef MILLSTREAM_CLI_ACCESS_HTTP_STATE_H_
#define MILLSTREAM_CLI_ACCESS_HTTP_STATE_H_

#include <functional>
#include <memory>
#include <string>

#include "cli/access/local_access.h"

namespace millstream::cli {

// State asked of a running sidecar over HTTP (docs/reference/http.md). `url` is where it listens: "http://host:port".
// It answers for the tasks it has: UNAVAILABLE says that a key's task is elsewhere, and a scan shows its tasks only.
// Thread-safe; each page of an answer may take 30 s.
std::unique_ptr<ProcessorBackend> NewHttpState(std::string url);

// The same over something else than a connection to it. `ask`: the body of the answer to GET of a path with its query;
// errors as the sidecar's. `name`: who is asked, for messages.
using SidecarQuestion = std::function<absl::StatusOr<std::string>(const std::string& path)>;
std::unique_ptr<ProcessorBackend> NewHttpState(SidecarQuestion ask, std::string name);

}  // namespace millstream::cli

#endif  // MILLSTREAM_CLI_ACCESS_HTTP_STATE_H_
