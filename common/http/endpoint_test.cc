// Endpoint over loopback: our own server for whole answers, a raw socket for what a server under load or a broken
// network does to a stream.
#include "common/http/endpoint.h"

#include <poll.h>

#include <atomic>
#include <functional>
#include <string>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/http/server.h"
#include "common/http/testing/raw_server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millstream::http {
namespace {

using ::testing::HasSubstr;

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

void OneThenSilence(const RawServer& self, int fd) {
  RawServer::Send(fd, kChunkedHead);
  RawServer::Send(fd, Chunk("one\n"));
  self.HoldOpen(fd);
}

Call Watch() {
  Call call;
  call.target = "/watch";
  call.deadline = absl::Minutes(5);
  return call;
}

TEST(EndpointTest, SilenceEndsAStream) {
  RawServer server(OneThenSilence);
  const Call call = Watch();
  const auto response =
      MakeEndpoint(server.url())->Stream(call, absl::Milliseconds(200), Interruption(), [](std::string_view) {
        return absl::OkStatus();
      });
  EXPECT_TRUE(absl::IsDeadlineExceeded(response.status())) << response.status();
  EXPECT_THAT(std::string(response.status().message()), HasSubstr("nothing has arrived"));
}

TEST(EndpointTest, AnInterruptionEndsAStreamAtOnce) {
  RawServer server(OneThenSilence);
  const Call call = Watch();
  Interruption interruption;
  const auto response = MakeEndpoint(server.url())->Stream(call, absl::Minutes(5), interruption, [&](std::string_view) {
    interruption.Interrupt();
    return absl::OkStatus();
  });
  EXPECT_TRUE(absl::IsCancelled(response.status())) << response.status();
}

TEST(EndpointTest, AnErrorOfTheSinkEndsAStream) {
  RawServer server(OneThenSilence);
  const Call call = Watch();
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
