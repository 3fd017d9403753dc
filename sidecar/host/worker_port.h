#ifndef MILLSTREAM_SIDECAR_HOST_WORKER_PORT_H_
#define MILLSTREAM_SIDECAR_HOST_WORKER_PORT_H_

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "common/base/clock.h"
#include "sidecar/engine/engine.h"
#include "sidecar/host/event_sink.h"
#include "sidecar/server/lost_workers.h"
#include "sidecar/server/worker_server.h"

namespace millstream::host {

// Between the worker server and the engine: its events become the engine's, the engine's frames go out. A frame that
// does not fit into a worker's queue is kept here and the engine told (WorkerWritable), so that at most one batch per
// task waits.
class WorkerPort : public server::WorkerEvents {
 public:
  // All pointers outlive it.
  WorkerPort(const server::WorkerServerOptions& server_options, const engine::EngineOptions* engine_options,
             const Clock* clock, MetricsRegistry* metrics, EventSink* sink);

  absl::Status Start() { return server_.Start(); }
  // The engine's actions; any one thread.
  void Send(engine::SendToWorker send);
  void Drop(const engine::DropWorker& drop);
  void Goodbye(const engine::GoodbyeWorker& goodbye);
  void Stop(absl::Duration grace) { server_.Stop("the sidecar ends", grace); }

  int connected() const { return server_.connected_workers(); }
  const std::string& socket_path() const { return server_.socket_path(); }
  // How long there has been no worker; nullopt while there is one.
  std::optional<absl::Duration> AloneFor() const;
  // What to repair first: the cause of the first connection that ended badly since a worker last worked. OK: none.
  absl::Status FirstError() const { return server_.FirstError(); }
  // Worker programs that were cut off, live on and do not come back.
  std::vector<server::LostWorker> Hanging() const;

  absl::StatusOr<protocol::Welcome> OnHello(const server::ConnectedWorker& worker) override;
  void OnConnected(const server::ConnectedWorker& worker) override;
  void OnMessage(server::WorkerId id, server::InboundMessage message) override;
  void OnDisconnected(server::WorkerId id, const absl::Status& cause, bool orderly) override;
  void OnWritable(server::WorkerId id) override;

 private:
  // Sends what fits, keeps the rest. True when nothing is kept.
  bool SendKept(server::WorkerId id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const engine::EngineOptions* const engine_options_;
  const size_t max_queued_bytes_;
  const Clock* const clock_;
  EventSink* const sink_;
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<server::WorkerId, std::deque<std::string>> kept_
      ABSL_GUARDED_BY(mutex_);  // of those whose queue is full
  int workers_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Duration alone_since_ ABSL_GUARDED_BY(mutex_);
  server::LostWorkers lost_ ABSL_GUARDED_BY(mutex_);
  server::WorkerServer server_;  // last: its thread uses the rest
};

}  // namespace millstream::host

#endif  // MILLSTREAM_SIDECAR_HOST_WORKER_PORT_H_
