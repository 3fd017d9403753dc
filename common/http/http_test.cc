// Server and client over loopback, and a raw socket for what no client would send.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <future>
#include <random>
#include <stdexcept>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "common/base/bytes.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/http/client.h"
#include "common/http/message.h"
#include "common/http/server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millstream::http {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::StartsWith;

// A connection that sends whatever it is told to.
class RawClient {
 public:
  explicit RawClient(int port) {
    fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    MS_CHECK(connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0);
  }
  ~RawClient() { close(fd_); }
  // False once the other side has closed.
  bool Send(const std::string& bytes) {
    size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t n = send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return false;
      sent += static_cast<size_t>(n);
    }
    return true;
  }
  // Everything until the other side closes or `patience` is over.
  std::string ReadAll(absl::Duration patience = absl::Seconds(10)) {
    const absl::Time deadline = absl::Now() + patience;
    std::string text;
    char buffer[8192];
    while (true) {
      pollfd waiting{fd_, POLLIN, 0};
      const int64_t left = absl::ToInt64Milliseconds(deadline - absl::Now());
      if (left <= 0 || poll(&waiting, 1, static_cast<int>(left)) <= 0) return text + "<still open>";
      const ssize_t n = recv(fd_, buffer, sizeof(buffer), 0);
      if (n <= 0) return text;
      text.append(buffer, static_cast<size_t>(n));
    }
  }

 private:
  int fd_;
};

class Http : public ::testing::Test {
 protected:
  void Start(Handler handler) {
    auto server = Server::Start(options_, std::move(handler));
    MS_CHECK_OK(server);
    server_ = *std::move(server);
    url_ = "http://" + server_->authority();
  }
  // Answers with what it was asked for.
  void StartEcho() {
    Start([](Request request, Responder respond) {
      Response response;
      response.content_type = "text/plain";
      response.body = StrCat(request.method, "|");
      for (const std::string& segment : request.segments) StrAppend(&response.body, segment, "|");
      for (const auto& [name, value] : request.query) StrAppend(&response.body, name, "=", value, "|");
      response.body += request.body;
      respond(std::move(response));
    });
  }
  absl::StatusOr<Response> Ask(const std::string& path, absl::Duration deadline = absl::Seconds(10)) {
    return Get(url_ + path, deadline);
  }
  std::string AskRaw(const std::string& bytes) {
    RawClient client(server_->port());
    client.Send(bytes);
    return client.ReadAll();
  }

  ServerOptions options_;
  std::unique_ptr<Server> server_;
  std::string url_;
};

TEST(Percent, RoundTripOfEveryByte) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes.push_back(static_cast<char>(i));
  const std::string text = PercentEncode(bytes);
  EXPECT_THAT(text, StartsWith("%00%01"));
  EXPECT_EQ(*PercentDecode(text), bytes);
  EXPECT_EQ(*PercentDecode("a%2fb%2Fc+d"), "a/b/c+d");
  EXPECT_EQ(*PercentDecode(""), "");
  for (const char* broken : {"%", "a%2", "%zz", "%2x", "%%41", "abc%"}) {
    const auto decoded = PercentDecode(broken);
    EXPECT_TRUE(absl::IsInvalidArgument(decoded.status())) << broken;
  }
}

TEST_F(Http, AnswersWithEverythingTheRequestSaid) {
  StartEcho();
  EXPECT_NE(server_->port(), 0);
  ClientRequest request;
  request.method = "POST";
  request.url = url_ + "/v1/keys/a%2Fb%20c?x=1&y=%26&flag&x=2";
  request.body = std::string("body\0with zero", 14);
  auto response = Fetch(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->status, 200);
  EXPECT_EQ(response->content_type, "text/plain");
  EXPECT_EQ(response->body, "POST|v1|keys|a/b c|x=1|y=&|flag=|x=2|" + request.body);
}

TEST_F(Http, BinaryKeysInThePath) {
  StartEcho();
  std::string key;
  for (int i = 0; i < 256; ++i) key.push_back(static_cast<char>(i));
  auto response = Ask("/k/" + PercentEncode(key));
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->body, "GET|k|" + key + "|");
  response = Ask("/k//");
  ASSERT_TRUE(response.ok());
  EXPECT_EQ(response->body, "GET|k|||") << "empty segments are keys too";
}

TEST_F(Http, StatusHeadersAndLargeBodiesArrive) {
  const std::string large(5 << 20, 'x');
  Start([&](Request, Responder respond) { respond({404, "text/html", large, {{"X-Reason", "none"}}}); });
  auto response = Ask("/");
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->status, 404);
  EXPECT_TRUE(response->body == large);
  EXPECT_THAT(response->headers, ::testing::Contains(Pair("X-Reason", "none")));
  ClientRequest request;
  request.url = url_ + "/?secret=1";
  request.max_body_bytes = 1000;
  const auto cut = Fetch(request);
  EXPECT_TRUE(absl::IsResourceExhausted(cut.status())) << cut.status();
  EXPECT_THAT(std::string(cut.status().message()), ::testing::Not(HasSubstr("secret")));
}

TEST_F(Http, ConnectionsAreKeptAndPipelined) {
  StartEcho();
  const std::string answers = AskRaw(
      "GET /1 HTTP/1.1\r\nHost: x\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\n\r\nHEAD /3 HTTP/1.1\r\nHost: x\r\n\r\n"
      "GET /4 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(answers, HasSubstr("GET|1|"));
  EXPECT_THAT(answers, HasSubstr("GET|2|"));
  EXPECT_THAT(answers, ::testing::Not(HasSubstr("HEAD|3|"))) << "HEAD has no body";
  EXPECT_THAT(answers, HasSubstr("Content-Length: 7"));
  EXPECT_THAT(answers, HasSubstr("GET|4|"));
}

TEST_F(Http, OneSlowAnswerDoesNotHoldUpOthers) {
  std::mutex mutex;
  std::vector<Responder> kept;
  Start([&](Request request, Responder respond) {
    if (request.path == "/fast") return respond({200, "text/plain", "fast", {}});
    std::lock_guard<std::mutex> lock(mutex);
    kept.push_back(std::move(respond));
  });
  std::vector<std::future<absl::StatusOr<Response>>> slow;
  for (int i = 0; i < 20; ++i) slow.push_back(std::async(std::launch::async, [&] { return Ask("/slow"); }));
  for (size_t n = 0; n < 20;) {
    absl::SleepFor(absl::Milliseconds(1));
    std::lock_guard<std::mutex> lock(mutex);
    n = kept.size();
  }
  EXPECT_EQ(Ask("/fast")->body, "fast");
  for (Responder& respond : kept) {
    respond({200, "text/plain", "slow", {}});
    respond({500, "text/plain", "a second answer", {}});  // does nothing
  }
  for (auto& answer : slow) EXPECT_EQ(answer.get()->body, "slow");
}

TEST_F(Http, HandlersThatFailGiveFiveHundreds) {
  options_.response_deadline = absl::Milliseconds(200);
  std::vector<Responder> kept;
  Start([&](Request request, Responder respond) {
    if (request.path == "/throw") throw std::runtime_error("secret detail");
    if (request.path == "/drop") return;
    kept.push_back(respond);
  });
  auto response = Ask("/throw");
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->status, 500);
  EXPECT_THAT(response->body, ::testing::Not(HasSubstr("secret")));
  EXPECT_EQ(Ask("/drop")->status, 500);
  EXPECT_EQ(Ask("/never")->status, 504);
  kept.front()({200, "text/plain", "too late", {}});
  EXPECT_EQ(Ask("/throw")->status, 500) << "still serving";
}

// ---------------------------------------------------------------- stopping

TEST_F(Http, StopWaitsForRequestsInFlight) {
  std::promise<Responder> arrived;
  Start([&](Request, Responder respond) { arrived.set_value(std::move(respond)); });
  auto answer = std::async(std::launch::async, [&] { return Ask("/"); });
  RawClient idle(server_->port());
  Responder respond = arrived.get_future().get();
  auto stopped = std::async(std::launch::async, [&] { server_->Stop(absl::Seconds(10)); });
  EXPECT_EQ(idle.ReadAll(), "") << "idle connections are closed at once";
  EXPECT_EQ(stopped.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  respond({200, "text/plain", "last", {}});
  EXPECT_EQ(answer.get()->body, "last");
  EXPECT_EQ(stopped.wait_for(std::chrono::seconds(5)), std::future_status::ready);
  EXPECT_FALSE(Ask("/", absl::Seconds(2)).ok());
}

TEST_F(Http, RespondersMayOutliveTheServer) {
  std::promise<Responder> arrived;
  Start([&](Request, Responder respond) { arrived.set_value(std::move(respond)); });
  auto answer = std::async(std::launch::async, [&] { return Ask("/"); });
  Responder respond = arrived.get_future().get();
  const absl::Time begun = absl::Now();
  server_->Stop(absl::Milliseconds(50));
  EXPECT_LT(absl::Now() - begun, absl::Seconds(3));
  server_ = nullptr;
  respond({200, "text/plain", "nobody is there", {}});
  EXPECT_TRUE(absl::IsUnavailable(answer.get().status()));
}

TEST_F(Http, PortsThatAreTakenAreNamed) {
  StartEcho();
  ServerOptions taken;
  taken.port = server_->port();
  const auto second = Server::Start(taken, [](Request, Responder) {});
  EXPECT_TRUE(absl::IsUnavailable(second.status()));
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(StrCat("127.0.0.1 port ", taken.port)));
  taken.address = "somewhere.example";
  EXPECT_TRUE(absl::IsInvalidArgument(Server::Start(taken, [](Request, Responder) {}).status()));
}

// ---------------------------------------------------------------- the client

TEST(HttpClient, ErrorsSayWhatToLookAt) {
  EXPECT_TRUE(absl::IsInvalidArgument(Get("not a url", absl::Seconds(1)).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Get("ftp://127.0.0.1/", absl::Seconds(1)).status()));
  const auto refused = Get("http://127.0.0.1:1/x?token=secret", absl::Seconds(5));
  EXPECT_TRUE(absl::IsUnavailable(refused.status())) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("http://127.0.0.1:1/x"));
  EXPECT_THAT(std::string(refused.status().message()), ::testing::Not(HasSubstr("secret")));
}

TEST_F(Http, ClientGivesUpAtItsDeadline) {
  std::vector<Responder> kept;
  Start([&](Request, Responder respond) { kept.push_back(respond); });
  const absl::Time begun = absl::Now();
  const auto response = Ask("/", absl::Milliseconds(200));
  EXPECT_TRUE(absl::IsDeadlineExceeded(response.status())) << response.status();
  EXPECT_LT(absl::Now() - begun, absl::Seconds(3));
}

// ---------------------------------------------------------------- hostile requests

TEST_F(Http, NonsenseIsRefused) {
  StartEcho();
  const std::vector<std::string> nonsense{
      "\r\n\r\n\x01\x02",
      "GET\r\n\r\n",
      "GET / HTTP/9.9\r\n\r\n",
      "GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n",
      "GET /?a=%2 HTTP/1.1\r\nHost: x\r\n\r\n",
      "GET no-slash HTTP/1.1\r\nHost: x\r\n\r\n",
      "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
      "GET / HTTP/1.1\r\nbroken header\r\n\r\n",
      "GET / HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
      "GET / HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n",
      "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
      "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nabc\r\n",
      std::string("GET /\0 HTTP/1.1\r\n\r\n", 19),
      "\x16\x03\x01\x02 a TLS hello",
  };
  for (const std::string& bytes : nonsense) {
    EXPECT_THAT(AskRaw(bytes), StartsWith("HTTP/1.1 400 ")) << Readable(bytes);
  }
  EXPECT_EQ(Ask("/fine")->body, "GET|fine|");
}

TEST_F(Http, WhatIsTooLargeIsRefusedBeforeItIsHeld) {
  options_.max_body_bytes = 1000;
  StartEcho();
  EXPECT_THAT(AskRaw("GET /" + std::string(20'000, 'a') + " HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(AskRaw("GET / HTTP/1.1\r\nX: " + std::string(20'000, 'a') + "\r\n\r\n"), StartsWith("HTTP/1.1 431 "));
  std::string many = "GET / HTTP/1.1\r\n";
  for (int i = 0; i < 5000; ++i) StrAppend(&many, "X", i, ": 1\r\n");
  EXPECT_THAT(AskRaw(many + "\r\n"), StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(AskRaw("POST / HTTP/1.1\r\nContent-Length: 4000000000\r\n\r\nabc"), StartsWith("HTTP/1.1 413 "));
  std::string chunks = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 5; ++i) chunks += "fa\r\n" + std::string(250, 'x') + "\r\n";
  EXPECT_THAT(AskRaw(chunks), StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(AskRaw("POST / HTTP/1.1\r\nContent-Length: 1000\r\nConnection: close\r\n\r\n" + std::string(1000, 'x')),
              StartsWith("HTTP/1.1 200 "));
}

int64_t ResidentKilobytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    int64_t kilobytes = 0;
    if (absl::StartsWith(line, "VmRSS:") && absl::SimpleAtoi(line.substr(6, line.find("kB") - 6), &kilobytes))
      return kilobytes;
  }
  return 0;
}

TEST_F(Http, AnEndlessHeadOrBodyCostsNoMemory) {
  StartEcho();
  Ask("/warm-up").IgnoreError();
  const int64_t before = ResidentKilobytes();
  for (const std::string head :
       {"GET /", "GET / HTTP/1.1\r\nX: ", "POST / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n"}) {
    RawClient client(server_->port());
    client.Send(head);
    const std::string block(1 << 20, 'a');
    for (int i = 0; i < 64; ++i) {
      if (!client.Send(block)) break;
    }
  }
  EXPECT_LT(ResidentKilobytes() - before, 16 << 10);
  EXPECT_EQ(Ask("/fine")->body, "GET|fine|");
}

TEST_F(Http, SlowSendersAreCutOff) {
  options_.receive_deadline = absl::Milliseconds(300);
  options_.idle_deadline = absl::Milliseconds(600);
  StartEcho();
  RawClient idle(server_->port());
  RawClient loris(server_->port());
  std::atomic<bool> cut{false};
  std::thread drip([&] {  // a byte now and then never makes a request
    const std::string text = "GET / HTTP/1.1\r\nX: ";
    for (size_t i = 0; i < 1000 && !cut; ++i) {
      if (!loris.Send(i < text.size() ? text.substr(i, 1) : "a")) break;
      absl::SleepFor(absl::Milliseconds(20));
    }
  });
  EXPECT_EQ(loris.ReadAll(absl::Seconds(5)), "");
  cut = true;
  drip.join();
  EXPECT_EQ(idle.ReadAll(absl::Seconds(5)), "");
}

TEST_F(Http, ManyIdleConnectionsDoNotShutOthersOut) {
  options_.max_connections = 8;
  StartEcho();
  std::vector<std::unique_ptr<RawClient>> idle;
  for (int i = 0; i < 40; ++i) {
    idle.push_back(std::make_unique<RawClient>(server_->port()));
    if (i % 2 == 0) idle.back()->Send("GET / HT");
  }
  for (int i = 0; i < 20; ++i) {
    auto response = Ask("/fine");
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_EQ(response->body, "GET|fine|");
  }
  int closed = 0;
  for (auto& client : idle) closed += client->ReadAll(absl::Milliseconds(20)) == "";
  EXPECT_GE(closed, 30);
}

TEST_F(Http, ConnectionsBeingAnsweredAreNeverDropped) {
  options_.max_connections = 3;
  std::mutex mutex;
  std::vector<Responder> kept;
  Start([&](Request, Responder respond) {
    std::lock_guard<std::mutex> lock(mutex);
    kept.push_back(std::move(respond));
  });
  std::vector<std::unique_ptr<RawClient>> busy;
  for (size_t i = 1; i <= 3; ++i) {
    busy.push_back(std::make_unique<RawClient>(server_->port()));
    busy.back()->Send("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    for (size_t n = 0; n < i;) {
      absl::SleepFor(absl::Milliseconds(1));
      std::lock_guard<std::mutex> lock(mutex);
      n = kept.size();
    }
  }
  RawClient newcomer(server_->port());
  EXPECT_EQ(newcomer.ReadAll(), "") << "the newcomer goes";
  for (Responder& respond : kept) respond({200, "text/plain", "kept", {}});
  for (auto& client : busy) EXPECT_THAT(client->ReadAll(), HasSubstr("kept"));
}

TEST_F(Http, RandomBytesNeverStopIt) {
  const uint64_t seed = std::random_device()();
  printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  options_.receive_deadline = absl::Milliseconds(100);
  StartEcho();
  const std::string valid = "POST /v1/x?a=b HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello";
  for (int round = 0; round < 300; ++round) {
    std::string bytes = valid;
    if (round % 3 == 0) {
      bytes.resize(random() % 200);
      for (char& c : bytes) c = static_cast<char>(random());
    } else {
      for (int flips = static_cast<int>(random() % 4); flips >= 0; --flips)
        bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    RawClient client(server_->port());
    client.Send(bytes);
  }
  auto response = Ask("/fine");
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->body, "GET|fine|");
}

}  // namespace
}  // namespace millstream::http
