#ifndef MILLSTREAM_COMMON_HTTP_ENDPOINT_H_
#define MILLSTREAM_COMMON_HTTP_ENDPOINT_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/http/interruption.h"
#include "common/http/message.h"

namespace millstream::http {

struct EndpointOptions {
  std::string url;  // "https://host:port" or "http://host:port", with a path before every target if it has one
  // https. PEM. The server's certificate is always checked, and its name or address too.
  std::string ca_pem;           // the only authorities trusted; empty: those of the system
  std::string certificate_pem;  // what the client shows, with its chain; empty: nothing
  std::string key_pem;          // with certificate_pem, and only then
};

struct Call {
  std::string method = "GET";
  std::string target;  // "/path?query", percent-encoded
  Fields headers;
  std::string body;
  absl::Duration deadline = absl::Seconds(10);  // for the whole exchange, at most kMaxCallDeadline
  size_t max_body_bytes = 16 << 20;             // of a response that is collected
};

inline constexpr absl::Duration kMaxCallDeadline = absl::Minutes(10);

// One server that is asked often: connections are kept and used again. Thread-safe; calls block, as many at once as
// there are callers. Redirects are not followed: credentials in headers go to this server only.
//
// Errors of calls: UNAVAILABLE: no connection, or it broke (a kept one may have been closed by the other side
// meanwhile: calls that may be repeated are worth a second try at once); DEADLINE_EXCEEDED; RESOURCE_EXHAUSTED: the
// body is larger than allowed; CANCELLED: interrupted. Messages name the URL without its query. Any status code is an
// OK result.
class Endpoint {
 public:
  // INVALID_ARGUMENT: the URL, or PEM text that OpenSSL does not take, with its words. Connects to nothing.
  static absl::StatusOr<std::unique_ptr<Endpoint>> Create(const EndpointOptions& options);
  virtual ~Endpoint() = default;

  // The whole response.
  virtual absl::StatusOr<Response> Fetch(const Call& call) = 0;

  // Gets the pieces of a body as they arrive, on the thread of the caller, in order; cut anywhere.
  using PieceSink = std::function<absl::Status(std::string_view piece)>;
  // A response whose body may take long. With a status of 2xx the body goes to `sink` and Response::body stays empty;
  // with any other it is collected. Returns when the body ends. DEADLINE_EXCEEDED also when nothing arrives for `idle`
  // (a connection whose other side is gone without a word looks like that). An error of the sink ends it and is
  // returned. The library reads ahead of the sink, so the server decides how much memory a slow sink takes.
  virtual absl::StatusOr<Response> Stream(const Call& call, absl::Duration idle, const Interruption& interruption,
                                          const PieceSink& sink) = 0;
};

}  // namespace millstream::http

#endif  // MILLSTREAM_COMMON_HTTP_ENDPOINT_H_
