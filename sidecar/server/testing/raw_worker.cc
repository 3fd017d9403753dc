#include "sidecar/server/testing/raw_worker.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <variant>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace millstream::server {
namespace {

bool WaitFor(int fd, short events, absl::Duration timeout) {
  pollfd waiting{fd, events, 0};
  return poll(&waiting, 1, static_cast<int>(absl::ToInt64Milliseconds(timeout))) == 1;
}

}  // namespace

absl::StatusOr<RawWorker> RawWorker::Connect(const std::string& path) {
  RawWorker worker;
  worker.fd_ = FileDescriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  if (connect(worker.fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return absl::ErrnoToStatus(errno, path);
  }
  return worker;
}

protocol::Hello RawWorker::DefaultHello() {
  protocol::Hello hello;
  hello.min_version = 1;
  hello.max_version = 1;
  hello.sdk = "test";
  hello.language = "c++";
  hello.version = "0";
  return hello;
}

bool RawWorker::SendBytes(std::string_view bytes) {
  while (!bytes.empty()) {
    if (!WaitFor(fd_.get(), POLLOUT, absl::Seconds(5))) return false;
    const ssize_t sent = send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (sent < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

size_t RawWorker::SendUntilBlocked(std::string_view bytes, size_t most) {
  size_t total = 0;
  while (total < most) {
    const ssize_t sent = send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) break;
    total += static_cast<size_t>(sent);
  }
  return total;
}

absl::StatusOr<protocol::SidecarMessage> RawWorker::Receive(absl::Duration timeout) {
  const absl::Duration deadline = SystemClock().Monotonic() + timeout;
  while (true) {
    MS_ASSIGN_OR_RETURN(std::optional<protocol::Frame> frame, reader_.Next());
    if (frame.has_value()) {
      last_ = *std::move(frame);
      return protocol::DecodeSidecarMessage(last_.payload);
    }
    const absl::Duration left = deadline - SystemClock().Monotonic();
    if (left <= absl::ZeroDuration() || !WaitFor(fd_.get(), POLLIN, left))
      return absl::DeadlineExceededError("no frame came");
    const std::span<char> space = reader_.Space();
    const ssize_t count = recv(fd_.get(), space.data(), space.size(), 0);
    if (count == 0 || (count < 0 && errno == ECONNRESET)) return absl::OutOfRangeError("the connection ended");
    if (count < 0) return absl::ErrnoToStatus(errno, "recv");
    reader_.Filled(static_cast<size_t>(count));
  }
}

absl::StatusOr<protocol::Welcome> RawWorker::Greet(protocol::Hello hello) {
  if (!Send(hello)) return absl::UnavailableError("HELLO was not taken");
  MS_ASSIGN_OR_RETURN(protocol::SidecarMessage message, Receive());
  if (auto* welcome = std::get_if<protocol::Welcome>(&message)) return std::move(*welcome);
  if (auto* error = std::get_if<protocol::Error>(&message))
    return absl::PermissionDeniedError(error->code + ": " + error->message);
  return absl::InternalError("neither WELCOME nor ERROR");
}

bool RawWorker::WaitForEnd(absl::Duration timeout) {
  while (true) {
    const auto message = Receive(timeout);
    if (!message.ok()) return absl::IsOutOfRange(message.status());
  }
}

void RawWorker::HalfClose() { shutdown(fd_.get(), SHUT_WR); }

}  // namespace millstream::server
