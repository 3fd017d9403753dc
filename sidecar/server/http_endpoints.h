#ifndef MILLSTREAM_SIDECAR_SERVER_HTTP_ENDPOINTS_H_
#define MILLSTREAM_SIDECAR_SERVER_HTTP_ENDPOINTS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/metrics.h"
#include "common/http/server.h"
#include "sidecar/server/query_backend.h"

namespace millstream::server {

struct HttpEndpointsOptions {
  http::ServerOptions listen;
  const Clock* clock = &SystemClock();  // for the age of answers
};

// The HTTP face of a sidecar: probes, metrics, tasks and queries of committed state (see README.md for the shapes).
//
//   GET /healthz  /readyz                       200 or 503, text
//   GET /metrics                                Prometheus text
//   GET /v1/tasks                               every task, its state, positions and lag
//   GET /v1/stores                              the names of the stores
//   GET /v1/stores/{store}/keys/{key}           ?key.format=utf8|base64|hex|int64
//   &value.format=auto|utf8|json|base64|hex|int64 &task= GET /v1/stores/{store}/range                ?from= &to=
//   &prefix= &limit= &reverse= &cursor= &task=, and the formats
//
// Errors are JSON: {"error": {"code": ..., "message": ..., "hint": ...}} with 400, 404, 405, 503 or 504.
// Thread-safe.
class HttpEndpoints {
 public:
  // Starts to listen. `backend` and `metrics` outlive it. UNAVAILABLE if the port is taken.
  static absl::StatusOr<std::unique_ptr<HttpEndpoints>> Start(const HttpEndpointsOptions& options,
                                                              QueryBackend* backend, const MetricsRegistry* metrics);
  virtual ~HttpEndpoints() = default;

  virtual int port() const = 0;
  virtual std::string authority() const = 0;  // "127.0.0.1:8080"
  // Waits for the requests in flight, up to `deadline`; the backend is not called any more when it returns.
  virtual void Stop(absl::Duration deadline) = 0;
};

}  // namespace millstream::server

#endif  // MILLSTREAM_SIDECAR_SERVER_HTTP_ENDPOINTS_H_
