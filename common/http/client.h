#ifndef MILLSTREAM_COMMON_HTTP_CLIENT_H_
#define MILLSTREAM_COMMON_HTTP_CLIENT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/http/message.h"

namespace millstream::http {

struct ClientRequest {
  std::string method = "GET";
  std::string url;  // "http://host:port/path?query" or https://, path and query percent-encoded
  // https: certificates in PEM to trust beside the system's. The server's certificate is always checked, its name too.
  std::string ca_pem;
  Fields headers;
  std::string body;
  absl::Duration deadline = absl::Seconds(10);  // for the whole exchange, connecting included
  size_t max_body_bytes = 16 << 20;             // of the response
};

// One HTTP exchange; blocks. Thread-safe. Any status code is an OK result: look at Response::status.
// INVALID_ARGUMENT: the URL; UNAVAILABLE: no connection, or it broke; DEADLINE_EXCEEDED; RESOURCE_EXHAUSTED: the body
// is larger than allowed. Messages name the URL without its query.
absl::StatusOr<Response> Fetch(const ClientRequest& request);
absl::StatusOr<Response> Get(const std::string& url, absl::Duration deadline);

}  // namespace millstream::http

#endif  // MILLSTREAM_COMMON_HTTP_CLIENT_H_
