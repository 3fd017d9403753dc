#ifndef MILLSTREAM_OPERATOR_KUBE_TRANSPORT_H_
#define MILLSTREAM_OPERATOR_KUBE_TRANSPORT_H_

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/http/interruption.h"

namespace millstream::kube {

// One HTTP request of an API call, without what the transport adds (host, credentials, user agent).
struct HttpCall {
  std::string method;  // "GET", "POST", "PATCH", "PUT", "DELETE"
  std::string target;  // path and query, percent-encoded
  std::string content_type;
  std::string body;
  absl::Duration deadline = absl::Seconds(30);
  // The same call twice is as good as once, so it may be sent again when the connection breaks.
  bool repeatable = false;
};

struct HttpAnswer {
  int status = 0;
  std::string retry_after;  // the header; empty: none
  std::string body;
};

// How bytes get to the API server and back: HttpTransport (http_transport.h), or a script in tests. Thread-safe;
// blocks. Any status code is an OK result. UNAVAILABLE: no connection, or it broke; DEADLINE_EXCEEDED;
// RESOURCE_EXHAUSTED: an answer beyond the bound; UNAUTHENTICATED: credentials cannot be read (the message names the
// file).
class Transport {
 public:
  virtual ~Transport() = default;
  virtual absl::StatusOr<HttpAnswer> Do(const HttpCall& call) = 0;
  // A 2xx body goes to `sink` piece by piece as it arrives, cut anywhere; any other is in the answer. Ends with the
  // body, an error of the sink, CANCELLED after the interruption, DEADLINE_EXCEEDED when nothing arrives for `idle`.
  using PieceSink = std::function<absl::Status(std::string_view piece)>;
  virtual absl::StatusOr<HttpAnswer> Stream(const HttpCall& call, absl::Duration idle,
                                            const http::Interruption& interruption, const PieceSink& sink) = 0;
};

}  // namespace millstream::kube

#endif  // MILLSTREAM_OPERATOR_KUBE_TRANSPORT_H_
