#include "sdk/cpp/link.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::worker {

absl::StatusOr<std::unique_ptr<Link>> Link::Connect(const std::string& path, int wake_fd) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(
        StrCat("worker socket \"", path, "\": a path has 1 to ", sizeof(address.sun_path) - 1, " bytes"));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return absl::ErrnoToStatus(errno, "making a socket");
  std::unique_ptr<Link> link(new Link(fd, wake_fd));
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return absl::UnavailableError(StrCat("no sidecar at ", path, " (", std::strerror(errno),
                                         "); run: millstream run -f processor.yaml -- PROGRAM"));
  }
  return link;
}

Link::~Link() { close(fd_); }

void Link::HalfClose() { shutdown(fd_, SHUT_WR); }

absl::Status Link::Send(std::string_view frame) {
  while (!frame.empty()) {
    const ssize_t sent = send(fd_, frame.data(), frame.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0)
      return absl::UnavailableError(StrCat("the connection to the sidecar is gone: ", std::strerror(errno)));
    frame.remove_prefix(static_cast<size_t>(sent));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<protocol::Frame>> Link::Receive(absl::Duration timeout) {
  while (true) {
    MS_ASSIGN_OR_RETURN(std::optional<protocol::Frame> frame, reader_.Next());
    if (frame.has_value()) return frame;

    const std::span<char> space = reader_.Space();
    ssize_t count = recv(fd_, space.data(), space.size(), MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      if (timeout <= absl::ZeroDuration()) return std::nullopt;
      pollfd waiting[2] = {{fd_, POLLIN, 0}, {wake_fd_, POLLIN, 0}};
      const int ready = poll(waiting, wake_fd_ < 0 ? 1 : 2, static_cast<int>(absl::ToInt64Milliseconds(timeout)));
      if (ready > 0 && waiting[1].revents != 0) {
        uint64_t count;
        if (read(wake_fd_, &count, sizeof(count)) < 0) MS_CHECK(errno == EAGAIN || errno == EINTR);
      }
      if (ready <= 0 || waiting[0].revents == 0) return std::nullopt;
      continue;
    }
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno != ECONNRESET) return absl::ErrnoToStatus(errno, "reading from the sidecar");
    if (count <= 0) return absl::OutOfRangeError("the sidecar closed the connection");
    reader_.Filled(static_cast<size_t>(count));
  }
}

}  // namespace millstream::worker
