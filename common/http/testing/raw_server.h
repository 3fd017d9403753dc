#ifndef MILLSTREAM_COMMON_HTTP_TESTING_RAW_SERVER_H_
#define MILLSTREAM_COMMON_HTTP_TESTING_RAW_SERVER_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::http {

// Takes one connection after the other, reads the head of a request and lets `serve` do what it likes with the socket,
// which is closed afterwards.
class RawServer {
 public:
  explicit RawServer(std::function<void(const RawServer& self, int fd)> serve) : serve_(std::move(serve)) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    MS_CHECK(bind(listener_, reinterpret_cast<sockaddr*>(&at), sizeof(at)) == 0 && listen(listener_, 8) == 0);
    socklen_t size = sizeof(at);
    MS_CHECK(getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &size) == 0);
    url_ = StrCat("http://127.0.0.1:", ntohs(at.sin_port));
    thread_ = std::thread([this] { Accept(); });
  }
  ~RawServer() {
    stopping_ = true;
    thread_.join();
    close(listener_);
  }
  const std::string& url() const { return url_; }
  bool stopping() const { return stopping_; }
  static void Send(int fd, std::string_view bytes) { (void)send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  // Until the client closes or the test ends.
  void HoldOpen(int fd) const {
    char byte;
    while (!stopping_) {
      pollfd waiting{fd, POLLIN, 0};
      if (poll(&waiting, 1, 50) > 0 && recv(fd, &byte, 1, 0) <= 0) return;
    }
  }

 private:
  void Accept() {
    while (!stopping_) {
      pollfd waiting{listener_, POLLIN, 0};
      if (poll(&waiting, 1, 50) <= 0) continue;
      const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) continue;
      std::string head;
      char byte;
      while (head.find("\r\n\r\n") == std::string::npos && recv(fd, &byte, 1, 0) == 1) head.push_back(byte);
      if (!head.empty()) serve_(*this, fd);
      close(fd);
    }
  }

  const std::function<void(const RawServer&, int)> serve_;
  int listener_ = -1;
  std::string url_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace millstream::http

#endif  // MILLSTREAM_COMMON_HTTP_TESTING_RAW_SERVER_H_
