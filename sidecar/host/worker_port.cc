#include "sidecar/host/worker_port.h"

#include <utility>
#include <variant>

#include "common/base/crash_point.h"
#include "sidecar/engine/welcome.h"
#include "sidecar/protocol/codec.h"

namespace millstream::host {

WorkerPort::WorkerPort(const server::WorkerServerOptions& server_options, const engine::EngineOptions* engine_options,
                       const Clock* clock, MetricsRegistry* metrics, EventSink* sink)
    : engine_options_(engine_options),
      max_queued_bytes_(server_options.max_queued_bytes),
      clock_(clock),
      sink_(sink),
      alone_since_(clock->Monotonic()),
      lost_(clock),
      server_(server_options, this, clock, metrics) {}

void WorkerPort::Send(engine::SendToWorker send) {
  const server::WorkerId id(send.worker);
  bool full = false;
  {
    absl::MutexLock lock(&mutex_);
    const auto kept = kept_.find(id);
    if (kept != kept_.end()) {
      kept->second.push_back(std::move(send.frame));
      return;
    }
    if (server_.QueuedBytes(id) + send.frame.size() <= max_queued_bytes_ / 2) {
      // Far from full: cannot be refused for that. A worker that is gone has its OnDisconnected on the way.
      (void)server_.Send(id, std::move(send.frame));
      return;
    }
    kept_[id].push_back(std::move(send.frame));
    full = !SendKept(id);
  }
  if (full) sink_->Post(engine::WorkerWritable{.worker = send.worker, .writable = false});
}

bool WorkerPort::SendKept(server::WorkerId id) {
  const auto kept = kept_.find(id);
  if (kept == kept_.end()) return true;
  while (!kept->second.empty()) {
    // A copy, because a refused frame is needed again and OnWritable comes only after a refusal.
    const absl::Status sent = server_.Send(id, kept->second.front());
    if (absl::IsResourceExhausted(sent)) return false;
    kept->second.pop_front();
  }
  kept_.erase(kept);
  return true;
}

void WorkerPort::Drop(const engine::DropWorker& drop) {
  server_.Close(server::WorkerId(drop.worker), drop.code, drop.message);
}

void WorkerPort::Goodbye(const engine::GoodbyeWorker& goodbye) {
  Send({.worker = goodbye.worker, .frame = protocol::EncodeFrame(protocol::Goodbye{goodbye.reason})});
}

std::optional<absl::Duration> WorkerPort::AloneFor() const {
  absl::MutexLock lock(&mutex_);
  if (workers_ > 0) return std::nullopt;
  return clock_->Monotonic() - alone_since_;
}

std::vector<server::LostWorker> WorkerPort::Hanging() const {
  absl::MutexLock lock(&mutex_);
  return lost_.Hanging();
}

absl::StatusOr<protocol::Welcome> WorkerPort::OnHello(const server::ConnectedWorker& worker) {
  return engine::WelcomeFor(*engine_options_, worker.hello);
}

void WorkerPort::OnConnected(const server::ConnectedWorker& worker) {
  {
    absl::MutexLock lock(&mutex_);
    ++workers_;
    lost_.Connected(worker);
  }
  sink_->Post(engine::WorkerConnected{.worker = worker.id.value(), .hello = worker.hello});
}

void WorkerPort::OnMessage(server::WorkerId id, server::InboundMessage message) {
  const bool result = std::holds_alternative<protocol::Result>(message.message);
  sink_->Post(engine::WorkerSent{
      .worker = id.value(), .message = std::move(message.message), .buffer = std::move(message.buffer)});
  if (result) CrashPoint("after-reply");
}

void WorkerPort::OnDisconnected(server::WorkerId id, const absl::Status& cause, bool orderly) {
  {
    absl::MutexLock lock(&mutex_);
    kept_.erase(id);
    lost_.Disconnected(id, cause, orderly);
    if (--workers_ == 0) alone_since_ = clock_->Monotonic();
  }
  sink_->Post(engine::WorkerDisconnected{.worker = id.value(), .cause = cause, .orderly = orderly});
}

void WorkerPort::OnWritable(server::WorkerId id) {
  {
    absl::MutexLock lock(&mutex_);
    if (!SendKept(id)) return;
  }
  sink_->Post(engine::WorkerWritable{.worker = id.value(), .writable = true});
}

}  // namespace millstream::host
