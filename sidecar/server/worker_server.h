#ifndef MILLSTREAM_SIDECAR_SERVER_WORKER_SERVER_H_
#define MILLSTREAM_SIDECAR_SERVER_WORKER_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/metrics.h"
#include "sidecar/protocol/messages.h"

namespace millstream::server {

// One connection of user code that was welcomed. Never reused in the life of the process, so a late Send cannot reach
// another worker.
using WorkerId = StrongInt<struct WorkerTag, uint64_t>;

struct WorkerServerOptions {
  std::string socket_path;      // at most 107 bytes, a limit of the operating system
  uint32_t socket_mode = 0600;  // 0660 in a pod, where the folder's group is shared with the worker
  // Which users may connect: the sidecar's own and root always; anybody whom the file's mode lets in if this is set.
  bool any_user = false;
  int max_workers = 8;  // sidecar.workers.max
  uint32_t frame_cap = protocol::kDefaultFrameCap;

  // From accept to a whole HELLO. The number of connections still before it is bounded (kMaxGreeting), the oldest makes
  // room.
  absl::Duration hello_timeout = absl::Seconds(5);
  // A worker without a batch that is silent for `ping_after` gets PING; silent for `dead_after` more, it is closed.
  // While it holds a batch the batch's deadline (the engine's) takes their place, and once after CANCEL
  // Welcome::deadline_ms.
  absl::Duration ping_after = absl::Seconds(10);
  absl::Duration dead_after = absl::Seconds(20);
  // Frames waiting to be written to one worker; beyond it Send refuses. A lone frame always fits.
  size_t max_queued_bytes = 64u << 20;
  // How long an ERROR or GOODBYE may take to leave before the connection is cut.
  absl::Duration linger = absl::Seconds(2);
};

// A message and the memory its string_views point into. Copying shares the memory. The memory is that of the socket
// read (64 KiB, or one large frame): keep `buffer` as long as the views, no longer.
struct InboundMessage {
  protocol::WorkerMessage message;
  std::shared_ptr<const void> buffer;
  size_t frame_bytes = 0;
};

struct ConnectedWorker {
  WorkerId id;
  uint64_t session = 0;  // random, below 2^53
  protocol::Hello hello;
  int64_t pid = 0;  // of the peer, 0 if unknown
};

// What happens to workers. Called on the server's thread, one call at a time: must not block. All methods of
// WorkerServer but Stop and the destructor may be called from inside.
class WorkerEvents {
 public:
  virtual ~WorkerEvents() = default;

  // A valid HELLO came. Gives the WELCOME (`version`, `session` and `frame_cap` are filled in by the server) or
  // refuses: the status' message goes to the worker in ERROR Refused. No other call is made for a refused worker.
  virtual absl::StatusOr<protocol::Welcome> OnHello(const ConnectedWorker& worker) = 0;
  // WELCOME is queued; frames may be sent from now on.
  virtual void OnConnected(const ConnectedWorker& worker) = 0;
  // RESULT, GET, SCAN, EXTEND of a seq this session was sent (and not yet answered by RESULT; cancelled ones included,
  // drop those), or GOODBYE: send no further batch, it disconnects when the ones it holds are done. PING, PONG and
  // ERROR never come here. Whether store and output ids exist is the receiver's check: Close(id, kUnknownStore, ...).
  virtual void OnMessage(WorkerId id, InboundMessage message) = 0;
  // The last call for `id`: batches it held have no effect. `cause` says why, for people; `orderly`: GOODBYE was
  // exchanged before, in either direction, and no frame was cut: charge nobody for it.
  virtual void OnDisconnected(WorkerId id, const absl::Status& cause, bool orderly) = 0;
  // The queue of `id`, of which a Send was refused before, is below half of its bound again.
  virtual void OnWritable(WorkerId /*id*/) {}
};

// The Unix socket that workers connect to: versions, sessions, liveness, wrong frames, bounded queues. It knows frames
// but not what they mean for state: that is the engine's. One thread serves all workers; reading never waits for
// writing.
//
// Metrics: millstream_workers_connected, millstream_worker_connections_total,
// millstream_worker_disconnects_total{cause}, millstream_worker_refused_total{cause},
// millstream_worker_{received,sent}_bytes_total.
class WorkerServer {
 public:
  // `events`, `clock` and `metrics` outlive the server. `clock` measures timeouts (waiting itself is real time).
  WorkerServer(WorkerServerOptions options, WorkerEvents* events, const Clock* clock, MetricsRegistry* metrics);
  // Cuts every connection, as Stop with no grace.
  ~WorkerServer();
  WorkerServer(const WorkerServer&) = delete;
  WorkerServer& operator=(const WorkerServer&) = delete;

  // Listens and starts the thread. Errors name the path and the way out: too long, a file that is not a socket, another
  // process listening (AlreadyExists), no permission. A stale socket is replaced; a missing folder is made with mode
  // 0700.
  absl::Status Start();

  // Queues a frame made by protocol::Encode. Thread-safe, never blocks. NotFound: the worker is gone (OnDisconnected
  // was or will be called). ResourceExhausted: the queue is full; OnWritable follows. InvalidArgument: larger than the
  // frame cap.
  absl::Status Send(WorkerId id, std::string frame);
  // Bytes queued and not yet written; 0 for a worker that is gone. Thread-safe.
  size_t QueuedBytes(WorkerId id) const;

  // ERROR to the worker, then close; OnDisconnected follows on the server's thread. Thread-safe. Unknown ids are
  // ignored.
  void Close(WorkerId id, std::string_view code, std::string_view message);

  // GOODBYE to every worker and no new connections; waits up to `grace` for them to disconnect, cuts the rest, removes
  // the socket file, ends the thread. Returns after the last OnDisconnected. Not from a callback. Idempotent.
  void Stop(std::string_view reason, absl::Duration grace);

  // The cause of the first connection that ended badly (disorderly, or refused) since the start or the last
  // ClearFirstError; OK if none. Later ones are only counted: the first is what to repair. Thread-safe.
  absl::Status FirstError() const;
  void ClearFirstError();

  int connected_workers() const;
  const std::string& socket_path() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace millstream::server

#endif  // MILLSTREAM_SIDECAR_SERVER_WORKER_SERVER_H_
