#ifndef MILLSTREAM_CLI_ACCESS_HTTP_STATE_H_
#define MILLSTREAM_CLI_ACCESS_HTTP_STATE_H_

#include <memory>
#include <string>

#include "cli/access/local_access.h"

namespace millstream::cli {

// State asked of a running sidecar over HTTP (docs/reference/http.md). `url` is where it listens: "http://host:port".
// It answers for the tasks it has: UNAVAILABLE says that a key's task is elsewhere, and a scan shows its tasks only.
// Thread-safe; each page of an answer may take 30 s.
std::unique_ptr<ProcessorBackend> NewHttpState(std::string url);

}  // namespace millstream::cli

#endif  // MILLSTREAM_CLI_ACCESS_HTTP_STATE_H_
