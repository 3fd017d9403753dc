#ifndef MILLSTREAM_SIDECAR_SERVER_HTTP_ENDPOINTS_WINDOWS_H_
#define MILLSTREAM_SIDECAR_SERVER_HTTP_ENDPOINTS_WINDOWS_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "sidecar/engine/window_rows.h"
#include "sidecar/server/http_endpoints_scan.h"

// Internal to the HTTP endpoints.
namespace millstream::server {

// What a store with windows or sessions has of one key.
struct KeyWindows {
  static constexpr size_t kMost = 1000;  // as a page of a range
  struct Row {
    engine::Bounds bounds;
    Bytes value;
  };
  std::vector<Row> rows;  // ascending by start
  bool more = false;      // older ones, which are left out
  AnswerSource source;
};

// Reads the windows of `key` in its task and calls `done` once, on a thread that the backend answers on. `windowed`
// lives as long as the backend. RESOURCE_EXHAUSTED: too many rows of longer keys lie between those of this one.
void FindWindows(std::shared_ptr<BackendCalls> backend, store::StoreIndex store, const spec::StoreSpec* windowed,
                 const Bytes& key, TaskId task, std::function<void(absl::StatusOr<KeyWindows>)> done);

}  // namespace millstream::server

#endif  // MILLSTREAM_SIDECAR_SERVER_HTTP_ENDPOINTS_WINDOWS_H_
