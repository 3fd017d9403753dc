#include "sidecar/host/cluster_access.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "common/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millstream::host {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kPem[] = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";

class ClusterAccessTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/secrets-XXXXXX";
    sources_.secrets_folder = mkdtemp(pattern.data());
    kafka_.bootstrap_servers = "kafka:9092";
  }
  void TearDown() override { std::filesystem::remove_all(sources_.secrets_folder); }

  void Write(const std::string& name, const std::string& key, const std::string& text) {
    std::filesystem::create_directories(sources_.secrets_folder + "/" + name);
    std::ofstream(sources_.secrets_folder + "/" + name + "/" + key, std::ios::binary) << text;
  }
  std::string ErrorOf() {
    const absl::StatusOr<kafka::ClusterAccess> access = ResolveClusterAccess(kafka_, sources_);
    EXPECT_FALSE(access.ok());
    return std::string(access.status().message());
  }

  spec::KafkaSpec kafka_;
  AccessSources sources_;
};

TEST_F(ClusterAccessTest, TheOptionReplacesTheServersOnly) {
  kafka_.config["client.rack"] = "a";
  EXPECT_EQ(ResolveClusterAccess(kafka_, sources_)->bootstrap_servers, "kafka:9092");
  sources_.bootstrap_servers = "localhost:19092";
  const absl::StatusOr<kafka::ClusterAccess> access = ResolveClusterAccess(kafka_, sources_);
  ASSERT_TRUE(access.ok()) << access.status();
  EXPECT_EQ(access->bootstrap_servers, "localhost:19092");
  EXPECT_EQ(access->config.at("client.rack"), "a");
  EXPECT_FALSE(access->tls.has_value());
  EXPECT_FALSE(access->sasl.has_value());
}

// The Secrets Strimzi writes: <cluster>-cluster-ca-cert with ca.crt, <user> with user.crt, user.key and password.
TEST_F(ClusterAccessTest, StrimzisSecretsWorkAsTheyAre) {
  Write("main-cluster-ca-cert", "ca.crt", kPem);
  Write("totals-user", "user.crt", kPem);
  Write("totals-user", "user.key", "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n");
  Write("totals-user", "password", "s3cret");
  kafka_.tls.emplace();
  kafka_.tls->ca = {"main-cluster-ca-cert", "ca.crt"};
  kafka_.tls->certificate = {"totals-user", "user.crt"};
  kafka_.tls->key = {"totals-user", "user.key"};
  kafka_.sasl.emplace();
  kafka_.sasl->username = "totals-user";
  kafka_.sasl->password = {"totals-user", "password"};
  const absl::StatusOr<kafka::ClusterAccess> access = ResolveClusterAccess(kafka_, sources_);
  ASSERT_TRUE(access.ok()) << access.status();
  EXPECT_EQ(access->tls->ca_pem, kPem);
  EXPECT_EQ(access->tls->certificate_pem, kPem);
  EXPECT_THAT(access->tls->key_pem, HasSubstr("PRIVATE KEY"));
  EXPECT_EQ(access->sasl->mechanism, kafka::SaslMechanism::kScramSha512);
  EXPECT_EQ(access->sasl->username, "totals-user");
  EXPECT_EQ(access->sasl->password, "s3cret");
}

TEST_F(ClusterAccessTest, TheLineEndOfAnEditorIsNoPartOfAPassword) {
  Write("u", "name", "me\r\n");
  Write("u", "word", " pass word \n");
  kafka_.sasl.emplace();
  kafka_.sasl->mechanism = spec::SaslMechanism::kPlain;
  kafka_.sasl->username_ref = {"u", "name"};
  kafka_.sasl->password = {"u", "word"};
  const absl::StatusOr<kafka::ClusterAccess> access = ResolveClusterAccess(kafka_, sources_);
  ASSERT_TRUE(access.ok()) << access.status();
  EXPECT_EQ(access->sasl->username, "me");
  EXPECT_EQ(access->sasl->password, " pass word ");
}

TEST_F(ClusterAccessTest, OauthTakesItsClientSecret) {
  Write("oauth", "secret", "abc\n");
  kafka_.sasl.emplace();
  kafka_.sasl->mechanism = spec::SaslMechanism::kOauthBearer;
  kafka_.sasl->oauth = spec::KafkaOauthSpec{"https://id/token", "client", {"oauth", "secret"}, "kafka"};
  const absl::StatusOr<kafka::ClusterAccess> access = ResolveClusterAccess(kafka_, sources_);
  ASSERT_TRUE(access.ok()) << access.status();
  EXPECT_EQ(access->sasl->mechanism, kafka::SaslMechanism::kOauthBearer);
  EXPECT_EQ(access->sasl->token_endpoint, "https://id/token");
  EXPECT_EQ(access->sasl->client_secret, "abc");
  EXPECT_EQ(access->sasl->scope, "kafka");
}

TEST_F(ClusterAccessTest, WhatIsMissingIsNamedWithTheWayOut) {
  kafka_.tls.emplace();
  kafka_.tls->ca = {"main-ca", "ca.crt"};
  const std::string folder = sources_.secrets_folder;
  EXPECT_THAT(ErrorOf(), AllOf(HasSubstr("kafka.tls.caSecretRef: Secret main-ca, key ca.crt"),
                               HasSubstr(folder + "/main-ca/ca.crt"), HasSubstr("--secrets")));
  Write("main-ca", "ca.p12", "x");
  EXPECT_THAT(ErrorOf(), HasSubstr(folder + "/main-ca holds ca.p12"));
  Write("main-ca", "ca.crt", "");
  EXPECT_THAT(ErrorOf(), HasSubstr("is empty"));
  Write("main-ca", "ca.crt", "not a certificate");
  EXPECT_THAT(ErrorOf(), HasSubstr("not in PEM form"));
  kafka_.tls->ca_is_config_map = true;
  EXPECT_THAT(ErrorOf(), HasSubstr("kafka.tls.caConfigMapRef: ConfigMap main-ca"));
  sources_.secrets_folder = "";
  EXPECT_THAT(ErrorOf(), AllOf(HasSubstr("DIR/main-ca/ca.crt"), HasSubstr("--secrets DIR")));
  sources_.secrets_folder = folder;
}

TEST_F(ClusterAccessTest, ServersAndPropertiesAreChecked) {
  for (const char* servers : {"kafka:9092", "a:1,b:2", "[::1]:9092", "10.0.0.1:65535"})
    EXPECT_TRUE(CheckBootstrapServers(servers).ok()) << servers;
  for (const char* servers : {"", "kafka", "kafka:", ":9092", "a:1,", "kafka:0", "kafka:70000", "::1:9092", "a b:1",
                              "http://kafka:9092", "kafka:9092x"}) {
    EXPECT_THAT(std::string(CheckBootstrapServers(servers).message()), HasSubstr("HOST:PORT")) << servers;
  }
  kafka_.bootstrap_servers = "";
  EXPECT_THAT(ErrorOf(), HasSubstr("--kafka HOST:PORT"));
  kafka_.bootstrap_servers = "kafka:9092";
  kafka_.config["acks"] = "1";
  EXPECT_THAT(ErrorOf(), HasSubstr("acks"));
}

}  // namespace
}  // namespace millstream::host
