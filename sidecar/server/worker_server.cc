#include "sidecar/server/worker_server.h"

#include <utility>

#include "sidecar/server/worker_loop.h"

namespace millstream::server {

WorkerServer::WorkerServer(WorkerServerOptions options, WorkerEvents* events, const Clock* clock,
                           MetricsRegistry* metrics)
    : impl_(std::make_unique<Impl>(std::move(options), events, clock, metrics)) {}
WorkerServer::~WorkerServer() = default;

absl::Status WorkerServer::Start() { return impl_->Start(); }
absl::Status WorkerServer::Send(WorkerId id, std::string frame) { return impl_->Send(id, std::move(frame)); }
size_t WorkerServer::QueuedBytes(WorkerId id) const { return impl_->QueuedBytes(id); }
void WorkerServer::Close(WorkerId id, std::string_view code, std::string_view message) {
  impl_->Close(id, code, message);
}
void WorkerServer::Stop(std::string_view reason, absl::Duration grace) { impl_->Stop(reason, grace); }
absl::Status WorkerServer::FirstError() const { return impl_->FirstError(); }
void WorkerServer::ClearFirstError() { impl_->ClearFirstError(); }
int WorkerServer::connected_workers() const { return impl_->connected_workers(); }
const std::string& WorkerServer::socket_path() const { return impl_->socket_path(); }

}  // namespace millstream::server
