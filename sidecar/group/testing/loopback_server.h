#ifndef MILLSTREAM_SIDECAR_GROUP_TESTING_LOOPBACK_SERVER_H_
#define MILLSTREAM_SIDECAR_GROUP_TESTING_LOOPBACK_SERVER_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "sidecar/group/net/address.h"
#include "sidecar/group/net/io_limit.h"

namespace millstream::group {

// Accepts connections and hands each to `serve` on a thread of its own, until it is destroyed.
class LoopbackServer {
 public:
  explicit LoopbackServer(std::function<void(int fd)> serve) : serve_(std::move(serve)) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    MS_CHECK(bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0 && listen(listener_, 8) == 0);
    MS_CHECK(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Accept(); });
  }
  ~LoopbackServer() {
    stop_.Trigger();
    thread_.join();
    close(listener_);
    for (const int fd : fds_) shutdown(fd, SHUT_RDWR);
    for (std::thread& thread : threads_) thread.join();
    for (const int fd : fds_) close(fd);
  }
  int port() const { return port_; }
  int accepted() const { return accepted_; }
  BrokerAddress address() const { return {"127.0.0.1", port_}; }

 private:
  void Accept() {
    while (WaitFor(listener_, POLLIN, {absl::InfiniteDuration(), &stop_}).ok()) {
      const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) continue;
      ++accepted_;
      fds_.push_back(fd);
      threads_.emplace_back([this, fd] { serve_(fd); });
    }
  }

  const std::function<void(int fd)> serve_;
  Cancel stop_;
  int listener_, port_;
  std::atomic<int> accepted_{0};
  std::vector<int> fds_;              // of thread_, then of the destructor
  std::vector<std::thread> threads_;  // the same
  std::thread thread_;
};

}  // namespace millstream::group

#endif  // MILLSTREAM_SIDECAR_GROUP_TESTING_LOOPBACK_SERVER_H_
