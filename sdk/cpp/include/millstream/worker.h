#ifndef MILLSTREAM_SDK_CPP_INCLUDE_MILLSTREAM_WORKER_H_
#define MILLSTREAM_SDK_CPP_INCLUDE_MILLSTREAM_WORKER_H_

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

/// Millstream workers in C++: handlers for the inputs of a processor, keyed state, outputs. See README.md for whole
/// programs. Keys and values are bytes here; `typed.h` puts codecs over them, `testing.h` runs handlers without a
/// sidecar.
namespace millstream::worker {

/// Bytes, or null (nullopt), which differs from empty.
using MaybeView = std::optional<std::string_view>;

class BatchRun;  // private

/// What Store::Scan gives.
struct ScanOptions {
  /// Keys from here on, by the order of their bytes; nullopt: from the beginning.
  MaybeView from = {};
  /// Keys before this one; nullopt: to the end.
  MaybeView to = {};
  /// Rows at most; 0: all.
  uint32_t limit = 0;
  /// From the end.
  bool reverse = false;
};

/// One state store during one handler call. Reads see the writes made before in the same batch. Without a key the
/// methods mean the key of the record being handled, and fail for a record without one. The same view of memory as
/// Context: nothing may be kept after the handler returns.
///
/// Errors: InvalidArgument for a store that the manifest does not declare (the message lists those it does) or a record
/// without key; Unavailable when the sidecar could not read; Cancelled when the batch is void. Return them.
class Store {
 public:
  /// The value, nullopt where there is none.
  absl::StatusOr<MaybeView> Get();
  /// The same of another key of this task.
  absl::StatusOr<MaybeView> Get(std::string_view key);
  /// The values of several keys, in their order, in as few round trips as possible.
  absl::StatusOr<std::vector<MaybeView>> GetMany(const std::vector<std::string_view>& keys);
  /// Writes; the bytes are copied.
  absl::Status Put(std::string_view value);
  /// Writes the value of another key of this task.
  absl::Status Put(std::string_view key, std::string_view value);
  /// Deletes; fine where there is nothing.
  absl::Status Delete();
  /// Deletes another key of this task.
  absl::Status Delete(std::string_view key);
  /// Keys and values of a range, the batch's own writes included.
  absl::StatusOr<std::vector<std::pair<std::string, std::string>>> Scan(const ScanOptions& options = {});

 private:
  friend class Context;
  Store(BatchRun* run, int id) : run_(run), id_(id) {}
  BatchRun* run_;
  int id_;  // -1: not declared; the run knows the name asked for
};

/// What an output record may have beside key and value.
struct EmitOptions {
  /// Milliseconds since 1970. Default: that of the record being handled; the sidecar's clock where that is outside the
  /// limits.
  std::optional<int64_t> timestamp_ms = {};
  /// In order; names may repeat.
  std::vector<std::pair<std::string_view, MaybeView>> headers = {};
  /// Default: by key.
  std::optional<int32_t> partition = {};
};

/// The record being handled, and what its handler may do. Valid during the call, on the calling thread; everything it
/// hands out points into the batch's memory and is gone afterwards.
class Context {
 public:
  /// The input's name in the manifest.
  std::string_view input() const;
  /// The name of its topic, for messages.
  std::string_view topic() const;
  /// nullopt: a record without key.
  MaybeView key() const;
  /// nullopt: a tombstone.
  MaybeView value() const;
  /// Milliseconds since 1970, possibly negative.
  int64_t timestamp_ms() const;
  /// In order; names may repeat.
  const std::vector<std::pair<std::string_view, MaybeView>>& headers() const;
  /// The last value of this name; nullopt: there is none, or it is null.
  MaybeView header(std::string_view name) const;
  /// Of the record in its partition.
  int64_t offset() const;
  /// The partition, which is the task.
  int32_t task() const;
  /// Which try of this record this is, from 1.
  uint32_t attempt() const;
  /// The processor's name in the manifest.
  std::string_view processor() const;
  /// Milliseconds since 1970; nullopt: not known yet.
  std::optional<int64_t> watermark_ms() const;

  /// A store, join or lookup by its name in the manifest. An unknown name is told by the methods of Store.
  Store State(std::string_view name);
  /// Sends a record to an output. Bytes are copied. An error (undeclared output, too large, timestamp out of range)
  /// fails the record being handled, whatever its handler returns.
  absl::Status Emit(std::string_view output, MaybeView key, MaybeView value, const EmitOptions& options = {});
  /// Fails the record being handled with failure class Output, as Emit does: for a value that cannot be encoded. Gives
  /// `status` back, to be returned.
  absl::Status FailOutput(absl::Status status);

  /// Nothing of this batch counts any more (the sidecar cancelled it, or the connection is gone): a handler that takes
  /// long may ask now and then, and return. Costs a look at the socket.
  bool Cancelled();

 private:
  friend class BatchRun;
  explicit Context(BatchRun* run) : run_(run) {}
  BatchRun* run_;
};

/// What is called for every record of an input. OK: the record is done. Any other status (or an exception) fails it:
/// what it staged is dropped, and errors.onFailure of the manifest decides. DataLoss means that the input cannot be
/// read: failure class Decode, not retried. May be called more than once for a record; its effects count once.
using Handler = std::function<absl::Status(Context&)>;

/// What a handler returns for a record that will never succeed: it is not retried, errors.onFailure applies at once.
absl::Status RejectRecord(std::string_view why);

/// How much a log line matters.
enum class LogSeverity {
  kInfo,     ///< what happens anyhow: connected, stopped
  kWarning,  ///< the worker goes on by itself, somebody may want to know
  kError,    ///< it does not
};

/// Takes the worker's own log lines: a sentence, and named values. Called from the threads of App::Run.
using Logger = std::function<void(LogSeverity severity, std::string_view message,
                                  const std::vector<std::pair<std::string_view, std::string>>& fields)>;

/// A line of JSON on standard error: {"level", "message", fields...}.
Logger JsonLogger();
/// A line of text on standard error, where `millstream run` shows it. What an App uses by default.
Logger TextLogger();

/// How an App runs.
struct AppOptions {
  /// Empty: $MILLSTREAM_SOCKET, or /run/millstream/worker.sock.
  std::string socket_path = {};
  /// Shown in the sidecar's log.
  std::string name = {};
  /// Threads that handle records, each with a connection (a worker) of its own, so that the sidecar spreads the tasks
  /// over them. Records of one task are handled one after the other. With more than 1 handlers run concurrently and
  /// have to be thread-safe.
  int workers = 1;
  /// Tasks of which the sidecar sends batches to one worker before one is answered.
  int parallel = 4;
  /// No sidecar for that long: Run gives up. Attempts are 50 ms apart at first, 5 s at most.
  absl::Duration connect_timeout = absl::Seconds(60);
  /// SIGINT and SIGTERM: serve until the sidecar says GOODBYE or goes away, then end Run instead of connecting again. A
  /// second SIGINT ends the program at once.
  bool handle_signals = true;
  /// After SIGINT or SIGTERM: no GOODBYE for so long, then finish what is held and leave. Negative:
  /// $MILLSTREAM_STOP_TIMEOUT seconds, or 30.
  absl::Duration stop_timeout = -absl::Seconds(1);
  /// Null: TextLogger().
  Logger logger = {};
};

/// Connects to the sidecar and runs handlers; connects again when the connection ends.
class App {
 public:
  /// Nothing happens before Run.
  explicit App(AppOptions options = {});
  ~App();

  /// Before Run. One handler per input of the manifest.
  App& On(std::string input, Handler handler);

  /// Serves until GOODBYE, Stop or a signal (OK), or until there is no point: the sidecar refuses this program
  /// (FailedPrecondition, with its reason and what to do), or is not there for `connect_timeout` (Unavailable).
  absl::Status Run();
  /// Run for a program's main: its error goes to the logger, the exit code comes back.
  int Main();

  /// From any thread or a handler: GOODBYE to the sidecar, finish what is held, end Run.
  void Stop();

 private:
  friend class TestKit;
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace millstream::worker

#endif  // MILLSTREAM_SDK_CPP_INCLUDE_MILLSTREAM_WORKER_H_
