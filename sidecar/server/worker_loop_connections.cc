// WorkerServer::Impl, the part about single connections: from accept to the report of their end.
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <variant>

#include "common/base/log_line.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "sidecar/protocol/codec.h"
#include "sidecar/protocol/error_codes.h"
#include "sidecar/server/worker_loop.h"

namespace millstream::server {
namespace {

using Phase = Connection::Phase;
using Progress = Connection::Progress;

// Connections that have not said HELLO yet. Real workers say it at once, so the oldest makes room for a new one.
constexpr size_t kMaxGreeting = 16;
// Connections beyond the workers and the greeting ones: those whose last ERROR is on its way.
constexpr size_t kMaxLeaving = 16;
// Reads of one connection before the others get their turn.
constexpr int kReadsPerTurn = 16;
// Ends of connections that are logged; a worker that reconnects in a loop is counted, not written down each time.
constexpr int kLogLinesPerSecond = 10;
constexpr absl::Duration kPauseWithoutDescriptors = absl::Milliseconds(100);

uint64_t NewSession() {
  uint64_t session = 0;
  MS_CHECK(getrandom(&session, sizeof(session), 0) == sizeof(session));
  return session >> 11;  // below 2^53: exact in every language's numbers
}

}  // namespace

void WorkerServer::Impl::Accept() {
  while (listening_) {
    FileDescriptor fd(accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.valid()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return;
      LogWarning("accepting a worker failed; trying again",
                 {{"error", absl::ErrnoToStatus(errno, "accept").ToString()}});
      SetListening(false);
      listen_again_at_ = SystemClock().Monotonic() + kPauseWithoutDescriptors;
      return;
    }
    MakeRoomForGreeting();
    const size_t most = static_cast<size_t>(options_.max_workers) + kMaxGreeting + kMaxLeaving;
    if (connections_.size() >= most) continue;  // closed at once: a storm of connections that read nothing

    const PeerIdentity peer = PeerOf(fd.get()).value_or(PeerIdentity{0, static_cast<uid_t>(-1)});
    const int raw_fd = fd.get();
    const Token token = next_token_++;
    auto& connection = connections_[token] = std::make_unique<Connection>(std::move(fd), peer, options_, Now());
    Watch(EPOLL_CTL_ADD, raw_fd, token, EPOLLIN);
    if (!options_.any_user && peer.uid != geteuid() && peer.uid != 0) {
      Expel(token, *connection, protocol::kNotAllowed,
            StrCat("user ", peer.uid, " may not connect; the sidecar runs as user ", geteuid()));
    }
  }
}

void WorkerServer::Impl::MakeRoomForGreeting() {
  size_t greeting = 0;
  Token oldest = 0;
  for (const auto& [token, connection] : connections_) {
    if (connection->phase() != Phase::kGreeting) continue;
    if (greeting++ == 0) oldest = token;
  }
  if (greeting < kMaxGreeting) return;
  Expel(oldest, *Find(oldest), protocol::kHelloTimeout,
        StrCat("no HELLO yet, and ", kMaxGreeting, " newer connections wait as well"));
}

void WorkerServer::Impl::ReadFrom(Token token) {
  for (int turn = 0; turn < kReadsPerTurn; ++turn) {
    Connection* connection = Find(token);
    if (connection == nullptr) return;
    if (connection->phase() == Phase::kLeaving) return WriteTo(token);  // a broken socket shows there
    size_t bytes = 0;
    absl::Status error;
    switch (connection->Read(Now(), &bytes, &error)) {
      case Progress::kWouldBlock:
        return;
      case Progress::kClosed:
        return HandleEndOfStream(token, *connection, error);
      case Progress::kMore:
        break;
    }
    received_bytes_->Add(static_cast<double>(bytes));
    if (!HandleFrames(token, *connection)) return;
  }
}

bool WorkerServer::Impl::HandleFrames(Token token, Connection& connection) {
  while (true) {
    absl::StatusOr<std::optional<protocol::Frame>> frame = connection.reader().Next();
    if (!frame.ok()) {
      const bool too_large = absl::IsResourceExhausted(frame.status());
      Expel(token, connection, too_large ? protocol::kFrameTooLarge : protocol::kBadFrame,
            std::string(frame.status().message()));
      return false;
    }
    if (!frame->has_value()) return true;
    if (!HandleFrame(token, connection, *std::move(*frame))) return false;
  }
}

bool WorkerServer::Impl::HandleFrame(Token token, Connection& connection, protocol::Frame frame) {
  absl::StatusOr<protocol::WorkerMessage> message = protocol::DecodeWorkerMessage(frame.payload);
  if (!message.ok()) {
    Expel(token, connection, protocol::kBadFrame, std::string(message.status().message()));
    return false;
  }
  if (auto* hello = std::get_if<protocol::Hello>(&*message)) {
    if (connection.phase() == Phase::kGreeting) return Greet(token, connection, std::move(*hello));
    Expel(token, connection, protocol::kBadFrame, "HELLO came a second time");
    return false;
  }
  if (connection.phase() == Phase::kGreeting && !std::holds_alternative<protocol::Error>(*message)) {
    const auto head = protocol::PeekHead(frame.payload);
    Expel(token, connection, protocol::kBadFrame,
          StrCat("the first frame has to be HELLO, not ", protocol::KindName(static_cast<uint64_t>(head->kind))));
    return false;
  }
  return HandleMessage(
      token, connection,
      {*std::move(message), std::move(frame.buffer), frame.payload.size() + protocol::kFrameHeaderBytes});
}

bool WorkerServer::Impl::Greet(Token token, Connection& connection, protocol::Hello hello) {
  const int version = std::min(hello.max_version, protocol::kMaxVersion);
  if (version < std::max(hello.min_version, protocol::kMinVersion)) {
    const bool worker_is_older = hello.max_version < protocol::kMinVersion;
    Expel(token, connection, protocol::kVersionMismatch,
          StrCat("the worker speaks protocol versions ", hello.min_version, " to ", hello.max_version, ", the sidecar ",
                 protocol::kMinVersion, " to ", protocol::kMaxVersion, "; upgrade the ",
                 worker_is_older ? "worker's SDK" : "sidecar"));
    return false;
  }
  if (connected_ >= options_.max_workers) {
    Expel(token, connection, protocol::kTooManyWorkers,
          StrCat(
              options_.max_workers,
              " workers are connected, as many as sidecar.workers.max of the manifest allows; raise it or open fewer"));
    return false;
  }
  ConnectedWorker worker{WorkerId(next_worker_++), NewSession(), std::move(hello), connection.worker().pid};
  absl::StatusOr<protocol::Welcome> welcome = events_->OnHello(worker);
  if (!welcome.ok()) {
    Expel(token, connection, protocol::kRefused, std::string(welcome.status().message()));
    return false;
  }
  welcome->version = version;
  welcome->session = worker.session;
  welcome->frame_cap = options_.frame_cap;
  connection.StartServing(worker, absl::Milliseconds(welcome->deadline_ms));
  MS_CHECK(connection.outbox()->AddOwn(protocol::EncodeFrame(*welcome), 0));
  tokens_[worker.id] = token;
  connected_gauge_->Set(++connected_);
  connections_total_->Add();
  {
    absl::MutexLock lock(&mutex_);
    outboxes_[worker.id] = connection.outbox();
    to_write_.push_back(worker.id);
  }
  LogInfo("worker connected",
          {{"worker", connection.Name()}, {"sdk", worker.hello.sdk}, {"version", worker.hello.version}});
  events_->OnConnected(worker);
  if (stopping_) {
    connection.NoteGoodbye();
    return QueueOwn(token, connection, protocol::EncodeFrame(protocol::Goodbye{"the sidecar ends"}));
  }
  return true;
}

bool WorkerServer::Impl::HandleMessage(Token token, Connection& connection, InboundMessage message) {
  BatchLedger& ledger = connection.ledger();
  if (const auto* result = std::get_if<protocol::Result>(&message.message)) {
    const uint64_t seq = result->seq;
    return HandleVerdict(token, connection, ledger.Received(*result), "RESULT", seq, std::move(message));
  }
  if (const auto* get = std::get_if<protocol::Get>(&message.message)) {
    const uint64_t seq = get->seq;
    return HandleVerdict(token, connection, ledger.Received(*get), "GET", seq, std::move(message));
  }
  if (const auto* scan = std::get_if<protocol::Scan>(&message.message)) {
    const uint64_t seq = scan->seq;
    return HandleVerdict(token, connection, ledger.Received(*scan), "SCAN", seq, std::move(message));
  }
  if (const auto* extend = std::get_if<protocol::Extend>(&message.message)) {
    const uint64_t seq = extend->seq;
    return HandleVerdict(token, connection, ledger.Received(*extend), "EXTEND", seq, std::move(message));
  }
  if (const auto* checkpoint = std::get_if<protocol::Checkpoint>(&message.message)) {
    const uint64_t seq = checkpoint->seq;
    return HandleVerdict(token, connection, ledger.Received(*checkpoint), "CHECKPOINT", seq, std::move(message));
  }
  if (const auto* stored = std::get_if<protocol::Stored>(&message.message)) {
    const uint64_t seq = stored->seq;
    return HandleVerdict(token, connection, ledger.Received(*stored), "STORED", seq, std::move(message));
  }
  if (const auto* ping = std::get_if<protocol::Ping>(&message.message)) {
    return QueueOwn(token, connection, protocol::EncodeFrame(protocol::Pong{ping->nonce}));
  }
  if (std::holds_alternative<protocol::Goodbye>(message.message)) {
    if (connection.goodbye()) return true;  // the answer to ours, or said twice
    connection.NoteGoodbye();
    events_->OnMessage(connection.worker().id, std::move(message));
    return true;
  }
  if (const auto* error = std::get_if<protocol::Error>(&message.message)) {
    ReportEnd(connection, "WorkerError",
              absl::UnknownError(StrCat("the worker reported ", error->code, ": ", error->message)), false);
    Remove(token);
    return false;
  }
  return true;  // PONG: that it came is all it says
}

bool WorkerServer::Impl::HandleVerdict(Token token, Connection& connection, BatchLedger::Verdict verdict,
                                       std::string_view kind, uint64_t seq, InboundMessage message) {
  switch (verdict) {
    case BatchLedger::Verdict::kDeliver:
      events_->OnMessage(connection.worker().id, std::move(message));
      return true;
    case BatchLedger::Verdict::kDrop:
      return true;
    case BatchLedger::Verdict::kUnknown:
      Expel(token, connection, protocol::kUnknownBatch,
            StrCat(kind, " for batch ", seq, ", which this session was not sent or has already answered"));
      return false;
    case BatchLedger::Verdict::kFlood:
      Expel(token, connection, protocol::kFlood,
            StrCat(kind, " for batch ", seq, ": more than ", BatchLedger::kMaxOpenRequests, " unanswered requests or ",
                   BatchLedger::kMaxExtends, " EXTENDs"));
      return false;
  }
  return true;
}

bool WorkerServer::Impl::QueueOwn(Token token, Connection& connection, std::string frame) {
  if (!connection.outbox()->AddOwn(std::move(frame), protocol::kHelloFrameCap)) {
    Expel(token, connection, protocol::kNotReading,
          StrCat(connection.outbox()->bytes(), " bytes wait for the worker, which does not read them"));
    return false;
  }
  // Written before the thread waits again: a callback or a later frame may still add to it.
  absl::MutexLock lock(&mutex_);
  to_write_.push_back(connection.worker().id);
  return true;
}

void WorkerServer::Impl::WriteTo(Token token) {
  Connection* connection = Find(token);
  if (connection == nullptr) return;
  size_t bytes = 0;
  bool writable = false;
  absl::Status error;
  const Progress progress = connection->Write(Now(), &bytes, &writable, &error);
  sent_bytes_->Add(static_cast<double>(bytes));
  const bool leaving = connection->phase() == Phase::kLeaving;
  if (progress == Progress::kClosed && !leaving) {
    // The peer went away. Whatever it said last is still there to read, its ERROR above all.
    ReadFrom(token);
    if (connection = Find(token); connection != nullptr && connection->phase() != Phase::kLeaving) {
      HandleEndOfStream(token, *connection, error);
    }
    return;
  }
  if (leaving && progress != Progress::kWouldBlock) return Remove(token);
  WatchForWriting(token, *connection, progress == Progress::kWouldBlock);
  if (writable && !leaving) events_->OnWritable(connection->worker().id);
}

void WorkerServer::Impl::HandleEndOfStream(Token token, Connection& connection, const absl::Status& error) {
  const protocol::FrameReader& reader = connection.reader();
  const bool cut = reader.InsideFrame();
  const bool orderly = connection.goodbye() && !cut;
  absl::Status status;
  if (cut) {
    status = absl::UnavailableError(
        StrCat("the connection ended inside a frame, after ", reader.partial_bytes(), " bytes of it"));
  } else if (!error.ok()) {
    status = absl::UnavailableError(StrCat("the connection broke: ", std::string(error.message())));
  } else {
    status = absl::UnavailableError(
        orderly ? "the worker left"
                : "the connection ended without GOODBYE: the worker stopped, crashed or was killed");
  }
  ReportEnd(connection, cut ? "Truncated" : orderly ? "Goodbye" : "Closed", status, orderly);
  Remove(token);
}

void WorkerServer::Impl::Expel(Token token, Connection& connection, std::string_view code, std::string_view message) {
  if (connection.phase() == Phase::kLeaving) return;
  const bool orderly = code == protocol::kStopping && !connection.reader().InsideFrame();
  ReportEnd(connection, std::string(code), absl::FailedPreconditionError(StrCat(code, ": ", message)), orderly);
  protocol::Error error{std::string(code), std::string(message)};
  connection.StartLeaving(protocol::EncodeFrame(error), Now() + options_.linger);
  WatchForWriting(token, connection, true);  // also ends the watch for input
  WriteTo(token);
}

bool WorkerServer::Impl::MayLog() {
  const absl::Duration now = Now();
  if (now - log_window_ >= absl::Seconds(1)) {
    log_window_ = now;
    logged_ = 0;
  }
  return logged_++ < kLogLinesPerSecond;
}

void WorkerServer::Impl::ReportEnd(Connection& connection, const std::string& cause, const absl::Status& status,
                                   bool orderly) {
  const bool served = connection.phase() == Phase::kServing;
  const bool silent = !served && cause == "Closed";  // came and went without a word: a probe
  const absl::Status named = Annotate(status, connection.Name());
  if (served) {
    metrics_->GetCounter("millstream_worker_disconnects_total", "Workers that went away, by cause.", {{"cause", cause}})
        ->Add();
  } else {
    metrics_
        ->GetCounter("millstream_worker_refused_total", "Connections that never became a worker, by cause.",
                     {{"cause", cause}})
        ->Add();
  }
  if (!silent && MayLog()) {
    Log(orderly ? LogLevel::kInfo : LogLevel::kWarning, served ? "worker disconnected" : "connection refused",
        {{"cause", cause}, {"detail", named.ToString()}});
  }
  {
    absl::MutexLock lock(&mutex_);
    if (!orderly && !silent && first_error_.ok()) first_error_ = named;
    if (served) outboxes_.erase(connection.worker().id);
  }
  if (!served) return;
  tokens_.erase(connection.worker().id);
  connected_gauge_->Set(--connected_);
  events_->OnDisconnected(connection.worker().id, status, orderly);
}

}  // namespace millstream::server
