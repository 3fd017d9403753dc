#include "common/http/server.h"

#include <utility>

#include "boost/asio/post.hpp"
#include "boost/asio/strand.hpp"
#include "common/base/log_line.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/base/thread_name.h"
#include "common/http/server_core.h"
#include "common/http/session.h"

namespace millstream::http {
namespace {

using Error = boost::system::error_code;
using boost::asio::ip::tcp;

// Handlers do not wait, so few threads do; the second one answers probes while the first renders a large page.
constexpr int kThreads = 2;
constexpr int kBacklog = 128;

class ServerImpl : public Server {
 public:
  explicit ServerImpl(std::shared_ptr<ServerCore> core) : core_(std::move(core)) {}
  ~ServerImpl() override { core_->Stop(absl::Seconds(1)); }
  int port() const override { return core_->port(); }
  std::string authority() const override { return core_->authority(); }
  void Stop(absl::Duration deadline) override { core_->Stop(deadline); }

 private:
  const std::shared_ptr<ServerCore> core_;
};

}  // namespace

ServerCore::ServerCore(const ServerOptions& options, Handler handler)
    : options_(options), handler_(std::move(handler)) {}

ServerCore::~ServerCore() = default;

absl::Status ServerCore::Start(const std::shared_ptr<ServerCore>& self) {
  self_ = self;
  Error error;
  const auto address = boost::asio::ip::make_address(options_.address, error);
  if (error || options_.port < 0 || options_.port > 65535) {
    return absl::InvalidArgumentError(
        StrCat("'", options_.address, "' port ", options_.port,
               " is not an IP address and port to listen on, such as 127.0.0.1 port 8080"));
  }
  const tcp::endpoint endpoint(address, static_cast<uint16_t>(options_.port));
  acceptor_.open(endpoint.protocol(), error);
  if (!error) acceptor_.set_option(boost::asio::socket_base::reuse_address(true), error);
  if (!error) acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(kBacklog, error);
  if (error) {
    return absl::UnavailableError(StrCat("listen on ", options_.address, " port ", options_.port, ": ", error.message(),
                                         ". Name another port, or 0 for a free one"));
  }
  port_ = acceptor_.local_endpoint().port();
  authority_ = address.is_v6() ? StrCat("[", options_.address, "]:", port_) : StrCat(options_.address, ":", port_);
  Accept();
  absl::MutexLock lock(&stop_mutex_);
  for (int i = 0; i < kThreads; ++i) {
    threads_.emplace_back([this] {
      NameThread("http");
      io_.run();
    });
  }
  return absl::OkStatus();
}

void ServerCore::Accept() {
  acceptor_.async_accept(boost::asio::make_strand(io_), [this](Error error, tcp::socket socket) {
    if (error == boost::asio::error::operation_aborted || stopping()) return;
    if (error) {  // out of file descriptors, mostly: a pause instead of a loop
      LogWarning("HTTP connection not accepted", {{"cause", error.message()}});
      accept_pause_.expires_after(std::chrono::milliseconds(100));
      accept_pause_.async_wait([this](Error cancelled) {
        if (!cancelled && !stopping()) Accept();
      });
      return;
    }
    size_t open = 0;
    {
      absl::MutexLock lock(&mutex_);
      open = sessions_.size();
    }
    // At the bound someone else has to go; if all are being answered, the newcomer does.
    if (open < static_cast<size_t>(options_.max_connections) || DropOneWaiting()) {
      std::make_shared<Session>(std::move(socket), this)->Start();
    }
    Accept();
  });
}

bool ServerCore::DropOneWaiting() {
  absl::MutexLock lock(&mutex_);
  for (auto session = sessions_.begin(); session != sessions_.end(); ++session) {
    if (!(*session)->waiting()) continue;
    (*session)->Close(/*unless_handling=*/true);
    sessions_.splice(sessions_.end(), sessions_, session);  // not the same one again while it goes
    return true;
  }
  return false;
}

bool ServerCore::stopping() {
  absl::MutexLock lock(&mutex_);
  return stopping_;
}

void ServerCore::Opened(Session* session) {
  absl::MutexLock lock(&mutex_);
  sessions_.push_back(session);
}

void ServerCore::Closed(Session* session) {
  absl::MutexLock lock(&mutex_);
  sessions_.remove(session);
}

void ServerCore::Stop(absl::Duration deadline) {
  absl::MutexLock once(&stop_mutex_);
  if (threads_.empty()) return;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    for (Session* session : sessions_) session->Close(/*unless_handling=*/true);
  }
  boost::asio::post(acceptor_.get_executor(), [this] {
    Error ignored;
    acceptor_.close(ignored);
    accept_pause_.cancel();
  });
  {
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(
                                +[](std::list<Session*>* sessions) { return sessions->empty(); }, &sessions_),
                            deadline);
    for (Session* session : sessions_) session->Close(/*unless_handling=*/false);
  }
  // Everything is closed, so nothing is left to wait for.
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options, Handler handler) {
  auto core = std::make_shared<ServerCore>(options, std::move(handler));
  MS_RETURN_IF_ERROR(core->Start(core));
  return std::make_unique<ServerImpl>(std::move(core));
}

}  // namespace millstream::http
