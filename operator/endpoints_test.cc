#include "operator/endpoints.h"

#include "gtest/gtest.h"

namespace millstream::program {
namespace {

http::Response Ask(const std::string& method, const std::string& path, absl::Status health = absl::OkStatus(),
                   absl::Status readiness = absl::OkStatus()) {
  http::Request request;
  request.method = method;
  request.path = path;
  return Answer(request, {[health] { return health; }, [readiness] { return readiness; }, [] { return "a 1\n"; }});
}

TEST(EndpointsTest, Probes) {
  EXPECT_EQ(Ask("GET", "/healthz").status, 200);
  EXPECT_EQ(Ask("HEAD", "/readyz").status, 200);
  const http::Response hanging = Ask("GET", "/healthz", absl::InternalError("hangs"));
  EXPECT_EQ(hanging.status, 503);
  EXPECT_EQ(hanging.body, "hangs\n");
  const http::Response waiting = Ask("GET", "/readyz", absl::OkStatus(), absl::UnavailableError("no API server"));
  EXPECT_EQ(waiting.status, 503);
  EXPECT_EQ(waiting.body, "no API server\n");
  EXPECT_EQ(Ask("GET", "/healthz", absl::OkStatus(), absl::UnavailableError("no API server")).status, 200);
}

TEST(EndpointsTest, MetricsAndNothingElse) {
  EXPECT_EQ(Ask("GET", "/metrics").body, "a 1\n");
  EXPECT_EQ(Ask("GET", "/metrics").content_type, "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_EQ(Ask("GET", "/secrets").status, 404);
  EXPECT_EQ(Ask("POST", "/metrics").status, 405);
}

}  // namespace
}  // namespace millstream::program
