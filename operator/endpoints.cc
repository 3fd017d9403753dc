#include "operator/endpoints.h"

#include "common/base/strings.h"

namespace millstream::program {
namespace {

http::Response Text(int status, std::string body) {
  return {.status = status, .content_type = "text/plain; charset=utf-8", .body = std::move(body), .headers = {}};
}

http::Response Probe(const absl::Status& status) {
  if (status.ok()) return Text(200, "ok\n");
  return Text(503, StrCat(std::string(status.message()), "\n"));
}

}  // namespace

http::Response Answer(const http::Request& request, const Pages& pages) {
  const bool known = request.path == "/healthz" || request.path == "/readyz" || request.path == "/metrics";
  if (!known) return Text(404, StrCat(request.path, " is not here; /healthz, /readyz and /metrics are\n"));
  if (request.method != "GET" && request.method != "HEAD") {
    http::Response refusal = Text(405, "GET only\n");
    refusal.headers = {{"Allow", "GET, HEAD"}};
    return refusal;
  }
  if (request.path == "/healthz") return Probe(pages.health());
  if (request.path == "/readyz") return Probe(pages.readiness());
  http::Response metrics = Text(200, pages.metrics());
  metrics.content_type = "text/plain; version=0.0.4; charset=utf-8";
  return metrics;
}

}  // namespace millstream::program
