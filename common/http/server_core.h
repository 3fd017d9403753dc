#ifndef MILLSTREAM_COMMON_HTTP_SERVER_CORE_H_
#define MILLSTREAM_COMMON_HTTP_SERVER_CORE_H_

#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "boost/asio/io_context.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/steady_timer.hpp"
#include "boost/asio/strand.hpp"
#include "common/http/server.h"

// Internal to common/http.
namespace millstream::http {

class Session;

// Socket, threads and sessions of one server. Responders share it with the server: they may outlive it.
class ServerCore {
 public:
  ServerCore(const ServerOptions& options, Handler handler);
  ~ServerCore();
  ServerCore(const ServerCore&) = delete;
  ServerCore& operator=(const ServerCore&) = delete;

  // `self` owns this.
  absl::Status Start(const std::shared_ptr<ServerCore>& self);
  void Stop(absl::Duration deadline);

  const ServerOptions& options() const { return options_; }
  const Handler& handler() const { return handler_; }
  int port() const { return port_; }
  std::string authority() const { return authority_; }
  std::weak_ptr<ServerCore> weak() const { return self_; }
  bool stopping();

  // Sessions announce themselves; their destructor ends it.
  void Opened(Session* session);
  void Closed(Session* session);

 private:
  void Accept();
  // Drops the connection that has been without a complete request for longest. False if all are being answered.
  bool DropOneWaiting();

  const ServerOptions options_;
  const Handler handler_;
  std::weak_ptr<ServerCore> self_;
  boost::asio::io_context io_;
  // Both on one strand, like everything done to them.
  boost::asio::ip::tcp::acceptor acceptor_{boost::asio::make_strand(io_)};
  boost::asio::steady_timer accept_pause_{acceptor_.get_executor()};
  int port_ = 0;
  std::string authority_;

  absl::Mutex stop_mutex_;  // Stop, once
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(stop_mutex_);
  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::list<Session*> sessions_ ABSL_GUARDED_BY(mutex_);  // oldest first
};

}  // namespace millstream::http

#endif  // MILLSTREAM_COMMON_HTTP_SERVER_CORE_H_
