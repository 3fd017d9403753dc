#ifndef MILLSTREAM_COMMON_HTTP_SERVER_H_
#define MILLSTREAM_COMMON_HTTP_SERVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/http/message.h"

namespace millstream::http {

struct ServerOptions {
  std::string address = "127.0.0.1";  // IPv4 or IPv6 address; nothing else is ever listened on
  int port = 0;                       // 0: a free one, see Server::port
  // Bounds against clients that are broken or hostile. What is beyond is refused (413, 431, 503) or cut off.
  size_t max_head_bytes = 16 << 10;  // request line and headers
  size_t max_body_bytes = 1 << 20;
  int max_connections = 64;
  absl::Duration receive_deadline = absl::Seconds(10);   // from the first byte of a request to its last
  absl::Duration idle_deadline = absl::Seconds(60);      // an open connection without a request
  absl::Duration response_deadline = absl::Seconds(30);  // the handler's; then 504. Also for sending the response
};

// Sends the response of one request. Called at most once, from any thread, also after the client or the server is gone
// (then it does nothing). Dropped without a call, the client gets 500.
using Responder = std::function<void(Response)>;

// Called on one of the few threads that serve all of HTTP: must not wait. What takes time keeps `respond` and calls it
// later. An exception becomes 500.
using Handler = std::function<void(Request request, Responder respond)>;

// An HTTP/1.1 server. Thread-safe.
class Server {
 public:
  // UNAVAILABLE names address and port that cannot be listened on, and why.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options, Handler handler);
  // Stops with a deadline of one second.
  virtual ~Server() = default;

  virtual int port() const = 0;
  // "127.0.0.1:8080", "[::1]:8080".
  virtual std::string authority() const = 0;
  // Accepts nothing more, waits for the requests in flight up to `deadline`, closes all connections. The handler is not
  // called any more when it returns. Calling it twice is harmless.
  virtual void Stop(absl::Duration deadline) = 0;
};

}  // namespace millstream::http

#endif  // MILLSTREAM_COMMON_HTTP_SERVER_H_
