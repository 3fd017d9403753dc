#ifndef MILLSTREAM_SDK_CPP_WORKER_H_
#define MILLSTREAM_SDK_CPP_WORKER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

// A Millstream worker in C++: handlers for the inputs of a processor, keyed state, outputs. See README.md for a whole
// program.
//
//   millstream::worker::App app;
//   app.On("orders", [](millstream::worker::Context& ctx) -> absl::Status {
//     auto total = ctx.State("totals").Get();
//     if (!total.ok()) return total.status();
//     ...
//     return ctx.Emit("totals", ctx.key(), text);
//   });
//   absl::Status status = app.Run();
namespace millstream::worker {

// Bytes, or null (nullopt), which differs from empty.
using MaybeView = std::optional<std::string_view>;

class BatchRun;  // private

struct ScanOptions {
  MaybeView from, to;  // keys in [from, to) by byte order; nullopt: open
  uint32_t limit = 0;  // 0: all
  bool reverse = false;
};

// One state store during one handler call. Reads see the writes made before in the same batch. Without a key the
// methods mean the key of the record being handled, and fail for a record without one. Errors: InvalidArgument for an
// undeclared store (the message lists the declared ones) or a record without key; Cancelled when the batch is void:
// return it. The same view of memory as Context: nothing may be kept after the handler returns.
class Store {
 public:
  absl::StatusOr<MaybeView> Get();
  absl::StatusOr<MaybeView> Get(std::string_view key);
  // The values of several keys, in their order, in as few round trips as possible.
  absl::StatusOr<std::vector<MaybeView>> GetMany(const std::vector<std::string_view>& keys);
  absl::Status Put(std::string_view value);
  absl::Status Put(std::string_view key, std::string_view value);
  absl::Status Delete();
  absl::Status Delete(std::string_view key);
  absl::StatusOr<std::vector<std::pair<std::string, std::string>>> Scan(const ScanOptions& options = {});

 private:
  friend class Context;
  Store(BatchRun* run, int id) : run_(run), id_(id) {}
  BatchRun* run_;
  int id_;  // -1: not declared; the run knows the name asked for
};

struct EmitOptions {
  // Default: that of the record being handled; the sidecar's clock where that is outside the limits.
  std::optional<int64_t> timestamp_ms;
  std::vector<std::pair<std::string_view, MaybeView>> headers;
  std::optional<int32_t> partition;  // default: by key
};

// The record being handled, and what its handler may do. Valid during the call, on the calling thread; everything it
// hands out points into the batch's memory and is gone afterwards.
class Context {
 public:
  std::string_view input() const;  // its name in the manifest
  MaybeView key() const;
  MaybeView value() const;  // nullopt: a tombstone
  int64_t timestamp_ms() const;
  const std::vector<std::pair<std::string_view, MaybeView>>& headers() const;
  int64_t offset() const;
  int32_t task() const;
  uint32_t attempt() const;  // from 1

  Store State(std::string_view name);
  // Bytes are copied. An error (undeclared output, too large, timestamp out of range) fails the item, whatever the
  // handler returns.
  absl::Status Emit(std::string_view output, MaybeView key, MaybeView value, const EmitOptions& options = {});

 private:
  friend class BatchRun;
  explicit Context(BatchRun* run) : run_(run) {}
  BatchRun* run_;
};

// OK: the item is done. Any other status (or an exception) fails it: what it staged is dropped, and errors.onFailure of
// the manifest decides. DataLoss means that the input cannot be read: failure class Decode, not retried.
using Handler = std::function<absl::Status(Context&)>;

// What a handler returns for a record that will never succeed: it is not retried, errors.onFailure applies at once.
absl::Status RejectRecord(std::string_view why);

struct AppOptions {
  std::string socket_path;  // empty: $MILLSTREAM_SOCKET, or /run/millstream/worker.sock
  std::string name;         // shown in the sidecar's log
  int parallel = 4;         // tasks the sidecar sends batches of before one is answered
  // No sidecar for that long: Run gives up. Attempts are 50 ms apart at first, 5 s at most.
  absl::Duration connect_timeout = absl::Seconds(60);
  // SIGINT and SIGTERM: serve until the sidecar says GOODBYE or goes away, then end Run instead of connecting again.
  bool handle_signals = true;
};

// Connects to the sidecar and runs handlers, one at a time on the thread of Run; connects again when the connection
// ends.
class App {
 public:
  explicit App(AppOptions options = {});
  ~App();

  // Before Run. One handler per input of the manifest.
  App& On(std::string input, Handler handler);

  // Serves until GOODBYE, Stop or a signal (OK), or until there is no point: the sidecar refuses this program (its
  // reason), or is not there for `connect_timeout` (Unavailable).
  absl::Status Run();

  // From any thread or a handler: GOODBYE to the sidecar, finish what is held, end Run.
  void Stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace millstream::worker

#endif  // MILLSTREAM_SDK_CPP_WORKER_H_
