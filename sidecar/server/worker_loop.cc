#include "sidecar/server/worker_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/base/log_line.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/base/thread_name.h"
#include "sidecar/protocol/codec.h"
#include "sidecar/protocol/error_codes.h"

namespace millstream::server {
namespace {

constexpr uint64_t kListenerToken = 0;
constexpr uint64_t kWakeToken = 1;
constexpr int kMaxEvents = 64;
// The thread looks at its clock at least this often, should the injected one jump.
constexpr absl::Duration kLongestWait = absl::Seconds(1);

}  // namespace

WorkerServer::Impl::Impl(WorkerServerOptions options, WorkerEvents* events, const Clock* clock,
                         MetricsRegistry* metrics)
    : options_(std::move(options)),
      events_(events),
      clock_(clock),
      metrics_(metrics),
      connected_gauge_(metrics->GetGauge("millstream_workers_connected", "Workers that are connected now.", {})),
      connections_total_(metrics->GetCounter("millstream_worker_connections_total", "Workers welcomed.", {})),
      received_bytes_(metrics->GetCounter("millstream_worker_received_bytes_total", "Bytes read from workers.", {})),
      sent_bytes_(metrics->GetCounter("millstream_worker_sent_bytes_total", "Bytes written to workers.", {})) {
  MS_CHECK(options_.max_workers > 0 && options_.frame_cap > 0);
}

WorkerServer::Impl::~Impl() { Stop("the sidecar ends", absl::ZeroDuration()); }

absl::Status WorkerServer::Impl::Start() {
  MS_CHECK(!thread_.joinable());
  MS_ASSIGN_OR_RETURN(listener_, ListeningSocket::Listen(options_.socket_path, options_.socket_mode));
  epoll_ = FileDescriptor(epoll_create1(EPOLL_CLOEXEC));
  wake_ = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll_.valid() || !wake_.valid()) {
    const absl::Status status = absl::ErrnoToStatus(errno, "setting up the worker socket's thread");
    listener_.Close();
    return status;
  }
  Watch(EPOLL_CTL_ADD, wake_.get(), kWakeToken, EPOLLIN);
  SetListening(true);
  thread_ = std::thread([this] {
    NameThread("worker socket");
    Run();
  });
  return absl::OkStatus();
}

void WorkerServer::Impl::Wake() {
  if (awake_ || thread_id_.load() == std::this_thread::get_id())
    return;  // the thread looks at its notes before it waits again
  awake_ = true;
  const uint64_t one = 1;
  MS_CHECK(write(wake_.get(), &one, sizeof(one)) == sizeof(one));
}

absl::Status WorkerServer::Impl::Send(WorkerId id, std::string frame) {
  if (frame.size() > options_.frame_cap + protocol::kFrameHeaderBytes) {
    return absl::InvalidArgumentError(
        StrCat("a frame of ", frame.size(), " bytes is beyond the cap of ", options_.frame_cap));
  }
  absl::MutexLock lock(&mutex_);
  const auto outbox = outboxes_.find(id);
  if (outbox == outboxes_.end())
    return absl::NotFoundError(StrCat("worker ", id.value(), " is not connected any more"));
  MS_RETURN_IF_ERROR(outbox->second->Add(std::move(frame)));
  to_write_.push_back(id);
  Wake();
  return absl::OkStatus();
}

size_t WorkerServer::Impl::QueuedBytes(WorkerId id) const {
  absl::MutexLock lock(&mutex_);
  const auto outbox = outboxes_.find(id);
  return outbox == outboxes_.end() ? 0 : outbox->second->bytes();
}

void WorkerServer::Impl::Close(WorkerId id, std::string_view code, std::string_view message) {
  absl::MutexLock lock(&mutex_);
  if (!outboxes_.contains(id)) return;
  to_close_.push_back({id, std::string(code), std::string(message)});
  Wake();
}

void WorkerServer::Impl::Stop(std::string_view reason, absl::Duration grace) {
  if (!thread_.joinable()) return;
  MS_CHECK(thread_id_.load() != std::this_thread::get_id());
  {
    absl::MutexLock lock(&mutex_);
    stop_asked_ = true;
    stop_reason_ = std::string(reason);
    stop_grace_ = grace;
    Wake();
  }
  thread_.join();
}

absl::Status WorkerServer::Impl::FirstError() const {
  absl::MutexLock lock(&mutex_);
  return first_error_;
}

void WorkerServer::Impl::ClearFirstError() {
  absl::MutexLock lock(&mutex_);
  first_error_ = absl::OkStatus();
}

void WorkerServer::Impl::Run() {
  thread_id_ = std::this_thread::get_id();
  epoll_event ready[kMaxEvents];
  while (true) {
    HandleNotes();
    CheckTimers();
    if (Finished()) break;
    const int count = epoll_wait(epoll_.get(), ready, kMaxEvents, WaitMillis());
    MS_CHECK(count >= 0 || errno == EINTR);
    for (int i = 0; i < count; ++i) HandleEvent(ready[i].data.u64, ready[i].events);
  }
  listener_.Close();
}

bool WorkerServer::Impl::Finished() {
  if (!stopping_) return false;
  if (SystemClock().Monotonic() >= stop_by_) {
    while (!connections_.empty()) {
      const auto& [token, connection] = *connections_.begin();
      const bool orderly = connection->goodbye() && !connection->reader().InsideFrame();
      ReportEnd(*connection, protocol::kStopping,
                absl::CancelledError("cut: the sidecar ends and the worker did not leave in time"), orderly);
      Remove(token);
    }
  }
  return connections_.empty();
}

int WorkerServer::Impl::WaitMillis() {
  {
    absl::MutexLock lock(&mutex_);
    if (!to_write_.empty() || !to_close_.empty() || (stop_asked_ && !stopping_))
      return 0;  // left by a callback or a timer
  }
  const absl::Duration now = Now();
  absl::Duration wait = kLongestWait;
  for (const auto& [token, connection] : connections_) wait = std::min(wait, connection->NextCheck() - now);
  wait = std::min(wait, listen_again_at_ - SystemClock().Monotonic());
  if (stopping_) wait = std::min(wait, stop_by_ - SystemClock().Monotonic());
  return static_cast<int>(
      absl::ToInt64Milliseconds(absl::Ceil(std::max(wait, absl::ZeroDuration()), absl::Milliseconds(1))));
}

void WorkerServer::Impl::HandleEvent(Token token, uint32_t events) {
  if (token == kListenerToken) return Accept();
  if (token == kWakeToken) {
    uint64_t count;
    if (read(wake_.get(), &count, sizeof(count)) < 0) MS_CHECK(errno == EAGAIN || errno == EINTR);
    return;
  }
  // Reading first: what a peer said before it went away still counts.
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) ReadFrom(token);
  if ((events & EPOLLOUT) != 0) WriteTo(token);
}

void WorkerServer::Impl::HandleNotes() {
  std::vector<WorkerId> to_write;
  std::vector<CloseRequest> to_close;
  bool begin_stop = false;
  std::string reason;
  {
    absl::MutexLock lock(&mutex_);
    awake_ = false;
    to_write.swap(to_write_);
    to_close.swap(to_close_);
    begin_stop = stop_asked_ && !stopping_;
    reason = stop_reason_;
    if (begin_stop) stop_by_ = SystemClock().Monotonic() + stop_grace_;
  }
  std::sort(to_write.begin(), to_write.end());
  to_write.erase(std::unique(to_write.begin(), to_write.end()), to_write.end());
  for (WorkerId id : to_write) {
    if (const auto token = tokens_.find(id); token != tokens_.end()) WriteTo(token->second);
  }
  for (const CloseRequest& request : to_close) {
    const auto token = tokens_.find(request.id);
    if (token != tokens_.end()) Expel(token->second, *Find(token->second), request.code, request.message);
  }
  if (begin_stop) BeginStop(reason);
}

void WorkerServer::Impl::BeginStop(const std::string& reason) {
  stopping_ = true;
  SetListening(false);
  listen_again_at_ = absl::InfiniteDuration();
  listener_.Close();
  std::vector<Token> tokens;
  for (const auto& [token, connection] : connections_) tokens.push_back(token);
  for (Token token : tokens) {
    Connection* connection = Find(token);
    if (connection == nullptr) continue;
    if (connection->phase() == Connection::Phase::kGreeting) {
      Expel(token, *connection, protocol::kStopping, reason);
    } else if (connection->phase() == Connection::Phase::kServing) {
      connection->NoteGoodbye();
      QueueOwn(token, *connection, protocol::EncodeFrame(protocol::Goodbye{reason}));
    }
  }
}

void WorkerServer::Impl::CheckTimers() {
  if (!listening_ && !stopping_ && SystemClock().Monotonic() >= listen_again_at_) SetListening(true);
  const absl::Duration now = Now();
  std::vector<Token> due;
  for (const auto& [token, connection] : connections_) {
    if (connection->NextCheck() <= now) due.push_back(token);
  }
  for (Token token : due) {
    Connection* connection = Find(token);
    if (connection == nullptr) continue;
    const auto what = connection->CheckTime(now);
    if (what == Connection::Due::kPing) {
      QueueOwn(token, *connection, protocol::EncodeFrame(protocol::Ping{connection->NewPing(now)}));
    } else if (what == Connection::Due::kDead && connection->phase() == Connection::Phase::kLeaving) {
      Remove(token);
    } else if (what == Connection::Due::kDead && connection->phase() == Connection::Phase::kGreeting) {
      Expel(token, *connection, protocol::kHelloTimeout,
            StrCat("no whole HELLO within ", absl::FormatDuration(options_.hello_timeout), "; ",
                   connection->reader().partial_bytes(), " bytes came"));
    } else if (what == Connection::Due::kDead) {
      Expel(token, *connection, protocol::kUnresponsive,
            StrCat("PING was not answered for ", absl::FormatDuration(options_.dead_after),
                   " while the worker held no batch"));
    }
  }
}

void WorkerServer::Impl::Watch(int operation, int fd, Token token, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = token;
  MS_CHECK(epoll_ctl(epoll_.get(), operation, fd, &event) == 0);
}

void WorkerServer::Impl::SetListening(bool listening) {
  if (listening == listening_) return;
  listening_ = listening;
  const int operation = listening ? EPOLL_CTL_ADD : EPOLL_CTL_DEL;
  Watch(operation, listener_.fd(), kListenerToken, EPOLLIN);
  if (listening) listen_again_at_ = absl::InfiniteDuration();
}

void WorkerServer::Impl::WatchForWriting(Token token, Connection& connection, bool watch) {
  const bool leaving = connection.phase() == Connection::Phase::kLeaving;  // not listened to any more
  if (watch == connection.waits_for_socket() && !leaving) return;
  connection.set_waits_for_socket(watch);
  const uint32_t reading = leaving ? 0u : uint32_t{EPOLLIN};
  Watch(EPOLL_CTL_MOD, connection.fd(), token, reading | (watch ? uint32_t{EPOLLOUT} : 0u));
}

Connection* WorkerServer::Impl::Find(Token token) {
  const auto found = connections_.find(token);
  return found == connections_.end() ? nullptr : found->second.get();
}

void WorkerServer::Impl::Remove(Token token) { connections_.erase(token); }

}  // namespace millstream::server
