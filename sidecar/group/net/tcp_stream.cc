#include "sidecar/group/net/tcp_stream.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "sidecar/group/net/resolve.h"

namespace millstream::group {
namespace {

absl::Status SocketError(int error) { return absl::UnavailableError(strerror(error)); }

class TcpStream : public Stream {
 public:
  explicit TcpStream(int fd) : fd_(fd) {}
  ~TcpStream() override { close(fd_); }

  absl::Status Connect(const SocketAddress& address, const IoLimit& limit) {
    if (connect(fd_, reinterpret_cast<const sockaddr*>(&address.storage), address.size) == 0) return absl::OkStatus();
    if (errno != EINPROGRESS) return SocketError(errno);
    MS_RETURN_IF_ERROR(WaitFor(fd_, POLLOUT, limit));
    int error = 0;
    socklen_t size = sizeof(error);
    if (getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size) != 0) return SocketError(errno);
    return error == 0 ? absl::OkStatus() : SocketError(error);
  }

  absl::Status WriteAll(std::string_view bytes, const IoLimit& limit) override {
    while (!bytes.empty()) {
      const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent >= 0) {
        bytes.remove_prefix(static_cast<size_t>(sent));
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        MS_RETURN_IF_ERROR(WaitFor(fd_, POLLOUT, limit));
      } else if (errno != EINTR) {
        return SocketError(errno);
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<size_t> ReadSome(char* buffer, size_t size, const IoLimit& limit) override {
    while (true) {
      const ssize_t got = recv(fd_, buffer, size, 0);
      if (got >= 0) return static_cast<size_t>(got);
      if (errno == EAGAIN || errno == EWOULDBLOCK) {
        MS_RETURN_IF_ERROR(WaitFor(fd_, POLLIN, limit));
      } else if (errno != EINTR) {
        return SocketError(errno);
      }
    }
  }

  bool Stale() const override {
    pollfd fd = {fd_, POLLIN, 0};
    return poll(&fd, 1, 0) != 0;
  }

 private:
  const int fd_;
};

absl::StatusOr<std::unique_ptr<Stream>> ConnectTo(const SocketAddress& address, const IoLimit& limit) {
  const int fd = socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return SocketError(errno);
  auto stream = std::make_unique<TcpStream>(fd);
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  MS_RETURN_IF_ERROR(stream->Connect(address, limit));
  return std::unique_ptr<Stream>(std::move(stream));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Stream>> ConnectTcp(const BrokerAddress& address, const IoLimit& limit) {
  MS_ASSIGN_OR_RETURN(const std::vector<SocketAddress> addresses, Resolve(address, limit));
  absl::Status error = absl::UnavailableError("the name has no address");
  for (size_t i = 0; i < addresses.size(); ++i) {
    auto stream = ConnectTo(addresses[i], limit.AtMost(limit.Left() / static_cast<int64_t>(addresses.size() - i)));
    if (stream.ok()) return stream;
    error = stream.status();
    if (absl::IsCancelled(error)) break;
  }
  return Annotate(error, "connecting");
}

}  // namespace millstream::group
