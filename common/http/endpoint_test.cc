// Endpoint over loopback: our own server for whole answers, a raw socket for what a server under load or a broken
// network does to a stream.
#include "common/http/endpoint.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/http/server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millstream::http {
namespace {

using ::testing::HasSubstr;

// Takes one connection after the other, reads the head of a request and lets `serve` do what it likes with the socket,
// which is closed afterwards.
class RawServer {
 public:
  explicit RawServer(std::function<void(const RawServer& self, int fd)> serve) : serve_(std::move(serve)) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    MS_CHECK(bind(listener_, reinterpret_cast<sockaddr*>(&at), sizeof(at)) == 0 && listen(listener_, 8) == 0);
    socklen_t size = sizeof(at);
    MS_CHECK(getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &size) == 0);
    url_ = StrCat("http://127.0.0.1:", ntohs(at.sin_port));
    thread_ = std::thread([this] { Accept(); });
  }
  ~RawServer() {
    stopping_ = true;
    thread_.join();
    close(listener_);
  }
  const std::string& url() const { return url_; }
  bool stopping() const { return stopping_; }
  static void Send(int fd, std::string_view bytes) { (void)send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  // Until the client closes or the test ends.
  void HoldOpen(int fd) const {
    char byte;
    while (!stopping_) {
      pollfd waiting{fd, POLLIN, 0};
      if (poll(&waiting, 1, 50) > 0 && recv(fd, &byte, 1, 0) <= 0) return;
    }
  }

 private:
  void Accept() {
    while (!stopping_) {
      pollfd waiting{listener_, POLLIN, 0};
      if (poll(&waiting, 1, 50) <= 0) continue;
      const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) continue;
      std::string head;
      char byte;
      while (head.find("\r\n\r\n") == std::string::npos && recv(fd, &byte, 1, 0) == 1) head.push_back(byte);
      if (!head.empty()) serve_(*this, fd);
      close(fd);
    }
  }

  const std::function<void(const RawServer&, int)> serve_;
  int listener_ = -1;
  std::string url_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

constexpr std::string_view kChunkedHead =
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";

std::string Chunk(std::string_view bytes) { return StrCat(absl::Hex(bytes.size()), "\r\n", bytes, "\r\n"); }

std::unique_ptr<Endpoint> MakeEndpoint(const std::string& url) {
  EndpointOptions options;
  options.url = url;
  auto endpoint = Endpoint::Create(options);
  MS_CHECK_OK(endpoint);
  return *std::move(endpoint);
}

TEST(EndpointTest, FetchesWithMethodHeadersBodyAndBasePath) {
  auto server = Server::Start({}, [](Request request, Responder respond) {
    std::string seen = StrCat(request.method, " ", request.path, " ", request.Parameter("limit").value_or("none"));
    for (const auto& [name, value] : request.headers) {
      if (name == "X-Test") StrAppend(&seen, " ", value);
    }
    respond({.status = 201, .content_type = "text/plain", .body = StrCat(seen, " ", request.body), .headers = {}});
  });
  ASSERT_TRUE(server.ok()) << server.status();
  const auto endpoint = MakeEndpoint(StrCat("http://", (*server)->authority(), "/prefix/"));
  Call call;
  call.method = "PATCH";
  call.target = "/api/v1/pods/a%2Fb?limit=5";
  call.headers = {{"X-Test", "yes"}};
  call.body = "body";
  for (int i = 0; i < 3; ++i) {
    const auto response = endpoint->Fetch(call);
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_EQ(response->status, 201);
    EXPECT_EQ(response->body, "PATCH /prefix/api/v1/pods/a%2Fb 5 yes body");
  }
}

TEST(EndpointTest, RefusesWhatIsNoUrlAndNoCertificate) {
  EXPECT_TRUE(absl::IsInvalidArgument(
      Endpoint::Create({.url = "kubernetes", .ca_pem = {}, .certificate_pem = {}, .key_pem = {}}).status()));
  EndpointOptions options;
  options.url = "https://127.0.0.1:1";
  options.certificate_pem = "-----BEGIN CERTIFICATE-----\n";
  EXPECT_THAT(std::string(Endpoint::Create(options).status().message()), HasSubstr("give both or none"));
  options.key_pem = "nonsense";
  const absl::Status refused = Endpoint::Create(options).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
}

TEST(EndpointTest, BodyBeyondItsBoundIsCut) {
  RawServer server([](const RawServer&, int fd) {
    RawServer::Send(fd, kChunkedHead);
    for (int i = 0; i < 100; ++i) RawServer::Send(fd, Chunk(std::string(1000, 'x')));
    RawServer::Send(fd, Chunk(""));
  });
  Call call;
  call.target = "/large";
  call.max_body_bytes = 10'000;
  EXPECT_TRUE(absl::IsResourceExhausted(MakeEndpoint(server.url())->Fetch(call).status()));
}

TEST(EndpointTest, PiecesArriveWhileTheServerStillSends) {
  std::atomic<bool> first_seen{false};
  RawServer server([&](const RawServer& self, int fd) {
    RawServer::Send(fd, kChunkedHead);
    RawServer::Send(fd, Chunk("one\n"));
    // The second piece is sent only once the first has been seen: it cannot be that all comes at the end.
    while (!first_seen && !self.stopping()) poll(nullptr, 0, 5);
    RawServer::Send(fd, Chunk("two\n"));
    RawServer::Send(fd, Chunk(""));
  });
  Call call;
  call.target = "/watch";
  call.deadline = absl::Seconds(60);
  std::string all;
  const auto response =
      MakeEndpoint(server.url())->Stream(call, absl::Seconds(60), Interruption(), [&](std::string_view piece) {
        all += piece;
        first_seen = true;
        return absl::OkStatus();
      });
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->status, 200);
  EXPECT_EQ(all, "one\ntwo\n");
  EXPECT_EQ(response->body, "");
}

TEST(EndpointTest, SilenceEndsAStream) {
  RawServer server([&](const RawServer& self, int fd) {
    RawServer::Send(fd, kChunkedHead);
    RawServer::Send(fd, Chunk("one\n"));
    self.HoldOpen(fd);
  });
  Call call;
  call.target = "/watch";
  call.deadline = absl::Minutes(5);
  const auto response =
      MakeEndpoint(server.url())->Stream(call, absl::Milliseconds(200), Interruption(), [](std::string_view) {
        return absl::OkStatus();
      });
  EXPECT_TRUE(absl::IsDeadlineExceeded(response.status())) << response.status();
  EXPECT_THAT(std::string(response.status().message()), HasSubstr("nothing has arrived"));
}

TEST(EndpointTest, AnInterruptionEndsAStreamAtOnce) {
  RawServer server([&](const RawServer& self, int fd) {
    RawServer::Send(fd, kChunkedHead);
    RawServer::Send(fd, Chunk("one\n"));
    self.HoldOpen(fd);
  });
  Call call;
  call.target = "/watch";
  call.deadline = absl::Minutes(5);
  Interruption interruption;
  const auto response = MakeEndpoint(server.url())->Stream(call, absl::Minutes(5), interruption, [&](std::string_view) {
    interruption.Interrupt();
    return absl::OkStatus();
  });
  EXPECT_TRUE(absl::IsCancelled(response.status())) << response.status();
}

TEST(EndpointTest, AnErrorOfTheSinkEndsAStream) {
  RawServer server([&](const RawServer& self, int fd) {
    RawServer::Send(fd, kChunkedHead);
    RawServer::Send(fd, Chunk("one\n"));
    self.HoldOpen(fd);
  });
  Call call;
  call.target = "/watch";
  call.deadline = absl::Minutes(5);
  const auto response =
      MakeEndpoint(server.url())->Stream(call, absl::Minutes(5), Interruption(), [](std::string_view) {
        return absl::DataLossError("no JSON");
      });
  EXPECT_TRUE(absl::IsDataLoss(response.status())) << response.status();
}

TEST(EndpointTest, RefusalsOfAStreamAreCollected) {
  RawServer server(
      [](const RawServer&, int fd) { RawServer::Send(fd, "HTTP/1.1 410 Gone\r\nContent-Length: 7\r\n\r\nexpired"); });
  Call call;
  call.target = "/watch";
  bool called = false;
  const auto response =
      MakeEndpoint(server.url())->Stream(call, absl::Seconds(60), Interruption(), [&](std::string_view) {
        called = true;
        return absl::OkStatus();
      });
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->status, 410);
  EXPECT_EQ(response->body, "expired");
  EXPECT_FALSE(called);
}

TEST(EndpointTest, ABrokenStreamIsUnavailable) {
  RawServer server([](const RawServer&, int fd) {
    RawServer::Send(fd, kChunkedHead);
    RawServer::Send(fd, "400\r\nonly the beginning");
  });
  Call call;
  call.target = "/watch";
  const auto response =
      MakeEndpoint(server.url())->Stream(call, absl::Seconds(60), Interruption(), [](std::string_view) {
        return absl::OkStatus();
      });
  EXPECT_TRUE(absl::IsUnavailable(response.status())) << response.status();
}

TEST(EndpointTest, RedirectsAreNotFollowed) {
  RawServer server([](const RawServer&, int fd) {
    RawServer::Send(fd, "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n");
  });
  Call call;
  call.target = "/";
  const auto response = MakeEndpoint(server.url())->Fetch(call);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->status, 302);
}

}  // namespace
}  // namespace millstream::http
