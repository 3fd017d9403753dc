// Encryption and authentication against the secure listeners of MILLSTREAM_TEST_KAFKA.
#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include "common/base/clock.h"
#include "common/base/strings.h"
#include "common/log/kafka/open.h"

namespace millstream::kafka {
namespace {

using testing::HasSubstr;

std::string Variable(const std::string& name) {
  const char* const value = std::getenv(StrCat("MILLSTREAM_TEST_KAFKA_", name).c_str());
  return value == nullptr ? "" : value;
}

std::string FileOf(const std::string& name) {
  std::ifstream file(Variable(name));
  return {std::istreambuf_iterator<char>(file), {}};
}

class Security : public testing::Test {
 protected:
  void SetUp() override {
    if (Variable("SSL").empty()) GTEST_SKIP() << "MILLSTREAM_TEST_KAFKA_SSL names no secure listener";
    options_.client_id = "millstream-security";
    options_.admin_deadline = absl::Seconds(20);
  }

  void Encrypted(bool with_certificate) {
    options_.access.tls = TlsAccess{.ca_pem = FileOf("CA"), .certificate_pem = "", .key_pem = ""};
    if (!with_certificate) return;
    options_.access.tls->certificate_pem = FileOf("CERTIFICATE");
    options_.access.tls->key_pem = FileOf("KEY");
  }

  void LogIn(SaslMechanism mechanism) {
    SaslAccess sasl;
    sasl.mechanism = mechanism;
    if (mechanism == SaslMechanism::kOauthBearer) {
      sasl.token_endpoint = Variable("TOKEN_ENDPOINT");
      sasl.client_id = Variable("USER");
      sasl.client_secret = Variable("PASSWORD");
      sasl.scope = "kafka";
    } else {
      sasl.username = Variable("USER");
      sasl.password = Variable("PASSWORD");
    }
    options_.access.sasl = sasl;
  }

  // Makes a topic, commits a record, reads it: every kind of client goes through the listener.
  void ExpectWorks(const std::string& listener) {
    options_.access.bootstrap_servers = Variable(listener);
    auto opened = OpenKafkaLog(options_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    log::Log& log = **opened;
    const std::string topic = StrCat("secure-", std::random_device()());
    const absl::Status made = log.admin().CreateTopic({topic, 1, -1, {{"retention.ms", "-1"}}});
    ASSERT_TRUE(made.ok()) << made;
    const TopicPartition tp{topic, Partition(0)};
    log::WriterOptions writer_options;
    writer_options.transactional_id = topic;
    const auto writer = log.NewTransactionalWriter(writer_options);
    absl::Status status = writer->Init();
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_TRUE(writer->Begin().ok());
    status = writer->Append({{.to = tp, .timestamp_ms = 1, .key = "k", .value = "v", .headers = {}}});
    ASSERT_TRUE(status.ok()) << status;
    status = writer->Commit();
    ASSERT_TRUE(status.ok()) << status;
    const auto reader = log.NewReader({});
    status = reader->Add(tp, Offset(0));
    ASSERT_TRUE(status.ok()) << status;
    const absl::Duration until = SystemClock().Monotonic() + absl::Seconds(20);
    while (SystemClock().Monotonic() < until) {
      const auto events = reader->Poll(absl::Milliseconds(100));
      ASSERT_TRUE(events.ok()) << events.status();
      for (const log::ReaderEvent& event : *events) {
        if (const auto* read = std::get_if<log::RecordsRead>(&event)) {
          EXPECT_EQ(read->records.front().value, "v");
          return;
        }
      }
    }
    FAIL() << "the record does not come";
  }

  // A call fails before long, and says why.
  void ExpectFails(const std::string& listener, const std::string& reason) {
    options_.access.bootstrap_servers = Variable(listener);
    options_.admin_deadline = absl::Seconds(6);
    auto opened = OpenKafkaLog(options_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    const auto topics = (*opened)->admin().ListTopics();
    EXPECT_FALSE(topics.ok());
    EXPECT_THAT(topics.status().ToString(), HasSubstr(reason));
  }

  KafkaLogOptions options_;
};

TEST_F(Security, Tls) {
  Encrypted(/*with_certificate=*/false);
  ExpectWorks("SSL");
}

TEST_F(Security, MutualTls) {
  Encrypted(/*with_certificate=*/true);
  ExpectWorks("SSL");
}

TEST_F(Security, EveryMechanismWithoutEncryption) {
  for (const SaslMechanism mechanism :
       {SaslMechanism::kPlain, SaslMechanism::kScramSha256, SaslMechanism::kScramSha512, SaslMechanism::kOauthBearer}) {
    SCOPED_TRACE(static_cast<int>(mechanism));
    LogIn(mechanism);
    ExpectWorks("SASL_PLAINTEXT");
  }
}

TEST_F(Security, EveryMechanismWithEncryption) {
  Encrypted(/*with_certificate=*/false);
  for (const SaslMechanism mechanism :
       {SaslMechanism::kPlain, SaslMechanism::kScramSha256, SaslMechanism::kScramSha512, SaslMechanism::kOauthBearer}) {
    SCOPED_TRACE(static_cast<int>(mechanism));
    LogIn(mechanism);
    ExpectWorks("SASL_SSL");
  }
}

TEST_F(Security, AWrongPasswordIsNamedAsTheReason) {
  for (const SaslMechanism mechanism : {SaslMechanism::kPlain, SaslMechanism::kScramSha256}) {
    LogIn(mechanism);
    options_.access.sasl->password = "wrong";
    ExpectFails("SASL_PLAINTEXT", "SASL authentication error");
  }
}

TEST_F(Security, ARefusedTokenRequestIsNamedAsTheReason) {
  LogIn(SaslMechanism::kOauthBearer);
  options_.access.sasl->client_secret = "wrong";
  ExpectFails("SASL_PLAINTEXT", "token endpoint");
}

TEST_F(Security, AnUnknownAuthorityIsNamedAsTheReason) {
  options_.access.tls = TlsAccess{};  // the system's authorities, which have not signed the test bed's
  ExpectFails("SSL", "certificate verify failed");
}

TEST_F(Security, APrivateKeyThatIsNoneIsRefusedAtOnce) {
  Encrypted(/*with_certificate=*/true);
  options_.access.tls->key_pem = "no key";
  options_.access.bootstrap_servers = Variable("SSL");
  const auto opened = OpenKafkaLog(options_);
  EXPECT_TRUE(absl::IsInvalidArgument(opened.status())) << opened.status();
  EXPECT_THAT(opened.status().ToString(), HasSubstr("ssl.key.pem"));
}

}  // namespace
}  // namespace millstream::kafka
