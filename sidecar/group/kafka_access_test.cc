// Every way into a real broker, and what is said when it is the wrong one (label "kafka"; see
// tests/testbed/kafka/command.py for the variables).
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "common/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sidecar/group/net/cluster_client.h"
#include "sidecar/group/net/secrets.h"
#include "sidecar/group/testing/fake_engine.h"
#include "sidecar/group/wire/find_coordinator.h"

namespace millstream::group {
namespace {

using ::testing::HasSubstr;

std::string Variable(const std::string& name) {
  const char* value = std::getenv(("MILLSTREAM_TEST_KAFKA" + name).c_str());
  return value == nullptr ? "" : value;
}
std::string FileOf(const std::string& name) {
  std::ifstream file(Variable(name), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class KafkaAccessTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Variable("_SASL_SSL").empty()) GTEST_SKIP() << "MILLSTREAM_TEST_KAFKA_SASL_SSL names no broker";
  }

  static kafka::ClusterAccess Tls(const std::string& listener) {
    kafka::ClusterAccess access;
    access.bootstrap_servers = Variable(listener);
    access.tls = kafka::TlsAccess{.ca_pem = FileOf("_CA"), .certificate_pem = "", .key_pem = ""};
    return access;
  }
  static kafka::SaslAccess Sasl(kafka::SaslMechanism mechanism) {
    kafka::SaslAccess sasl;
    sasl.mechanism = mechanism;
    sasl.username = sasl.client_id = Variable("_USER");
    sasl.password = sasl.client_secret = Variable("_PASSWORD");
    sasl.token_endpoint = Variable("_TOKEN_ENDPOINT");
    sasl.scope = "kafka";
    return sasl;
  }
  static absl::Status TryOnce(const kafka::ClusterAccess& access) {
    ClusterClient client(std::make_shared<kafka::LiveAccess>(access), "test");
    wire::FindCoordinatorRequest find;
    find.key = "some-group";
    return client.Call(std::nullopt, find, IoLimit::In(absl::Seconds(20), nullptr)).status();
  }
  // A whole membership: the coordinator's address comes from the broker, of the same listener.
  static void JoinAndLeave(const kafka::ClusterAccess& access) {
    Ownership ownership;
    FakeEngine engine("me", &ownership);
    KafkaMembershipOptions options;
    options.access = access;
    options.group = "access-test-" + RandomText(9);
    options.topics = {"in"};
    options.tasks = 3;
    engine.Start(options);
    EXPECT_TRUE(engine.AwaitTasks(3)) << engine.seen().problem;
    engine.Leave();
  }
};

TEST_F(KafkaAccessTest, Tls) { JoinAndLeave(Tls("_SSL")); }

TEST_F(KafkaAccessTest, MutualTls) {
  kafka::ClusterAccess access = Tls("_SSL");
  access.tls->certificate_pem = FileOf("_CERTIFICATE");
  access.tls->key_pem = FileOf("_KEY");
  JoinAndLeave(access);
}

TEST_F(KafkaAccessTest, EveryMechanismWithAndWithoutTls) {
  for (const auto mechanism : {kafka::SaslMechanism::kPlain, kafka::SaslMechanism::kScramSha256,
                               kafka::SaslMechanism::kScramSha512, kafka::SaslMechanism::kOauthBearer}) {
    SCOPED_TRACE(static_cast<int>(mechanism));
    kafka::ClusterAccess access = Tls("_SASL_SSL");
    access.sasl = Sasl(mechanism);
    JoinAndLeave(access);
    access.bootstrap_servers = Variable("_SASL_PLAINTEXT");
    access.tls.reset();
    JoinAndLeave(access);
  }
}

TEST_F(KafkaAccessTest, AWrongPasswordIsNamedAndWaitsForAPerson) {
  for (const auto mechanism : {kafka::SaslMechanism::kPlain, kafka::SaslMechanism::kScramSha256,
                               kafka::SaslMechanism::kScramSha512, kafka::SaslMechanism::kOauthBearer}) {
    kafka::ClusterAccess access;
    access.bootstrap_servers = Variable("_SASL_PLAINTEXT");
    access.sasl = Sasl(mechanism);
    access.sasl->password = access.sasl->client_secret = "wrong";
    const absl::Status status = TryOnce(access);
    EXPECT_TRUE(absl::IsUnauthenticated(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("check "));
  }
  Ownership ownership;
  FakeEngine engine("me", &ownership);
  KafkaMembershipOptions options;
  options.access.bootstrap_servers = Variable("_SASL_PLAINTEXT");
  options.access.sasl = Sasl(kafka::SaslMechanism::kScramSha512);
  options.access.sasl->username = "nobody";
  options.group = "access-test";
  options.topics = {"in"};
  options.tasks = 1;
  engine.Start(options);
  EXPECT_TRUE(engine.Await([](const auto& seen) { return absl::IsUnauthenticated(seen.problem); }));
}

TEST_F(KafkaAccessTest, AnotherAccessIsNoOtherMember) {
  kafka::ClusterAccess access;
  access.bootstrap_servers = Variable("_SASL_PLAINTEXT");
  access.sasl = Sasl(kafka::SaslMechanism::kPlain);
  const auto live = std::make_shared<kafka::LiveAccess>(access);
  KafkaMembershipOptions options;
  options.live_access = live;
  options.group = "access-test-" + RandomText(9);
  options.topics = {"in"};
  options.tasks = 4;
  Ownership ownership;
  FakeEngine a("a", &ownership), b("b", &ownership);
  a.Start(options);
  ASSERT_TRUE(a.AwaitTasks(4)) << a.seen().problem;
  const FakeEngine::Seen before = a.seen();

  access.sasl = Sasl(kafka::SaslMechanism::kScramSha512);
  live->Change(access);
  // a has to hear of b, and to join again, on connections that log in the other way.
  options.live_access = std::make_shared<kafka::LiveAccess>(access);
  b.Start(options);
  ASSERT_TRUE(b.AwaitTasks(2)) << b.seen().problem;
  ASSERT_TRUE(a.AwaitTasks(2)) << a.seen().problem;
  EXPECT_EQ(a.seen().token.member_id, before.token.member_id);
  EXPECT_TRUE(a.seen().lost.empty());
  EXPECT_THAT(ownership.violations(), ::testing::IsEmpty());
  b.Leave();
  a.Leave();
}

TEST_F(KafkaAccessTest, AnAccessIsTriedBeforeItIsUsed) {
  kafka::ClusterAccess access;
  access.bootstrap_servers = Variable("_SASL_PLAINTEXT");
  access.sasl = Sasl(kafka::SaslMechanism::kScramSha512);
  const auto attempt = [&access] { return TryAccess(access, "test", IoLimit::In(absl::Seconds(20), nullptr)); };
  EXPECT_TRUE(attempt().ok()) << attempt();
  access.sasl->password = "wrong";
  EXPECT_TRUE(absl::IsUnauthenticated(attempt())) << attempt();
}

TEST_F(KafkaAccessTest, ABrokerThatIsNotTrustedIsRefused) {
  kafka::ClusterAccess access = Tls("_SSL");
  access.tls->ca_pem = "";  // the system's authorities did not sign it
  absl::Status status = TryOnce(access);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("certificate is refused"));
  access.tls->ca_pem = "no certificate";
  EXPECT_THAT(std::string(TryOnce(access).message()), HasSubstr("PEM"));
  access = Tls("_SSL");
  access.tls->certificate_pem = FileOf("_CERTIFICATE");
  access.tls->key_pem = "no key";
  EXPECT_THAT(std::string(TryOnce(access).message()), HasSubstr("key"));
}

TEST_F(KafkaAccessTest, TheWrongKindOfListenerIsNamed) {
  EXPECT_THAT(std::string(TryOnce(Tls("")).message()), HasSubstr("TLS"));
  kafka::ClusterAccess plain;
  plain.bootstrap_servers = Variable("_SSL");
  EXPECT_FALSE(TryOnce(plain).ok());
  kafka::ClusterAccess without_sasl;
  without_sasl.bootstrap_servers = Variable("_SASL_PLAINTEXT");
  EXPECT_FALSE(TryOnce(without_sasl).ok());
  kafka::ClusterAccess with_sasl;
  with_sasl.bootstrap_servers = Variable("");
  with_sasl.sasl = Sasl(kafka::SaslMechanism::kPlain);
  const absl::Status status = TryOnce(with_sasl);
  EXPECT_THAT(std::string(status.message()), HasSubstr("expects no SASL"));
}

}  // namespace
}  // namespace millstream::group
