#include "cli/conform/worker_link.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "cli/run/socket_folder.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::cli::conform {
namespace {

bool WaitFor(int fd, short events, absl::Duration timeout) {
  pollfd waiting{fd, events, 0};
  return poll(&waiting, 1, static_cast<int>(absl::ToInt64Milliseconds(std::max(timeout, absl::ZeroDuration())))) == 1;
}

}  // namespace

absl::Status WorkerLink::Send(std::string_view bytes, absl::Duration timeout) {
  const absl::Duration deadline = SystemClock().Monotonic() + timeout;
  while (!bytes.empty()) {
    if (!WaitFor(socket_.get(), POLLOUT, deadline - SystemClock().Monotonic()))
      return absl::DeadlineExceededError("the worker does not read");
    const ssize_t sent = send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (sent < 0) return absl::UnavailableError(StrCat("the worker has closed: ", std::strerror(errno)));
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return absl::OkStatus();
}

absl::StatusOr<WorkerFrame> WorkerLink::Receive(absl::Duration timeout) {
  const absl::Duration deadline = SystemClock().Monotonic() + timeout;
  while (true) {
    auto frame = reader_.Next();
    if (!frame.ok()) return absl::InvalidArgumentError(std::string(frame.status().message()));
    if (frame->has_value()) {
      auto message = protocol::DecodeWorkerMessage((*frame)->payload);
      if (!message.ok()) return absl::InvalidArgumentError(std::string(message.status().message()));
      return WorkerFrame{*std::move(message), std::move((*frame)->buffer)};
    }
    if (!WaitFor(socket_.get(), POLLIN, deadline - SystemClock().Monotonic()))
      return absl::DeadlineExceededError("no frame came");
    const std::span<char> space = reader_.Space();
    const ssize_t count = recv(socket_.get(), space.data(), space.size(), 0);
    if (count == 0 || (count < 0 && errno == ECONNRESET)) {
      if (reader_.InsideFrame()) return absl::InvalidArgumentError("the connection ended inside a frame");
      return absl::OutOfRangeError("the worker ended the connection");
    }
    if (count < 0 && errno != EINTR) return absl::ErrnoToStatus(errno, "recv");
    if (count > 0) reader_.Filled(static_cast<size_t>(count));
  }
}

absl::StatusOr<std::unique_ptr<WorkerDoor>> WorkerDoor::Open() {
  MS_ASSIGN_OR_RETURN(std::string folder, MakeSocketFolder());
  std::unique_ptr<WorkerDoor> door(new WorkerDoor(folder, StrCat(folder, "/worker.sock")));
  MS_ASSIGN_OR_RETURN(door->socket_, server::ListeningSocket::Listen(door->path_, 0600));
  return door;
}

WorkerDoor::~WorkerDoor() {
  socket_.Close();
  RemoveSocketFolder(folder_);
}

std::unique_ptr<WorkerLink> WorkerDoor::AcceptWithin(absl::Duration timeout) {
  if (!WaitFor(socket_.fd(), POLLIN, timeout)) return nullptr;
  server::FileDescriptor connection(accept4(socket_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
  return connection.valid() ? std::make_unique<WorkerLink>(std::move(connection)) : nullptr;
}

}  // namespace millstream::cli::conform
