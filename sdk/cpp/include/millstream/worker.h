#ifndef MILLSTREAM_SDK_CPP_INCLUDE_MILLSTREAM_WORKER_H_
#define MILLSTREAM_SDK_CPP_INCLUDE_MILLSTREAM_WORKER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "millstream/context.h"

/// Millstream workers in C++: handlers for the inputs of a processor, keyed state, outputs. See README.md for whole
/// programs. Keys and values are bytes here; `typed.h` and `typed_time.h` put codecs over them, `testing.h` runs
/// handlers without a sidecar.
namespace millstream::worker {

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

  /// Before Run, as all the next ones. One handler per input of the manifest.
  App& On(std::string input, Handler handler);
  /// For timers of this name that are due, whatever their clock. The manifest has `timers`.
  App& OnTimer(std::string name, Handler handler);
  /// For each window or session of a store with `emit: Final`, once, when it closes.
  App& OnClose(std::string store, Handler handler);
  /// For every row of the visit's store in the task, in the order of the key bytes, once in committed effect; records
  /// are handled in between. Context::value is the row's value as it is then, Context::visit_data what the visit was
  /// started with. The manifest has the visit.
  App& OnVisit(std::string name, Handler handler);
  /// Behind the last row of a visit. There is no key.
  App& OnVisitEnd(std::string name, Handler handler);
  /// For a store of type Session: what becomes of the values of sessions that a record connects and does not write.
  App& MergeSessions(std::string store, SessionMerge merge);
  /// When a transaction begins for a task. What a hook writes and emits becomes part of the transaction; an error
  /// aborts it, and its records come again. There is no record: no default key of state, no windows, sessions,
  /// timers or visits. Transactions then hold whole batches.
  App& OnBegin(Handler hook);
  /// Before a transaction with records of the task is closed: the place to send what was gathered over many of them
  /// (Gathered in gathered.h).
  App& OnFinalize(Handler hook);
  /// After a transaction with effects of the task was committed: at most once for each, and never if the sidecar dies
  /// in between. For side effects that may be left out.
  App& OnCommitted(std::function<void(int32_t task)> hook);

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
