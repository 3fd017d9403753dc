#include "sidecar/server/connection.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/base/strings.h"
#include "sidecar/protocol/codec.h"

namespace millstream::server {
namespace {

// Frames handed to the kernel in one call.
constexpr size_t kMaxPieces = 64;

bool Blocked(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

}  // namespace

Connection::Connection(FileDescriptor fd, PeerIdentity peer, const WorkerServerOptions& options, absl::Duration now)
    : fd_(std::move(fd)),
      options_(options),
      accepted_at_(now),
      reader_(std::min(protocol::kHelloFrameCap, options.frame_cap)),
      outbox_(std::make_shared<Outbox>(options.max_queued_bytes)),
      heard_at_(now),
      patient_until_(now) {
  worker_.pid = peer.pid;
}

std::string Connection::Name() const {
  const std::string pid = worker_.pid > 0 ? StrCat("pid ", worker_.pid) : "unknown pid";
  if (worker_.id == WorkerId()) return StrCat("a connection (", pid, ")");
  const std::string name = worker_.hello.name.empty() ? "" : StrCat(" ", worker_.hello.name);
  return StrCat("worker ", worker_.id.value(), name, " (", worker_.hello.language,
                worker_.hello.language.empty() ? "" : ", ", pid, ")");
}

void Connection::StartServing(const ConnectedWorker& worker, absl::Duration batch_deadline) {
  phase_ = Phase::kServing;
  worker_ = worker;
  batch_deadline_ = batch_deadline;
  reader_.set_cap(options_.frame_cap);
}

void Connection::StartLeaving(std::string last, absl::Duration deadline) {
  phase_ = Phase::kLeaving;
  leave_by_ = deadline;
  size_t dropped = 0;
  for (const std::string& frame : outbox_->Take()) dropped += frame.size();
  while (writing_.size() > (front_written_ > 0 ? 1 : 0)) {
    dropped += writing_.back().size();
    writing_.pop_back();
  }
  outbox_->Written(dropped);
  if (!last.empty()) outbox_->AddOwn(std::move(last), protocol::kHelloFrameCap);
}

Connection::Progress Connection::Read(absl::Duration now, size_t* bytes, absl::Status* error) {
  const std::span<char> space = reader_.Space();
  const ssize_t count = recv(fd_.get(), space.data(), space.size(), 0);
  if (count > 0) {
    *bytes = static_cast<size_t>(count);
    reader_.Filled(*bytes);
    heard_at_ = now;
    pinged_at_ = absl::InfiniteDuration();
    return Progress::kMore;
  }
  if (count < 0 && errno == EINTR) return Progress::kMore;
  if (count < 0 && Blocked(errno)) return Progress::kWouldBlock;
  if (count < 0) *error = absl::ErrnoToStatus(errno, "reading from the worker socket");
  return Progress::kClosed;
}

void Connection::NoteSent(std::string_view frame, absl::Duration now) {
  const auto head = protocol::PeekHead(frame.substr(protocol::kFrameHeaderBytes));
  if (!head.has_value()) return;
  ledger_.Sent(*head);
  if (head->kind == protocol::Kind::kGoodbye) goodbye_ = true;
  if (ledger_.Busy()) pinged_at_ = absl::InfiniteDuration();  // the batch's deadline holds instead
  // The worker may be deep in what was cancelled, and cannot answer before it is out of it.
  if (head->kind == protocol::Kind::kCancel) patient_until_ = now + batch_deadline_;
}

Connection::Progress Connection::Write(absl::Duration now, size_t* bytes, bool* writable, absl::Status* error) {
  while (true) {
    for (std::string& frame : outbox_->Take()) {
      NoteSent(frame, now);
      writing_.push_back(std::move(frame));
    }
    if (writing_.empty()) return Progress::kMore;

    iovec pieces[kMaxPieces];
    size_t count = 0;
    for (std::string& frame : writing_) {
      if (count == kMaxPieces) break;
      const size_t skip = count == 0 ? front_written_ : 0;
      pieces[count++] = {frame.data() + skip, frame.size() - skip};
    }
    msghdr message{};
    message.msg_iov = pieces;
    message.msg_iovlen = count;
    const ssize_t sent = sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && Blocked(errno)) return Progress::kWouldBlock;
    if (sent < 0) {
      *error = absl::ErrnoToStatus(errno, "writing to the worker socket");
      return Progress::kClosed;
    }
    *bytes += static_cast<size_t>(sent);
    front_written_ += static_cast<size_t>(sent);
    size_t whole_frames = 0;
    while (!writing_.empty() && front_written_ >= writing_.front().size()) {
      front_written_ -= writing_.front().size();
      whole_frames += writing_.front().size();
      writing_.pop_front();
    }
    if (outbox_->Written(whole_frames)) *writable = true;
  }
}

Connection::Due Connection::CheckTime(absl::Duration now) {
  switch (phase_) {
    case Phase::kGreeting:
      return now - accepted_at_ >= options_.hello_timeout ? Due::kDead : Due::kNothing;
    case Phase::kLeaving:
      return now >= leave_by_ ? Due::kDead : Due::kNothing;
    case Phase::kServing:
      break;
  }
  if (now < NextCheck()) return Due::kNothing;
  return pinged_at_ == absl::InfiniteDuration() ? Due::kPing : Due::kDead;
}

absl::Duration Connection::NextCheck() const {
  switch (phase_) {
    case Phase::kGreeting:
      return accepted_at_ + options_.hello_timeout;
    case Phase::kLeaving:
      return leave_by_;
    case Phase::kServing:
      break;
  }
  if (ledger_.Busy()) return absl::InfiniteDuration();  // the batch's deadline is the engine's
  if (pinged_at_ != absl::InfiniteDuration()) return pinged_at_ + options_.dead_after;
  return std::max(heard_at_ + options_.ping_after, patient_until_);
}

uint64_t Connection::NewPing(absl::Duration now) {
  pinged_at_ = now;
  return ++pings_;
}

}  // namespace millstream::server
