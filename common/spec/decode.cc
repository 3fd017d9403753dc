#include "common/spec/decode.h"

#include <algorithm>
#include <initializer_list>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/spec/duration.h"
#include "common/spec/quantity.h"

namespace millstream::spec {
namespace {

// The document passed the schema: what is there has the right kind, and what has a default is there.
std::string Text(const Value& map, std::string_view key) { return std::string(StringIn(&map, key).value_or("")); }

int32_t Int(const Value& map, std::string_view key) { return static_cast<int32_t>(IntIn(&map, key).value_or(0)); }

const Value& Block(const Value& map, std::string_view key) {
  const Value* block = map.Find(key);
  MS_CHECK(block != nullptr);
  return *block;
}

absl::Duration DurationIn(const Value& map, std::string_view key) {
  std::optional<absl::Duration> duration = ParseDuration(Text(map, key));
  MS_CHECK(duration.has_value());
  return *duration;
}

int64_t QuantityIn(const Value& map, std::string_view key) {
  const Value& value = Block(map, key);
  std::optional<int64_t> bytes = value.is_string() ? ParseQuantity(value.text) : value.integer;
  MS_CHECK(bytes.has_value());
  return *bytes;
}

template <typename Enum>
Enum EnumIn(const Value& map, std::string_view key, std::initializer_list<Enum> values) {
  std::string text = Text(map, key);
  for (Enum value : values) {
    if (ToString(value) == text) return value;
  }
  MS_CHECK(false && "the schema and the enum differ");
  return *values.begin();
}

std::vector<std::string> TextsIn(const Value& map, std::string_view key) {
  std::vector<std::string> out;
  for (const Value& item : ItemsIn(&map, key)) out.push_back(item.text);
  return out;
}

std::map<std::string, std::string> PairsIn(const Value* map, std::string_view key) {
  std::map<std::string, std::string> out;
  for (const Member& member : MembersIn(map, key)) out[member.key] = member.value.text;
  return out;
}

std::optional<int16_t> ReplicationIn(const Value& map) {
  std::optional<int64_t> factor = IntIn(&map, "replicationFactor");
  if (!factor) return std::nullopt;
  return static_cast<int16_t>(*factor);
}

Partitioner PartitionerIn(const Value& map) {
  return EnumIn(map, "partitioner", {Partitioner::kMurmur2, Partitioner::kCrc32, Partitioner::kFnv1a});
}

StartFrom DecodeStartFrom(const Value& value) {
  StartFrom start;
  std::string type = Text(value, "type");
  if (type == "Latest") start.type = StartFrom::Type::kLatest;
  if (type == "Timestamp") {
    start.type = StartFrom::Type::kTimestamp;
    std::string error;
    MS_CHECK(absl::ParseTime(absl::RFC3339_full, Text(value, "time"), &start.time, &error));
  }
  return start;
}

InputSpec DecodeInput(const Value& value) {
  InputSpec input;
  input.name = Text(value, "name");
  input.topic = Text(value, "topic");
  input.start_from = DecodeStartFrom(Block(value, "startFrom"));
  input.partitioner = PartitionerIn(value);
  input.prefetch = TextsIn(value, "prefetch");
  input.lateness = DurationIn(value, "lateness");
  input.idle_after = DurationIn(value, "idleAfter");
  return input;
}

// As written, else `otherwise`.
absl::Duration DurationOr(const Value& map, std::string_view key, absl::Duration otherwise) {
  return map.Find(key) == nullptr ? otherwise : DurationIn(map, key);
}

WindowSpec DecodeWindow(const Value& value) {
  WindowSpec window;
  window.size = DurationIn(value, "size");
  window.advance = DurationOr(value, "advance", window.size);
  window.grace = DurationIn(value, "grace");
  window.retention = DurationOr(value, "retention", window.size + window.grace);
  window.final = Text(value, "emit") == "Final";
  return window;
}

SessionSpec DecodeSession(const Value& value) {
  SessionSpec session;
  session.gap = DurationIn(value, "gap");
  session.grace = DurationIn(value, "grace");
  session.retention = DurationOr(value, "retention", session.gap + session.grace);
  session.final = Text(value, "emit") == "Final";
  return session;
}
TableSpec DecodeTable(const Value& value) { return {Text(value, "name"), Text(value, "topic")}; }

StoreSpec DecodeStore(const Value& value) {
  StoreSpec store;
  store.name = Text(value, "name");
  store.backend = EnumIn(value, "backend", {StoreBackend::kDisk, StoreBackend::kMemory});
  const Value& changelog = Block(value, "changelog");
  store.changelog.enabled = BoolIn(&changelog, "enabled").value_or(true);
  store.changelog.topic = Text(changelog, "topic");
  store.changelog.config = PairsIn(&changelog, "config");
  store.type = EnumIn(value, "type", {StoreType::kKeyValue, StoreType::kWindow, StoreType::kSession});
  if (value.Find("ttl") != nullptr) store.ttl = DurationIn(value, "ttl");
  if (const Value* window = value.Find("window")) store.window = DecodeWindow(*window);
  if (const Value* session = value.Find("session")) store.session = DecodeSession(*session);
  return store;
}

// Precondition: the stores are decoded; the rules have found the one it names.
VisitSpec DecodeVisit(const Value& value, const StreamProcessorSpec& processor) {
  const StoreSpec* store = processor.FindStore(Text(value, "store"));
  return {Text(value, "name"), static_cast<size_t>(store - processor.stores.data())};
}

// What is not a store of the manifest comes behind them all: their ids stay what WELCOME says.
void AddInternalStore(StreamProcessorSpec& processor) {
  bool needed = processor.timers || !processor.visits.empty();
  for (const StoreSpec& store : processor.stores) needed = needed || store.ttl || store.type != StoreType::kKeyValue;
  if (!needed) return;
  StoreSpec store;
  store.name = kTimersName;
  store.changelog.topic = StrCat(processor.group, "-timers-changelog");
  store.internal = true;
  processor.stores.push_back(std::move(store));
}

OutputSpec DecodeOutput(const Value& value) {
  OutputSpec output;
  output.name = Text(value, "name");
  output.topic = Text(value, "topic");
  output.partitioner = PartitionerIn(value);
  if (const Value* create = value.Find("create")) {
    output.create = TopicCreation{Int(*create, "partitions"), ReplicationIn(*create), PairsIn(create, "config")};
  }
  return output;
}

// The loop is one more input and output. Its keys are spread as those of the first input are, so that all records of a
// key meet in one task.
void AddLoop(StreamProcessorSpec& processor) {
  InputSpec input;
  input.name = kLoopName;
  input.topic = StrCat(processor.group, "-loop");
  input.loop = true;
  if (!processor.inputs.empty()) input.partitioner = processor.inputs.front().partitioner;
  for (const StoreSpec& store : processor.stores) input.prefetch.push_back(store.name);
  OutputSpec output;
  output.name = kLoopName;
  output.topic = input.topic;
  output.partitioner = input.partitioner;
  output.loop = true;
  processor.inputs.push_back(std::move(input));
  processor.outputs.push_back(std::move(output));
}

std::optional<SecretRef> SecretRefIn(const Value& map, std::string_view key) {
  const Value* value = map.Find(key);
  if (value == nullptr) return std::nullopt;
  return SecretRef{Text(*value, "name"), Text(*value, "key")};
}

KafkaTlsSpec DecodeTls(const Value& value) {
  KafkaTlsSpec tls;
  tls.ca = SecretRefIn(value, "caSecretRef");
  if (std::optional<SecretRef> config_map = SecretRefIn(value, "caConfigMapRef")) {
    tls.ca = config_map;
    tls.ca_is_config_map = true;
  }
  tls.certificate = SecretRefIn(value, "certSecretRef");
  tls.key = SecretRefIn(value, "keySecretRef");
  return tls;
}

KafkaSaslSpec DecodeSasl(const Value& value) {
  KafkaSaslSpec sasl;
  sasl.mechanism = EnumIn(
      value, "mechanism",
      {SaslMechanism::kPlain, SaslMechanism::kScramSha256, SaslMechanism::kScramSha512, SaslMechanism::kOauthBearer});
  sasl.username = Text(value, "username");
  sasl.username_ref = SecretRefIn(value, "usernameSecretRef");
  sasl.password = SecretRefIn(value, "passwordSecretRef");
  if (const Value* oauth = value.Find("oauth")) {
    sasl.oauth = KafkaOauthSpec{Text(*oauth, "tokenEndpoint"), Text(*oauth, "clientId"),
                                *SecretRefIn(*oauth, "clientSecretRef"), Text(*oauth, "scope")};
  }
  return sasl;
}

KafkaSpec DecodeKafka(const Value& value) {
  KafkaSpec kafka;
  kafka.bootstrap_servers = Text(value, "bootstrapServers");
  kafka.config = PairsIn(&value, "config");
  if (const Value* tls = value.Find("tls")) kafka.tls = DecodeTls(*tls);
  if (const Value* sasl = value.Find("sasl")) kafka.sasl = DecodeSasl(*sasl);
  return kafka;
}

void DecodePace(const Value& spec, StreamProcessorSpec& processor) {
  const Value& transaction = Block(spec, "transaction");
  processor.transaction.min_duration = DurationIn(transaction, "minDuration");
  processor.transaction.max_duration = DurationIn(transaction, "maxDuration");
  processor.transaction.max_bytes = QuantityIn(transaction, "maxBytes");
  processor.transaction.timeout = DurationIn(transaction, "timeout");
  processor.transaction.max_per_second = Int(transaction, "maxPerSecond");
  const Value& batch = Block(spec, "batch");
  processor.batch.max_records = Int(batch, "maxRecords");
  processor.batch.max_bytes = QuantityIn(batch, "maxBytes");
  processor.batch.deadline = DurationIn(batch, "deadline");
  const Value& membership = Block(spec, "membership");
  processor.membership.session_timeout = DurationIn(membership, "sessionTimeout");
  processor.membership.heartbeat_interval = DurationIn(membership, "heartbeatInterval");
  processor.membership.rebalance_timeout = DurationIn(membership, "rebalanceTimeout");
}

void DecodeErrors(const Value& spec, ErrorsSpec& errors) {
  const Value& value = Block(spec, "errors");
  errors.max_attempts = Int(value, "maxAttempts");
  errors.backoff_initial = DurationIn(Block(value, "backoff"), "initial");
  errors.backoff_max = DurationIn(Block(value, "backoff"), "max");
  errors.on_failure =
      EnumIn(value, "onFailure", {FailureAction::kStop, FailureAction::kSkip, FailureAction::kDeadLetter});
  for (const Member& member : MembersIn(&value, "byClass")) {
    errors.by_class[member.key] = EnumIn(*value.Find("byClass"), member.key,
                                         {FailureAction::kStop, FailureAction::kSkip, FailureAction::kDeadLetter});
  }
  errors.dead_letter_topic = Text(value, "deadLetterTopic");
}

void DecodeContainers(const Value& spec, StreamProcessorSpec& processor) {
  const Value& sidecar = Block(spec, "sidecar");
  processor.sidecar.log_level =
      EnumIn(sidecar, "logLevel", {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarn, LogLevel::kError});
  processor.sidecar.workers.max = Int(Block(sidecar, "workers"), "max");
  processor.sidecar.workers.connect_timeout = DurationIn(Block(sidecar, "workers"), "connectTimeout");
  const Value* container = spec.Find("container");
  if (container == nullptr) return;
  processor.container.image = Text(*container, "image");
  processor.container.command = TextsIn(*container, "command");
  processor.container.args = TextsIn(*container, "args");
  processor.container.working_dir = Text(*container, "workingDir");
  for (const Value& variable : ItemsIn(container, "env")) {
    if (variable.Find("valueFrom") != nullptr) continue;
    processor.container.env.emplace_back(Text(variable, "name"), Text(variable, "value"));
  }
}

}  // namespace

StreamProcessorSpec DecodeProcessor(const Document& document) {
  StreamProcessorSpec processor;
  const Value& spec = Block(document.root, "spec");
  processor.name_space = Text(Block(document.root, "metadata"), "namespace");
  processor.name = Text(Block(document.root, "metadata"), "name");
  processor.group = Text(spec, "group");
  processor.guarantee =
      EnumIn(spec, "guarantee", {Guarantee::kExactlyOnce, Guarantee::kAtLeastOnce, Guarantee::kAtMostOnce});
  if (const Value* kafka = spec.Find("kafka")) processor.kafka = DecodeKafka(*kafka);
  for (const Value& input : ItemsIn(&spec, "inputs")) processor.inputs.push_back(DecodeInput(input));
  for (const Value& table : ItemsIn(&spec, "joins")) processor.joins.push_back(DecodeTable(table));
  for (const Value& table : ItemsIn(&spec, "lookups")) processor.lookups.push_back(DecodeTable(table));
  for (const Value& store : ItemsIn(&spec, "stores")) processor.stores.push_back(DecodeStore(store));
  for (const Value& output : ItemsIn(&spec, "outputs")) processor.outputs.push_back(DecodeOutput(output));
  for (const Value& partition : ItemsIn(spec.Find("partitions"), "manual"))
    processor.manual_partitions.push_back(static_cast<int32_t>(partition.integer));
  std::sort(processor.manual_partitions.begin(), processor.manual_partitions.end());
  if (spec.Find("loop") != nullptr) AddLoop(processor);
  const Value& internal = Block(spec, "internalTopics");
  processor.internal_topics = {ReplicationIn(internal), PairsIn(&internal, "config"),
                               EnumIn(internal, "whenDeleted", {DeletionPolicy::kRetain, DeletionPolicy::kDelete})};
  DecodePace(spec, processor);
  DecodeErrors(spec, processor.errors);
  processor.max_ahead = DurationIn(Block(spec, "timestamps"), "maxAhead");
  processor.late_policy =
      EnumIn(spec, "latePolicy", {LatePolicy::kDrop, LatePolicy::kDeadLetter, LatePolicy::kProcess});
  processor.timers = spec.Find("timers") != nullptr;
  for (const Value& visit : ItemsIn(&spec, "visits")) processor.visits.push_back(DecodeVisit(visit, processor));
  processor.external_store = spec.Find("externalStore") != nullptr;
  processor.merge_by = EnumIn(spec, "mergeBy", {MergeBy::kArrival, MergeBy::kTimestamp});
  processor.desired_state = EnumIn(spec, "desiredState", {DesiredState::kRunning, DesiredState::kPaused});
  processor.replicas = Int(spec, "replicas");
  processor.standby_replicas = Int(spec, "standbyReplicas");
  DecodeContainers(spec, processor);
  AddInternalStore(processor);
  return processor;
}

std::string CanonicalJsonOf(const Document& document) {
  Value canonical = MapValue();
  canonical.Add("apiVersion", StringValue("millstream.dev/v1alpha1"));
  canonical.Add("kind", StringValue("StreamProcessor"));
  Value& metadata = canonical.Add("metadata", MapValue());
  for (std::string_view field : {"name", "namespace"})
    metadata.Add(field, StringValue(Text(*document.metadata(), field)));
  canonical.Add("spec", *document.spec());
  return ToCanonicalJson(canonical);
}

}  // namespace millstream::spec
