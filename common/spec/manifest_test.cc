#include "common/spec/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "common/base/strings.h"

namespace millstream::spec {
namespace {

StreamProcessorSpec Parsed(std::string_view spec) {
  ParseResult result = ParseManifests(StrCat("{apiVersion: millstream.dev/v1alpha1, kind: StreamProcessor, metadata: "
                                             "{name: totals, namespace: shop}, spec: {",
                                             spec, "}}"),
                                      "test.yaml");
  EXPECT_TRUE(result.ok()) << ToText(result.diagnostics);
  return result.manifests.empty() ? StreamProcessorSpec() : result.manifests[0].processor;
}

// The struct's own defaults are those of the schema, so that tests of other folders may fill in what they need.
TEST(Decoding, GivesTheDefaultsOfTheStruct) {
  StreamProcessorSpec spec = Parsed("inputs: [{topic: orders}]");
  StreamProcessorSpec defaults;
  EXPECT_EQ(spec.guarantee, defaults.guarantee);
  EXPECT_EQ(spec.transaction.min_duration, defaults.transaction.min_duration);
  EXPECT_EQ(spec.transaction.max_duration, defaults.transaction.max_duration);
  EXPECT_EQ(spec.transaction.max_bytes, defaults.transaction.max_bytes);
  EXPECT_EQ(spec.transaction.timeout, defaults.transaction.timeout);
  EXPECT_EQ(spec.transaction.max_per_second, defaults.transaction.max_per_second);
  EXPECT_EQ(spec.batch.max_records, defaults.batch.max_records);
  EXPECT_EQ(spec.batch.max_bytes, defaults.batch.max_bytes);
  EXPECT_EQ(spec.batch.deadline, defaults.batch.deadline);
  EXPECT_EQ(spec.errors.max_attempts, defaults.errors.max_attempts);
  EXPECT_EQ(spec.errors.backoff_initial, defaults.errors.backoff_initial);
  EXPECT_EQ(spec.errors.backoff_max, defaults.errors.backoff_max);
  EXPECT_EQ(spec.errors.on_failure, defaults.errors.on_failure);
  EXPECT_EQ(spec.max_ahead, defaults.max_ahead);
  EXPECT_EQ(spec.replicas, defaults.replicas);
  EXPECT_EQ(spec.standby_replicas, defaults.standby_replicas);
  EXPECT_EQ(spec.membership.session_timeout, defaults.membership.session_timeout);
  EXPECT_EQ(spec.membership.heartbeat_interval, defaults.membership.heartbeat_interval);
  EXPECT_EQ(spec.membership.rebalance_timeout, defaults.membership.rebalance_timeout);
  EXPECT_EQ(spec.sidecar.log_level, defaults.sidecar.log_level);
  EXPECT_EQ(spec.sidecar.workers.max, defaults.sidecar.workers.max);
  EXPECT_EQ(spec.sidecar.workers.connect_timeout, defaults.sidecar.workers.connect_timeout);
  EXPECT_EQ(spec.inputs[0].partitioner, InputSpec().partitioner);
  EXPECT_EQ(spec.inputs[0].start_from.type, InputSpec().start_from.type);
  EXPECT_EQ(spec.internal_topics.when_deleted, defaults.internal_topics.when_deleted);
}

TEST(Decoding, ResolvesNames) {
  StreamProcessorSpec spec = Parsed(
      "inputs: [{topic: orders}], stores: [{name: a}, {name: b, changelog: {topic: mine}}, {name: c, changelog: "
      "{enabled: false}}]");
  EXPECT_EQ(spec.group, "shop.totals");
  EXPECT_EQ(spec.QualifiedName(), "shop/totals");
  EXPECT_EQ(spec.OwnerStamp(), "local/shop/totals");
  EXPECT_EQ(spec.OwnerStamp("east"), "east/shop/totals");
  EXPECT_EQ(spec.inputs[0].name, "orders");
  EXPECT_THAT(spec.inputs[0].prefetch, testing::ElementsAre("a", "b", "c"));
  EXPECT_EQ(spec.stores[0].changelog.topic, "shop.totals-a-changelog");
  EXPECT_EQ(spec.stores[1].changelog.topic, "mine");
  EXPECT_FALSE(spec.stores[2].changelog.enabled);
  EXPECT_EQ(spec.stores[2].changelog.topic, "");
  EXPECT_EQ(spec.errors.dead_letter_topic, "shop.totals-dead-letter");
  EXPECT_EQ(spec.FindStore("b"), &spec.stores[1]);
  EXPECT_EQ(spec.FindInput("nope"), nullptr);
}

TEST(Decoding, WhatKeepsEventTimeHasAnInternalStore) {
  StreamProcessorSpec spec = Parsed(
      "inputs: [{topic: orders, lateness: 2s, idleAfter: 1m}], latePolicy: DeadLetter, stores: [{name: k}, {name: w, "
      "type: "
      "Window, window: {size: 1m, grace: 10s, emit: Final}}, {name: s, type: Session, session: {gap: 5m, retention: "
      "1h}}]");
  EXPECT_EQ(spec.inputs[0].lateness, absl::Seconds(2));
  EXPECT_EQ(spec.inputs[0].idle_after, absl::Minutes(1));
  EXPECT_EQ(spec.late_policy, LatePolicy::kDeadLetter);
  EXPECT_FALSE(spec.timers);
  EXPECT_THAT(spec.inputs[0].prefetch, testing::ElementsAre("k"));
  ASSERT_EQ(spec.stores.size(), 4u);
  EXPECT_EQ(spec.ManifestStores(), 3u);
  ASSERT_TRUE(spec.stores[1].window);
  EXPECT_EQ(spec.stores[1].window->advance, absl::Minutes(1));
  EXPECT_EQ(spec.stores[1].window->retention, absl::Seconds(70));
  EXPECT_TRUE(spec.stores[1].window->final);
  ASSERT_TRUE(spec.stores[2].session);
  EXPECT_EQ(spec.stores[2].session->retention, absl::Hours(1));
  EXPECT_TRUE(spec.stores[3].internal);
  EXPECT_EQ(spec.stores[3].changelog.topic, "shop.totals-timers-changelog");
  std::vector<std::string> topics;
  for (const InternalTopic& topic : InternalTopicsOf(spec)) topics.push_back(topic.topic);
  EXPECT_THAT(topics,
              testing::ElementsAre("shop.totals-k-changelog", "shop.totals-w-changelog", "shop.totals-s-changelog",
                                   "shop.totals-timers-changelog", "shop.totals-dead-letter"));

  EXPECT_TRUE(Parsed("inputs: [{topic: orders}], timers: {}").KeepsEventTime());
  const StreamProcessorSpec visits = Parsed(
      "inputs: [{topic: orders}], stores: [{name: k}, {name: accounts}], visits: [{name: interest, store: accounts}]");
  EXPECT_TRUE(visits.KeepsEventTime());
  ASSERT_EQ(visits.visits.size(), 1u);
  EXPECT_EQ(visits.visits[0].name, "interest");
  EXPECT_EQ(visits.visits[0].store, 1u);
  EXPECT_FALSE(Parsed("inputs: [{topic: orders}], stores: [{name: k}]").KeepsEventTime());
}

TEST(Decoding, ReadsEveryKindOfValue) {
  StreamProcessorSpec spec = Parsed(
      "guarantee: AtMostOnce, kafka: {bootstrapServers: 'k:9092', config: {client.rack: a}},"
      "inputs: [{topic: t, name: in, partitioner: Fnv1a, prefetch: [], startFrom: {type: Timestamp, time: "
      "'2024-05-01T00:00:00+02:00'}}],"
      "stores: [{name: s, backend: Memory}],"
      "outputs: [{topic: o, partitioner: Crc32, create: {partitions: 7, replicationFactor: 3, config: {retention.ms: "
      "'5'}}}],"
      "transaction: {maxBytes: 1048576, timeout: 1m}, errors: {onFailure: DeadLetter, deadLetterTopic: d},"
      "container: {command: [python], args: [a.py], workingDir: /app, env: [{name: A, value: b}, {name: C}, {name: D, "
      "valueFrom: {fieldRef: {fieldPath: x}}}]},"
      "sidecar: {logLevel: Warn}");
  EXPECT_EQ(spec.guarantee, Guarantee::kAtMostOnce);
  EXPECT_EQ(spec.kafka.bootstrap_servers, "k:9092");
  EXPECT_EQ(spec.kafka.config.at("client.rack"), "a");
  EXPECT_EQ(spec.inputs[0].start_from.time, absl::FromUnixSeconds(1714514400));
  EXPECT_EQ(spec.inputs[0].partitioner, Partitioner::kFnv1a);
  EXPECT_TRUE(spec.inputs[0].prefetch.empty());
  EXPECT_EQ(spec.stores[0].backend, StoreBackend::kMemory);
  EXPECT_EQ(spec.outputs[0].create->partitions, 7);
  EXPECT_EQ(spec.outputs[0].create->replication_factor, 3);
  EXPECT_EQ(spec.outputs[0].create->config.at("retention.ms"), "5");
  EXPECT_EQ(spec.transaction.max_bytes, 1048576);
  EXPECT_EQ(spec.transaction.timeout, absl::Minutes(1));
  EXPECT_EQ(spec.errors.on_failure, FailureAction::kDeadLetter);
  EXPECT_EQ(spec.container.working_dir, "/app");
  EXPECT_THAT(spec.container.env, testing::ElementsAre(testing::Pair("A", "b"), testing::Pair("C", "")));
  EXPECT_EQ(spec.sidecar.log_level, LogLevel::kWarn);
}

TEST(Decoding, ReadsHowKafkaIsReached) {
  const auto kafka = [](std::string_view blocks) {
    return Parsed(StrCat("inputs: [{topic: t}], kafka: {bootstrapServers: 'k:9092', ", blocks, "}")).kafka;
  };
  EXPECT_FALSE(kafka("config: {}").tls.has_value());
  EXPECT_FALSE(kafka("config: {}").sasl.has_value());
  EXPECT_TRUE(kafka("tls: {}").tls.has_value());
  EXPECT_FALSE(kafka("tls: {}").tls->ca.has_value());

  KafkaSpec mutual = kafka(
      "tls: {caSecretRef: {name: cluster-ca, key: ca.crt}, certSecretRef: {name: user, key: user.crt}, keySecretRef: "
      "{name: user, key: user.key}}");
  EXPECT_EQ(mutual.tls->ca, (SecretRef{"cluster-ca", "ca.crt"}));
  EXPECT_FALSE(mutual.tls->ca_is_config_map);
  EXPECT_EQ(mutual.tls->certificate, (SecretRef{"user", "user.crt"}));
  EXPECT_EQ(mutual.tls->key, (SecretRef{"user", "user.key"}));
  KafkaSpec map = kafka("tls: {caConfigMapRef: {name: m, key: k}}");
  EXPECT_EQ(map.tls->ca, (SecretRef{"m", "k"}));
  EXPECT_TRUE(map.tls->ca_is_config_map);

  KafkaSpec scram =
      kafka("sasl: {mechanism: SCRAM-SHA-256, username: me, passwordSecretRef: {name: user, key: password}}");
  EXPECT_EQ(scram.sasl->mechanism, SaslMechanism::kScramSha256);
  EXPECT_EQ(scram.sasl->username, "me");
  EXPECT_FALSE(scram.sasl->username_ref.has_value());
  EXPECT_EQ(scram.sasl->password, (SecretRef{"user", "password"}));
  KafkaSpec plain = kafka(
      "tls: {}, sasl: {mechanism: PLAIN, usernameSecretRef: {name: a, key: b}, passwordSecretRef: {name: c, key: d}}");
  EXPECT_EQ(plain.sasl->mechanism, SaslMechanism::kPlain);
  EXPECT_EQ(plain.sasl->username, "");
  EXPECT_EQ(plain.sasl->username_ref, (SecretRef{"a", "b"}));

  KafkaSpec oauth = kafka(
      "tls: {}, sasl: {mechanism: OAUTHBEARER, oauth: {tokenEndpoint: 'https://id.example.com/token', clientId: c, "
      "clientSecretRef: {name: a, key: b}, scope: kafka}}");
  ASSERT_TRUE(oauth.sasl->oauth.has_value());
  EXPECT_EQ(oauth.sasl->mechanism, SaslMechanism::kOauthBearer);
  EXPECT_EQ(oauth.sasl->oauth->token_endpoint, "https://id.example.com/token");
  EXPECT_EQ(oauth.sasl->oauth->client_id, "c");
  EXPECT_EQ(oauth.sasl->oauth->client_secret, (SecretRef{"a", "b"}));
  EXPECT_EQ(oauth.sasl->oauth->scope, "kafka");
}

TEST(InternalTopics, CarryTheConfigurationOfTheirKind) {
  StreamProcessorSpec spec = Parsed(
      "inputs: [{topic: t}], stores: [{name: a, changelog: {config: {x: '2', z: '3'}}}, {name: b, changelog: {enabled: "
      "false}}],"
      "internalTopics: {replicationFactor: 2, config: {x: '1'}}, errors: {onFailure: DeadLetter}");
  std::vector<InternalTopic> topics = InternalTopicsOf(spec);
  ASSERT_EQ(topics.size(), 2u);
  EXPECT_EQ(topics[0].topic, "shop.totals-a-changelog");
  EXPECT_EQ(topics[0].store, "a");
  EXPECT_EQ(topics[0].config, (TopicConfig{{"cleanup.policy", "compact"}, {"x", "2"}, {"z", "3"}}));
  EXPECT_EQ(topics[0].replication_factor, 2);
  EXPECT_EQ(topics[1].kind, InternalTopic::Kind::kDeadLetter);
  EXPECT_EQ(topics[1].config, (TopicConfig{{"x", "1"}}));
}

TEST(CanonicalJson, IsTheSameForTheSameMeaning) {
  auto canonical = [](std::string_view text) {
    ParseResult result = ParseManifests(text, "x");
    EXPECT_EQ(result.manifests.size(), 1u) << ToText(result.diagnostics);
    return result.manifests.empty() ? "" : result.manifests[0].canonical_json;
  };
  std::string one = canonical(
      "apiVersion: millstream.dev/v1alpha1\nkind: StreamProcessor\nmetadata: {name: a, labels: {x: z}}\nspec:\n  "
      "replicas: 1\n  inputs: [{topic: t, name: t}]\n");
  std::string two = canonical(
      "{\"spec\": {\"inputs\": [{\"topic\": \"t\"}]}, \"metadata\": {\"namespace\": \"default\", \"name\": \"a\"}, "
      "\"kind\": \"StreamProcessor\", \"apiVersion\": \"millstream.dev/v1alpha1\", \"status\": {\"x\": 1}}");
  EXPECT_EQ(one, two);
}

TEST(Diagnostics, AreTextAndJson) {
  Diagnostic error{Severity::kError, Judge::kSchema, "p.yaml", 12, 5, "spec.inputs[0].topic", "is \"wrong\""};
  EXPECT_EQ(ToText(error), "p.yaml:12:5: spec.inputs[0].topic: is \"wrong\"");
  Diagnostic warning{Severity::kWarning, Judge::kCode, "p.yaml", 0, 0, "", "hm"};
  EXPECT_EQ(ToText(warning), "p.yaml: warning: hm");
  EXPECT_THAT(ToJson({error}), testing::HasSubstr("\"path\": \"spec.inputs[0].topic\""));
  EXPECT_EQ(ToJson({}), "[]");
  EXPECT_FALSE(HasErrors({warning}));
  EXPECT_TRUE(HasErrors({warning, error}));
}

class FilesTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/millstream-spec-XXXXXX";
    folder_ = mkdtemp(name);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, std::string_view text) {
    std::string path = folder_ + "/" + name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  static constexpr std::string_view kGood =
      "apiVersion: millstream.dev/v1alpha1\nkind: StreamProcessor\nmetadata: {name: a}\nspec: {inputs: [{topic: t}]}\n";
  std::string folder_;
};

TEST_F(FilesTest, AreAllCheckedWhateverOneIsLike) {
  std::string good = Write("good.yaml", kGood);
  std::string bad = Write("bad.yaml", "kind: [\n");
  std::string missing = folder_ + "/missing.yaml";
  ParseResult result = ValidateFiles({missing, folder_, bad, good});
  EXPECT_FALSE(result.ok());
  ASSERT_EQ(result.manifests.size(), 1u);
  EXPECT_EQ(result.manifests[0].file, good);
  std::string text = ToText(result.diagnostics);
  EXPECT_THAT(text, testing::HasSubstr(missing + ": cannot be opened"));
  EXPECT_THAT(text, testing::HasSubstr(folder_ + ": cannot be read: is it a folder?"));
  EXPECT_THAT(text, testing::HasSubstr(bad + ":2:1: not readable as YAML"));
}

TEST_F(FilesTest, TooLargeOnesAreNotReadWhole) {
  std::string large = Write("large.yaml", StrCat(kGood, std::string(kMaxManifestBytes, '#')));
  EXPECT_THAT(ToText(ValidateFiles({large}).diagnostics), testing::HasSubstr("is longer than 1048576 bytes"));
}

TEST_F(FilesTest, LoadOneWantsExactlyOne) {
  EXPECT_EQ(LoadOneManifest(Write("one.yaml", kGood))->processor.name, "a");
  EXPECT_THAT(std::string(LoadOneManifest(Write("none.yaml", "kind: Other\n")).status().message()),
              testing::HasSubstr("holds 0 StreamProcessors"));
  EXPECT_THAT(std::string(LoadOneManifest(Write("bad.yaml", StrCat(kGood, "junk: 1\n"))).status().message()),
              testing::HasSubstr("junk: unknown field"));
}

}  // namespace
}  // namespace millstream::spec
