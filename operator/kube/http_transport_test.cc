// The transport against a real server on loopback.
#include "operator/kube/http_transport.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/http/server.h"
#include "common/http/testing/raw_server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "operator/kube/api_error.h"
#include "operator/kube/client.h"

namespace millstream::kube {
namespace {

using ::testing::ElementsAre;

std::string HeaderOf(const http::Request& request, std::string_view wanted) {
  for (const auto& [name, value] : request.headers) {
    if (name == wanted) return value;
  }
  return "";
}

class HttpTransportTest : public ::testing::Test {
 protected:
  HttpTransportTest() {
    std::string name = (std::filesystem::temp_directory_path() / "kube-transport-XXXXXX").string();
    MS_CHECK(mkdtemp(name.data()) != nullptr);
    folder_ = name;
  }
  ~HttpTransportTest() override {
    if (server_ != nullptr) server_->Stop(absl::Seconds(1));
    std::filesystem::remove_all(folder_);
  }
  void Serve(http::Handler handler) {
    auto server = http::Server::Start({}, std::move(handler));
    MS_CHECK_OK(server);
    server_ = *std::move(server);
  }
  void WriteToken(std::string_view token) const { std::ofstream(folder_ + "/token") << token; }
  std::unique_ptr<Transport> Make() {
    ClientConfig config;
    config.server = "http://" + server_->authority();
    config.token_file = folder_ + "/token";
    auto transport = NewHttpTransport(config, "millstream-operator/test", &clock_);
    MS_CHECK_OK(transport);
    return *std::move(transport);
  }

  FakeClock clock_;
  std::string folder_;
  std::unique_ptr<http::Server> server_;
};

TEST_F(HttpTransportTest, SendsTokenAgentAndType) {
  WriteToken("t1\n");
  Serve([](http::Request request, http::Responder respond) {
    respond({.status = 200,
             .content_type = "application/json",
             .body = StrCat(HeaderOf(request, "Authorization"), "|", HeaderOf(request, "User-Agent"), "|",
                            HeaderOf(request, "Content-Type"), "|", request.body),
             .headers = {}});
  });
  HttpCall call;
  call.method = "PATCH";
  call.target = "/api/v1/namespaces/a/pods/b";
  call.content_type = "application/apply-patch+yaml";
  call.body = "{}";
  const auto answer = Make()->Do(call);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->body, "Bearer t1|millstream-operator/test|application/apply-patch+yaml|{}");
}

TEST_F(HttpTransportTest, ARotatedTokenIsReadAtOnceAfter401) {
  WriteToken("old");
  std::atomic<int> calls{0};
  Serve([&calls](http::Request request, http::Responder respond) {
    ++calls;
    const bool good = HeaderOf(request, "Authorization") == "Bearer new";
    respond({.status = good ? 200 : 401, .content_type = "application/json", .body = "{}", .headers = {}});
  });
  const auto transport = Make();
  HttpCall call;
  call.method = "GET";
  call.target = "/api/v1/pods";
  EXPECT_EQ(transport->Do(call)->status, 401);
  EXPECT_EQ(calls, 2);
  WriteToken("new");  // no time passes
  EXPECT_EQ(transport->Do(call)->status, 200);
}

TEST_F(HttpTransportTest, AKeptConnectionThatTheServerClosedDoesNoHarm) {
  WriteToken("t");
  // Promises to keep the connection, and closes it behind the answer.
  http::RawServer server([](const http::RawServer&, int fd) {
    http::RawServer::Send(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\n{}");
  });
  ClientConfig config;
  config.server = server.url();
  config.token_file = folder_ + "/token";
  const auto transport = NewHttpTransport(config, "test", &clock_);
  ASSERT_TRUE(transport.ok()) << transport.status();
  HttpCall call;
  call.method = "GET";
  call.target = "/api/v1/pods";
  call.repeatable = true;
  for (int i = 0; i < 10; ++i) {
    const auto answer = (*transport)->Do(call);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->body, "{}");
  }
}

TEST_F(HttpTransportTest, NobodyListens) {
  WriteToken("t");
  // Bound, so that nobody else gets the port, and not listening.
  const int holder = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(at);
  ASSERT_EQ(bind(holder, reinterpret_cast<sockaddr*>(&at), sizeof(at)), 0);
  ASSERT_EQ(getsockname(holder, reinterpret_cast<sockaddr*>(&at), &size), 0);
  ClientConfig config;
  config.server = StrCat("http://127.0.0.1:", ntohs(at.sin_port));
  config.token_file = folder_ + "/token";
  const auto transport = NewHttpTransport(config, "test", &clock_);
  ASSERT_TRUE(transport.ok()) << transport.status();
  HttpCall call;
  call.method = "GET";
  call.target = "/api/v1/pods";
  call.repeatable = true;
  EXPECT_TRUE(absl::IsUnavailable((*transport)->Do(call).status()));
  close(holder);
}

TEST_F(HttpTransportTest, ATokenThatCannotBeReadIsNamed) {
  Serve([](http::Request, http::Responder) {});
  HttpCall call;
  call.method = "GET";
  call.target = "/";
  const absl::Status status = Make()->Do(call).status();
  EXPECT_TRUE(absl::IsUnauthenticated(status)) << status;
  EXPECT_NE(std::string(status.message()).find(folder_ + "/token"), std::string::npos) << status;
}

TEST_F(HttpTransportTest, AClientOnIt) {
  WriteToken("t");
  Serve([](http::Request request, http::Responder respond) {
    http::Response response{.status = 200, .content_type = "application/json", .body = "", .headers = {}};
    if (request.Parameter("watch") == "true") {
      response.body =
          "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"4\"}}}\n"
          "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"9\"}}}\n";
    } else if (request.method == "GET") {
      response.body = R"({"metadata":{"resourceVersion":"3"},"items":[{"metadata":{"name":"x","namespace":"s"}}]})";
    } else {
      response.status = 429;
      response.headers = {{"Retry-After", "2"}};
      response.body = R"({"kind":"Status","reason":"TooManyRequests","code":429})";
    }
    respond(std::move(response));
  });
  Client client(Make(), ClientOptions());
  const auto list = client.List(kPods, {});
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(list->resource_version, "3");
  std::vector<std::string> versions;
  const absl::Status watched = client.Watch(kPods, {}, {}, http::Interruption(), [&](WatchEvent event) {
    versions.push_back(event.resource_version);
    return absl::OkStatus();
  });
  EXPECT_TRUE(watched.ok()) << watched;
  EXPECT_THAT(versions, ElementsAre("4", "9"));
  EXPECT_EQ(RetryAfterOf(client.Delete(kPods, {"s", "x"}, {})), absl::Seconds(2));
}

}  // namespace
}  // namespace millstream::kube
