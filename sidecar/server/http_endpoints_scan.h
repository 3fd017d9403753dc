#ifndef MILLSTREAM_SIDECAR_SERVER_HTTP_ENDPOINTS_SCAN_H_
#define MILLSTREAM_SIDECAR_SERVER_HTTP_ENDPOINTS_SCAN_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "sidecar/server/query_backend.h"

// Internal to the HTTP endpoints.
namespace millstream::server {

// Calls to the backend, until they are stopped. Thread-safe.
class BackendCalls {
 public:
  explicit BackendCalls(QueryBackend* backend) : backend_(backend) {}
  // Runs `call` with the backend; false, without running it, once stopped.
  bool Run(const std::function<void(QueryBackend*)>& call);
  // No call runs when it returns, and none will.
  void Stop();

 private:
  QueryBackend* const backend_;
  absl::Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  int running_ ABSL_GUARDED_BY(mutex_) = 0;
};

// A range of a store over several tasks, in one order: by key, then by task.
struct MergedScan {
  std::vector<TaskId> tasks;  // ascending
  store::ScanRequest range;   // without `after`
  struct Cursor {
    Bytes key;
    TaskId task;
  };
  std::optional<Cursor> after;  // goes on behind this row
  size_t max_rows = 100;
  size_t max_bytes = 1 << 20;
};

struct MergedPage {
  struct Row {
    Bytes key, value;
    TaskId task;
  };
  std::vector<Row> rows;
  bool more = false;  // behind the last row
  std::vector<AnswerSource> sources;
};

// Asks a few tasks at a time, so that it holds little more than a page, and calls `done` once; on the threads that the
// backend answers on.
void RunMergedScan(std::shared_ptr<BackendCalls> backend, MergedScan scan,
                   std::function<void(absl::StatusOr<MergedPage>)> done);

std::string EncodeCursor(const MergedScan::Cursor& cursor);
absl::StatusOr<MergedScan::Cursor> DecodeCursor(const std::string& text);

}  // namespace millstream::server

#endif  // MILLSTREAM_SIDECAR_SERVER_HTTP_ENDPOINTS_SCAN_H_
