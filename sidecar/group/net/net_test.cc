// Connections against brokers that are there, are not, or are something else. Sockets on loopback, free ports.
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <functional>

#include "common/base/clock.h"
#include "common/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sidecar/group/net/address.h"
#include "sidecar/group/net/cluster_client.h"
#include "sidecar/group/testing/loopback_server.h"
#include "sidecar/group/wire/api_versions.h"
#include "sidecar/group/wire/find_coordinator.h"
#include "sidecar/group/wire/heartbeat.h"
#include "sidecar/group/wire/init_producer_id.h"
#include "sidecar/group/wire/join_group.h"
#include "sidecar/group/wire/leave_group.h"
#include "sidecar/group/wire/message.h"
#include "sidecar/group/wire/sync_group.h"

namespace millstream::group {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace std::string_literals;

TEST(AddressTest, BootstrapServers) {
  const auto servers = ParseBootstrapServers("a:1, PLAINTEXT://b:2,[::1]:3,c,[fe80::2]");
  ASSERT_TRUE(servers.ok()) << servers.status();
  const std::vector<BrokerAddress> expected = {{"a", 1}, {"b", 2}, {"::1", 3}, {"c", 9092}, {"fe80::2", 9092}};
  EXPECT_EQ(*servers, expected);
  EXPECT_EQ((*servers)[2].ToString(), "[::1]:3");
  for (const std::string& wrong : {""s, ","s, ":9092"s, "a:0"s, "a:65536"s, "a:b"s, "::1"s, "[::1"s, "[::1]9"s}) {
    EXPECT_FALSE(ParseBootstrapServers(wrong).ok()) << wrong;
  }
}

std::string ReadExactly(int fd, size_t size) {
  std::string bytes(size, '\0');
  return recv(fd, bytes.data(), size, MSG_WAITALL) == static_cast<ssize_t>(size) ? bytes : "";
}
void Write(int fd, const std::string& bytes) {
  if (send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) return;
}
int32_t Number(const std::string& bytes, size_t at) {
  wire::Reader reader(std::string_view(bytes).substr(at));
  int32_t number = 0;
  reader.Int32(number);
  return number;
}
std::string Answer(const std::string& request, const std::string& body) {
  std::string frame;
  wire::Writer writer(&frame);
  writer.Int32(static_cast<int32_t>(4 + body.size()));
  frame += request.substr(4, 4);  // the correlation id
  return frame + body;
}
// A request without its length; empty at the end of the stream.
std::string ReadRequest(int fd) {
  const std::string size = ReadExactly(fd, 4);
  return size.empty() ? "" : ReadExactly(fd, static_cast<size_t>(Number(size, 0)));
}

wire::ApiVersionsResponse AllVersions() {
  wire::ApiVersionsResponse all;
  for (int16_t key = 0; key < 60; ++key) all.ranges.push_back({key, 0, 9});
  return all;
}

// A broker that answers ApiVersions, and everything else as `answer` says.
std::function<void(int)> Broker(std::function<void(int fd, const std::string& request)> answer,
                                wire::ApiVersionsResponse versions = AllVersions()) {
  return [answer = std::move(answer), versions](int fd) {
    while (true) {
      const std::string request = ReadRequest(fd);
      if (request.empty()) return;
      if (request[1] == static_cast<char>(wire::ApiKey::kApiVersions)) {
        Write(fd, Answer(request, wire::EncodeMessage(versions)));
      } else {
        answer(fd, request);
      }
    }
  };
}
void Heartbeats(int fd, const std::string& request) { Write(fd, Answer(request, "\0\0\0\0\0\0"s)); }

class ClusterClientTest : public ::testing::Test {
 protected:
  ClusterClient Client(const std::string& bootstrap = "127.0.0.1:1") {
    kafka::ClusterAccess access;
    access.bootstrap_servers = bootstrap;
    return {std::make_shared<kafka::LiveAccess>(access), "test"};
  }
  absl::Status Call(ClusterClient* client, const std::optional<BrokerAddress>& to,
                    absl::Duration timeout = absl::Seconds(20)) {
    return client->Call(to, wire::HeartbeatRequest(), IoLimit::In(timeout, &cancel_)).status();
  }
  Cancel cancel_;
};

TEST_F(ClusterClientTest, AConnectionIsKept) {
  LoopbackServer broker(Broker(Heartbeats));
  ClusterClient client = Client();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Call(&client, broker.address()), absl::OkStatus());
  EXPECT_EQ(broker.accepted(), 1);
}

TEST_F(ClusterClientTest, AConnectionThatTheBrokerClosedIsReplaced) {
  Cancel closed;
  LoopbackServer broker(Broker([&](int fd, const std::string& request) {
    Heartbeats(fd, request);
    shutdown(fd, SHUT_RDWR);
    closed.Trigger();
  }));
  ClusterClient client = Client();
  EXPECT_EQ(Call(&client, broker.address()), absl::OkStatus());
  ASSERT_TRUE(WaitFor(closed.fd(), POLLIN, IoLimit::In(absl::Seconds(20), nullptr)).ok());
  EXPECT_EQ(Call(&client, broker.address()), absl::OkStatus());
  EXPECT_EQ(broker.accepted(), 2);
}

TEST_F(ClusterClientTest, AChangedAccessIsUsedByTheNextCall) {
  LoopbackServer broker(Broker(Heartbeats));
  kafka::ClusterAccess first;
  first.bootstrap_servers = "127.0.0.1:1";
  const auto access = std::make_shared<kafka::LiveAccess>(first);
  ClusterClient client(access, "test");
  EXPECT_EQ(Call(&client, broker.address()), absl::OkStatus());
  access->Change(first);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Call(&client, broker.address()), absl::OkStatus());
  EXPECT_EQ(broker.accepted(), 2);
}

TEST_F(ClusterClientTest, BootstrapServersAreTriedInTurnAndTheOneThatAnswersIsKept) {
  LoopbackServer broker(Broker(Heartbeats));
  LoopbackServer deaf([](int) {});
  int dead_port;
  {
    LoopbackServer gone([](int) {});
    dead_port = gone.port();
  }
  ClusterClient client =
      Client(StrCat("127.0.0.1:", dead_port, ",127.0.0.1:", deaf.port(), ",", broker.address().ToString()));
  EXPECT_EQ(Call(&client, std::nullopt, absl::Seconds(3)), absl::OkStatus());
  EXPECT_EQ(Call(&client, std::nullopt, absl::Seconds(3)), absl::OkStatus());
  EXPECT_EQ(deaf.accepted(), 1);
  EXPECT_EQ(broker.accepted(), 1);
}

TEST_F(ClusterClientTest, NoBrokerAnswersInTime) {
  LoopbackServer deaf([](int) {});
  ClusterClient client = Client(deaf.address().ToString());
  const absl::Status status = Call(&client, std::nullopt, absl::Milliseconds(50));
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(deaf.address().ToString()), HasSubstr("ApiVersions")));
}

TEST_F(ClusterClientTest, AWaitingCallCanBeGivenUp) {
  LoopbackServer broker(Broker([this](int, const std::string&) { cancel_.Trigger(); }));
  ClusterClient client = Client();
  EXPECT_TRUE(absl::IsCancelled(Call(&client, broker.address(), absl::Hours(1))));
}

TEST_F(ClusterClientTest, SomethingElseThanABrokerIsNamed) {
  LoopbackServer web([](int fd) {
    ReadRequest(fd);
    Write(fd, "HTTP/1.1 400 Bad Request\r\n\r\n");
  });
  ClusterClient client = Client();
  const absl::Status status = Call(&client, web.address());
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("no Kafka broker"));
}

TEST_F(ClusterClientTest, AnswersThatAreNotAnswersEndTheConnection) {
  const std::vector<std::function<void(int, const std::string&)>> lies = {
      [](int fd, const std::string& request) {
        Write(fd, Answer("0000\x7f\x7f\x7f\x7f", "\0\0\0\0\0\0"s));
        (void)request;
      },
      [](int fd, const std::string& request) { Write(fd, Answer(request, "\0\0\0\0\0"s)); },
      [](int fd, const std::string& request) { Write(fd, Answer(request, "\0\0\0\0\0\0trailing"s)); },
      [](int fd, const std::string&) { Write(fd, "\xff\xff\xff\xff\0\0\0\1"s); },
      [](int fd, const std::string&) { Write(fd, "\0\0\0\3\0\0\0\1"s); },
  };
  for (size_t i = 0; i < lies.size(); ++i) {
    SCOPED_TRACE(i);
    LoopbackServer broker(Broker(lies[i]));
    ClusterClient client = Client();
    EXPECT_TRUE(absl::IsDataLoss(Call(&client, broker.address())));
    EXPECT_FALSE(Call(&client, broker.address()).ok());
    EXPECT_EQ(broker.accepted(), 2);
  }
  LoopbackServer half(Broker([](int fd, const std::string& request) {
    Write(fd, Answer(request, "\0\0\0\0\0\0"s).substr(0, 9));
    shutdown(fd, SHUT_RDWR);
  }));
  ClusterClient client = Client();
  EXPECT_TRUE(absl::IsUnavailable(Call(&client, half.address())));
}

// What brokers of three releases say that they speak (ApiVersions 0; from their message schemas).
wire::ApiVersionsResponse VersionsOf(const std::string& release) {
  using wire::ApiKey;
  struct Row {
    ApiKey api;
    std::pair<int16_t, int16_t> in_2_5, in_3_2, in_4_0;
  };
  static const Row kRows[] = {
      {ApiKey::kFindCoordinator, {0, 3}, {0, 4}, {0, 6}},  {ApiKey::kJoinGroup, {0, 7}, {0, 9}, {2, 9}},
      {ApiKey::kHeartbeat, {0, 4}, {0, 4}, {0, 4}},        {ApiKey::kLeaveGroup, {0, 4}, {0, 5}, {0, 5}},
      {ApiKey::kSyncGroup, {0, 5}, {0, 5}, {0, 5}},        {ApiKey::kSaslHandshake, {0, 1}, {0, 1}, {0, 1}},
      {ApiKey::kApiVersions, {0, 3}, {0, 3}, {0, 4}},      {ApiKey::kInitProducerId, {0, 3}, {0, 4}, {0, 5}},
      {ApiKey::kSaslAuthenticate, {0, 2}, {0, 2}, {0, 2}},
  };
  wire::ApiVersionsResponse versions;
  for (const Row& row : kRows) {
    const auto& [min, max] = release == "2.5" ? row.in_2_5 : release == "3.2" ? row.in_3_2 : row.in_4_0;
    versions.ranges.push_back({static_cast<int16_t>(row.api), min, max});
  }
  return versions;
}

// The body of an answer with nothing in it to the one of these requests that is this call.
template <typename... Requests>
std::string EmptyAnswer(int16_t api) {
  std::string body;
  ((static_cast<int16_t>(Requests::kApi) == api ? void(body = wire::EncodeMessage(typename Requests::Response()))
                                                : void()),
   ...);
  return body;
}

// Answers as such a broker would, and closes the connection on a version it does not speak.
TEST_F(ClusterClientTest, BrokersFrom2_5OnAreSpokenToInVersionsTheyKnow) {
  for (const std::string release : {"2.5", "3.2", "4.0"}) {
    const wire::ApiVersionsResponse versions = VersionsOf(release);
    std::atomic<int> answered{0};
    const auto answer = [&](int fd, const std::string& request) {
      const int16_t api = static_cast<int16_t>(request[0] << 8 | static_cast<unsigned char>(request[1]));
      const int16_t version = static_cast<int16_t>(request[2] << 8 | static_cast<unsigned char>(request[3]));
      for (const wire::ApiRange& range : versions.ranges) {
        if (range.key != api || version < range.min || version > range.max) continue;
        ++answered;
        const std::string body =
            EmptyAnswer<wire::FindCoordinatorRequest, wire::JoinGroupRequest, wire::SyncGroupRequest,
                        wire::HeartbeatRequest, wire::LeaveGroupRequest, wire::InitProducerIdRequest>(api);
        return Write(fd, Answer(request, body));
      }
      shutdown(fd, SHUT_RDWR);
    };
    LoopbackServer broker(Broker(answer, versions));
    ClusterClient client = Client();
    const IoLimit limit = IoLimit::In(absl::Seconds(20), &cancel_);
    const std::optional<BrokerAddress> to = broker.address();
    EXPECT_TRUE(client.Call(to, wire::FindCoordinatorRequest(), limit).ok()) << release;
    EXPECT_TRUE(client.Call(to, wire::JoinGroupRequest(), limit).ok()) << release;
    EXPECT_TRUE(client.Call(to, wire::SyncGroupRequest(), limit).ok()) << release;
    EXPECT_TRUE(client.Call(to, wire::HeartbeatRequest(), limit).ok()) << release;
    EXPECT_TRUE(client.Call(to, wire::LeaveGroupRequest(), limit).ok()) << release;
    EXPECT_TRUE(client.Call(to, wire::InitProducerIdRequest(), limit).ok()) << release;
    EXPECT_EQ(answered, 6) << release;
  }
}

TEST_F(ClusterClientTest, ABrokerThatIsTooOldIsNamedWithWhatItSpeaks) {
  wire::ApiVersionsResponse old = AllVersions();
  old.ranges[static_cast<size_t>(wire::ApiKey::kJoinGroup)].max = 4;
  LoopbackServer broker(Broker(Heartbeats, old));
  ClusterClient client = Client();
  const absl::Status status = Call(&client, broker.address());
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("JoinGroup 0 to 4"), HasSubstr("2.5 to 4.4")));
}

TEST_F(ClusterClientTest, ALargeAnswerComesWhole) {
  wire::FindCoordinatorResponse large;
  large.error_message = std::string(30'000, 'x');
  large.host = std::string(32'000, 'h');
  LoopbackServer broker(Broker([&](int fd, const std::string& request) {
    const std::string bytes = Answer(request, wire::EncodeMessage(large));
    for (size_t at = 0; at < bytes.size(); at += 7'001) Write(fd, bytes.substr(at, 7'001));
  }));
  ClusterClient client = Client();
  const auto answer =
      client.Call(broker.address(), wire::FindCoordinatorRequest(), IoLimit::In(absl::Seconds(20), nullptr));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->host, large.host);
}

TEST_F(ClusterClientTest, ANameThatDoesNotExist) {
  ClusterClient client = Client("no-such-host.invalid:9092");
  const absl::Status status = Call(&client, std::nullopt, absl::Seconds(30));
  EXPECT_TRUE(absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("no-such-host.invalid"));
}

}  // namespace
}  // namespace millstream::group
