// Rules no API server can check, within one processor; warnings and notes.

#include <algorithm>
#include <charconv>

#include "common/base/strings.h"
#include "common/spec/document.h"
#include "common/spec/duration.h"
#include "common/spec/topic_uses.h"

namespace millstream::spec {
namespace {

void CheckTopicCollisions(Document& document) {
  std::vector<TopicUse> uses = TopicUses(document);
  for (size_t i = 0; i < uses.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (uses[i].topic != uses[j].topic || !(uses[i].is_internal() || uses[j].is_internal())) continue;
      // Said where the other one is: the group alone makes the names of these.
      const bool by_group = uses[i].role == TopicUse::Role::kReserved || uses[i].role == TopicUse::Role::kLoop;
      const TopicUse& other = by_group ? uses[i] : uses[j];
      const TopicUse& place = by_group ? uses[j] : uses[i];
      document.findings.Error(
          Judge::kCode, place.at, place.path,
          StrCat("topic `", place.topic, "` is also ", other.Description(), ": choose another name"));
      break;
    }
  }
}

// Kafka refuses to create a topic whose name differs from another only in `.` and `_`: their metrics would collide.
void CheckKafkaCollisions(Document& document) {
  auto folded = [](std::string topic) {
    std::replace(topic.begin(), topic.end(), '.', '_');
    return topic;
  };
  std::vector<TopicUse> uses = TopicUses(document);
  for (size_t i = 0; i < uses.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (uses[i].topic == uses[j].topic || folded(uses[i].topic) != folded(uses[j].topic)) continue;
      if (!uses[i].is_created() && !uses[j].is_created()) continue;
      document.findings.Error(
          Judge::kCode, uses[i].at, uses[i].path,
          StrCat("topic `", uses[i].topic, "` differs from ", uses[j].Description(), ", `", uses[j].topic,
                 "`, only in `.` and `_`: Kafka refuses to create such topics, choose another name"));
      break;
    }
  }
}

// min.insync.replicas above the replication factor: no write would ever be acknowledged.
void CheckInSyncReplicas(Document& document, const Value* block, const std::string& path) {
  std::optional<int64_t> factor = IntIn(block, "replicationFactor");
  const Value* minimum = block == nullptr ? nullptr : block->Find("config", "min.insync.replicas");
  if (!factor || minimum == nullptr || !minimum->is_string()) return;
  int64_t count = 0;
  std::from_chars(minimum->text.data(), minimum->text.data() + minimum->text.size(), count);
  if (count <= *factor) return;
  document.findings.Error(
      Judge::kCode, minimum->at, Child(Child(path, "config"), "min.insync.replicas"),
      StrCat("must not be above replicationFactor ", *factor, ", or no write is ever acknowledged"));
}

void CheckAllInSyncReplicas(Document& document) {
  const Value* spec = document.spec();
  if (spec == nullptr) return;
  CheckInSyncReplicas(document, spec->Find("internalTopics"), Child(document.SpecPath(), "internalTopics"));
  std::span<const Value> outputs = ItemsIn(spec, "outputs");
  for (size_t i = 0; i < outputs.size(); ++i) {
    CheckInSyncReplicas(document, outputs[i].Find("create"),
                        Child(Child(Child(document.SpecPath(), "outputs"), i), "create"));
  }
}

void CheckEnvironment(Document& document) {
  const Value* spec = document.spec();
  std::span<const Value> env = ItemsIn(spec == nullptr ? nullptr : spec->Find("container"), "env");
  for (size_t i = 0; i < env.size(); ++i) {
    if (StringIn(&env[i], "name") != "MILLSTREAM_SOCKET") continue;
    document.findings.Error(Judge::kCode, env[i].Find("name")->at,
                            Child(Child(Child(Child(document.SpecPath(), "container"), "env"), i), "name"),
                            "MILLSTREAM_SOCKET is set by Millstream: leave it out");
  }
}

// A record is in size / advance windows, and every one is read and written for it.
void CheckWindowCount(Document& document) {
  constexpr int64_t kMostWindows = 1000;
  std::span<const Value> stores = ItemsIn(document.spec(), "stores");
  for (size_t i = 0; i < stores.size(); ++i) {
    const Value* window = stores[i].Find("window");
    const std::optional<std::string_view> size_text = StringIn(window, "size"),
                                          advance_text = StringIn(window, "advance");
    if (!size_text || !advance_text) continue;
    const std::optional<absl::Duration> size = ParseDuration(*size_text), advance = ParseDuration(*advance_text);
    if (!size || !advance || *advance <= absl::ZeroDuration() || *size <= *advance * kMostWindows) continue;
    document.findings.Error(Judge::kCode, window->Find("advance")->at,
                            Child(Child(Child(Child(document.SpecPath(), "stores"), i), "window"), "advance"),
                            StrCat("every record would be in ", *size / *advance, " windows; at most ", kMostWindows,
                                   ": make advance longer"));
  }
}

// What is in the program's database is committed there, before the log: nothing of a transaction may depend on the log
// alone.
void CheckExternalStore(Document& document) {
  const Value* spec = document.spec();
  const Value* external = spec == nullptr ? nullptr : spec->Find("externalStore");
  if (external == nullptr) return;
  const auto refuse = [&](std::string_view what, std::string_view why) {
    document.findings.Error(Judge::kCode, external->at, Child(document.SpecPath(), "externalStore"),
                            StrCat("an external store and ", what, " do not go together: ", why));
  };
  if (!ItemsIn(spec, "stores").empty())
    refuse("stores", "keep all of the state in the program's database, or all of it in stores");
  if (spec->Find("timers") != nullptr) refuse("timers", "they are kept in a store of the sidecar");
  if (StringIn(spec, "guarantee") == "AtMostOnce")
    refuse("AtMostOnce", "use ExactlyOnce, or AtLeastOnce where outputs may repeat");
  if (ItemsIn(spec, "inputs").empty()) refuse("a view", "it handles no records; leave it out");
}

// What a row's age is told by after a restore is the time of its changelog record.
void CheckTtlTimes(Document& document) {
  const std::span<const Value> stores = ItemsIn(document.spec(), "stores");
  for (size_t i = 0; i < stores.size(); ++i) {
    const Value* changelog = stores[i].Find("ttl") == nullptr ? nullptr : stores[i].Find("changelog");
    const Value* config = changelog == nullptr ? nullptr : changelog->Find("config");
    const std::optional<std::string_view> type = StringIn(config, "message.timestamp.type");
    if (!type || *type == "CreateTime") continue;
    const std::string path = Child(Child(Child(Child(document.SpecPath(), "stores"), i), "changelog"), "config");
    document.findings.Error(Judge::kCode, config->Find("message.timestamp.type")->at,
                            Child(path, "message.timestamp.type"),
                            "the changelog of a store with ttl keeps the records' times: CreateTime, or leave it out");
  }
}

void CheckPartitions(Document& document) {
  const Value* spec = document.spec();
  const Value* chosen = spec == nullptr ? nullptr : spec->Find("partitions");
  if (chosen == nullptr) return;
  const std::string path = Child(document.SpecPath(), "partitions");
  if (spec->Find("loop") != nullptr) {
    document.findings.Error(Judge::kCode, chosen->at, path,
                            "a record sent to the loop goes where its key says, which may be a partition that nobody "
                            "reads: choose partitions, or use the loop");
  }
  if (ItemsIn(spec, "inputs").empty() && ItemsIn(spec, "joins").empty()) {
    document.findings.Error(Judge::kCode, chosen->at, path,
                            "there is nothing to choose from: lookups are whole in every process; leave it out");
  }
}

// Only where nothing is wrong: beside errors, warnings and notes are noise.
void Warn(Document& document) {
  const Value* spec = document.spec();
  const std::string path = document.SpecPath();
  std::optional<int64_t> replicas = IntIn(spec, "replicas"), standbys = IntIn(spec, "standbyReplicas");
  if (replicas && standbys && *standbys > 0 && *standbys >= *replicas && spec->Find("autoscale") == nullptr) {
    document.findings.Warning(spec->Find("standbyReplicas")->at, Child(path, "standbyReplicas"),
                              StrCat("a copy of a task is never on its own pod: with ", *replicas, " replicas at most ",
                                     std::max<int64_t>(*replicas - 1, 0), " of ", *standbys, " standbys are placed"));
  }
  const Value* errors = spec->Find("errors");
  std::optional<std::string_view> dead_letter = StringIn(errors, "deadLetterTopic");
  bool is_default = dead_letter == StrCat(StringIn(spec, "group").value_or(""), "-dead-letter");
  if (dead_letter && !is_default && !SendsDeadLetters(document) && StringIn(spec, "latePolicy") != "DeadLetter") {
    document.findings.Warning(errors->Find("deadLetterTopic")->at, Child(Child(path, "errors"), "deadLetterTopic"),
                              "has no effect: nothing is sent there without onFailure or byClass: DeadLetter");
  }
  const Value* transaction = spec->Find("transaction");
  std::optional<std::string_view> timeout = StringIn(transaction, "timeout");
  if (timeout && ParseDuration(*timeout).value_or(absl::ZeroDuration()) > absl::Minutes(15)) {
    document.findings.Warning(
        transaction->Find("timeout")->at, Child(Child(path, "transaction"), "timeout"),
        "brokers refuse more than transaction.max.timeout.ms, which is 15m unless they are told otherwise");
  }
  const Value* kafka = spec->Find("kafka");
  const Value* sasl = kafka == nullptr ? nullptr : kafka->Find("sasl");
  std::optional<std::string_view> mechanism = StringIn(sasl, "mechanism");
  if ((mechanism == "PLAIN" || mechanism == "OAUTHBEARER") && kafka->Find("tls") == nullptr) {
    document.findings.Warning(sasl->Find("mechanism")->at, Child(Child(Child(path, "kafka"), "sasl"), "mechanism"),
                              StrCat(*mechanism, " without kafka.tls sends the ",
                                     mechanism == "PLAIN" ? "password" : "token", " in the clear: add tls: {}"));
  }
}

void Inform(Document& document) {
  if (document.spec()->Find("kafka") != nullptr) return;
  document.findings.Note(
      document.spec()->at, Child(document.SpecPath(), "kafka"),
      "absent: runs on the embedded log or with --kafka; in a cluster kafka.bootstrapServers is needed");
}

}  // namespace

void CheckCodeRules(Document& document) {
  CheckTopicCollisions(document);
  CheckKafkaCollisions(document);
  CheckAllInSyncReplicas(document);
  CheckEnvironment(document);
  CheckWindowCount(document);
  CheckExternalStore(document);
  CheckPartitions(document);
  CheckTtlTimes(document);
  if (document.findings.HasErrors()) return;
  Warn(document);
  Inform(document);
}

}  // namespace millstream::spec
