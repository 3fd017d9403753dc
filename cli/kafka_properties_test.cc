#include "cli/kafka_properties.h"

#include <fstream>
#include <string>

#include "common/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millstream::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string ErrorOf(std::string_view text) {
  const absl::StatusOr<kafka::ClusterAccess> access = ParseKafkaProperties(text, "client.properties");
  EXPECT_FALSE(access.ok());
  return std::string(access.status().message());
}

TEST(KafkaPropertiesTest, TheFileOfKafkasOwnTools) {
  const absl::StatusOr<kafka::ClusterAccess> access = ParseKafkaProperties(
      "# a comment\n"
      "bootstrap.servers = kafka:9094\n"
      "security.protocol=SASL_SSL\n"
      "sasl.mechanism: SCRAM-SHA-512\n"
      "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n"
      "    username=\"me\" \\\n"
      "    password=\"pa=ss \\\\\"word\";\n"
      "ssl.truststore.type=PEM\n"
      "ssl.truststore.certificates=-----BEGIN CERTIFICATE-----\\nMII\\n-----END CERTIFICATE-----\n",
      "x");
  ASSERT_TRUE(access.ok()) << access.status();
  EXPECT_EQ(access->bootstrap_servers, "kafka:9094");
  EXPECT_EQ(access->sasl->mechanism, kafka::SaslMechanism::kScramSha512);
  EXPECT_EQ(access->sasl->username, "me");
  EXPECT_EQ(access->sasl->password, "pa=ss \"word");
  EXPECT_EQ(access->tls->ca_pem, "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----");
  EXPECT_TRUE(access->config.empty());
}

TEST(KafkaPropertiesTest, TheFileOfKcat) {
  const std::string pem = testing::TempDir() + "/kafka-properties.pem";
  std::ofstream(pem) << "-----BEGIN CERTIFICATE-----\n";
  const absl::StatusOr<kafka::ClusterAccess> access = ParseKafkaProperties(
      StrCat("metadata.broker.list=a:1,b:2\nsecurity.protocol=ssl\nssl.ca.location=", pem,
             "\nssl.certificate.location=", pem, "\nssl.key.location=", pem, "\nclient.rack=east\n"),
      "x");
  ASSERT_TRUE(access.ok()) << access.status();
  EXPECT_EQ(access->bootstrap_servers, "a:1,b:2");
  EXPECT_FALSE(access->sasl.has_value());
  EXPECT_THAT(access->tls->key_pem, HasSubstr("BEGIN"));
  EXPECT_EQ(access->config.at("client.rack"), "east");
}

TEST(KafkaPropertiesTest, OauthInBothNotations) {
  for (const char* text :
       {"security.protocol=SASL_SSL\nsasl.mechanisms=OAUTHBEARER\nsasl.oauthbearer.method=oidc\n"
        "sasl.oauthbearer.token.endpoint.url=https://id/token\nsasl.oauthbearer.client.id=c\n"
        "sasl.oauthbearer.client.secret=s\nsasl.oauthbearer.scope=k\n",
        "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\nsasl.login.callback.handler.class=org.x.Y\n"
        "sasl.oauthbearer.token.endpoint.url=https\\://id/token\n"
        "sasl.jaas.config=org.x.OAuthBearerLoginModule required clientId='c' clientSecret='s' scope=k;\n"}) {
    const absl::StatusOr<kafka::ClusterAccess> access = ParseKafkaProperties(text, "x");
    ASSERT_TRUE(access.ok()) << access.status();
    EXPECT_EQ(access->sasl->token_endpoint, "https://id/token");
    EXPECT_EQ(access->sasl->client_id, "c");
    EXPECT_EQ(access->sasl->client_secret, "s");
    EXPECT_EQ(access->sasl->scope, "k");
  }
}

TEST(KafkaPropertiesTest, NothingIsDroppedInSilence) {
  EXPECT_THAT(ErrorOf("\nsecurity.protocol=TLS"), AllOf(HasSubstr("client.properties:2"), HasSubstr("SASL_SSL")));
  EXPECT_THAT(ErrorOf("sasl.username=me"), HasSubstr("security.protocol=SASL_SSL"));
  EXPECT_THAT(ErrorOf("security.protocol=SASL_SSL\nsasl.mechanism=GSSAPI"), HasSubstr("OAUTHBEARER"));
  EXPECT_THAT(ErrorOf("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN"), HasSubstr("sasl.username"));
  EXPECT_THAT(ErrorOf("ssl.truststore.type=JKS"), HasSubstr("PEM"));
  EXPECT_THAT(ErrorOf("ssl.truststore.location=/no/such/file"), HasSubstr("/no/such/file"));
  EXPECT_THAT(ErrorOf("ssl.endpoint.identification.algorithm="), HasSubstr("always verified"));
  EXPECT_THAT(ErrorOf("enable.auto.commit=true"), HasSubstr("leave it out"));
  EXPECT_THAT(ErrorOf("security.protocol=SSL\nssl.key.pem=x"), HasSubstr("belong together"));
  EXPECT_THAT(ErrorOf("nonsense"), HasSubstr("NAME=VALUE"));
}

}  // namespace
}  // namespace millstream::cli
