#ifndef MILLSTREAM_COMMON_SPEC_STREAM_PROCESSOR_H_
#define MILLSTREAM_COMMON_SPEC_STREAM_PROCESSOR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/base/ids.h"

// One StreamProcessor as the rest of the program sees it: typed, every default filled in, every name resolved. Plain
// values, made by ParseManifests (manifest.h) only from manifests that passed every check; tests may fill them in by
// hand. The field rules and their meaning are in crds/streamprocessors.yaml; comments here say only what resolving
// adds. Fields whose feature is not built yet are not here: a manifest that sets one is refused (not_supported_yet.cc).

namespace millstream::spec {

enum class Guarantee { kExactlyOnce, kAtLeastOnce, kAtMostOnce };
enum class Partitioner { kMurmur2, kCrc32, kFnv1a };
enum class StoreBackend { kDisk, kMemory };
enum class StoreType { kKeyValue, kWindow, kSession };
enum class LatePolicy { kDrop, kDeadLetter, kProcess };
enum class FailureAction { kStop, kSkip, kDeadLetter };
enum class MergeBy { kArrival, kTimestamp };
enum class DesiredState { kRunning, kPaused };
enum class DeletionPolicy { kRetain, kDelete };
enum class LogLevel { kDebug, kInfo, kWarn, kError };
enum class SaslMechanism { kPlain, kScramSha256, kScramSha512, kOauthBearer };

// The words of the manifest: "ExactlyOnce", "Murmur2", ...
std::string_view ToString(Guarantee value);
std::string_view ToString(Partitioner value);
std::string_view ToString(StoreBackend value);
std::string_view ToString(StoreType value);
std::string_view ToString(LatePolicy value);
std::string_view ToString(FailureAction value);
std::string_view ToString(MergeBy value);
std::string_view ToString(DesiredState value);
std::string_view ToString(DeletionPolicy value);
std::string_view ToString(LogLevel value);
std::string_view ToString(SaslMechanism value);

// Properties of a topic as Kafka names them, in a stable order.
using TopicConfig = std::map<std::string, std::string>;

// Where an input starts when the group has no committed offset for a partition.
struct StartFrom {
  enum class Type { kEarliest, kLatest, kTimestamp };
  Type type = Type::kEarliest;
  absl::Time time = absl::UnixEpoch();  // kTimestamp only: the first record at or after it
};

struct InputSpec {
  std::string name;  // what the program calls it; the topic unless the manifest says otherwise
  std::string topic;
  StartFrom start_from;
  Partitioner partitioner = Partitioner::kMurmur2;
  std::vector<std::string> prefetch;  // store names; resolved: every key-value store when the manifest does not say
  absl::Duration lateness = absl::ZeroDuration();
  absl::Duration idle_after = absl::Seconds(30);
  bool loop = false;  // what the program sends to the output named loop; always the last input
};

struct ChangelogSpec {
  bool enabled = true;  // false: the store is a cache, emptied whenever its task opens
  std::string topic;    // resolved: <group>-<store>-changelog
  TopicConfig config;   // on top of internalTopics.config and of what a changelog needs (InternalTopicsOf)
};

// Windows [n * advance, n * advance + size) of event time.
struct WindowSpec {
  absl::Duration size = absl::ZeroDuration();
  absl::Duration advance = absl::ZeroDuration();  // resolved: size
  absl::Duration grace = absl::ZeroDuration();
  absl::Duration retention = absl::ZeroDuration();  // from the start; resolved: size + grace
  bool final = false;                               // emit: Final
};

struct SessionSpec {
  absl::Duration gap = absl::ZeroDuration();
  absl::Duration grace = absl::ZeroDuration();
  absl::Duration retention = absl::ZeroDuration();  // from the end; resolved: gap + grace
  bool final = false;                               // emit: Final
};

struct StoreSpec {
  std::string name;
  StoreBackend backend = StoreBackend::kDisk;
  ChangelogSpec changelog;
  StoreType type = StoreType::kKeyValue;
  std::optional<absl::Duration> ttl = std::nullopt;   // kKeyValue only
  std::optional<WindowSpec> window = std::nullopt;    // with kWindow, and only then
  std::optional<SessionSpec> session = std::nullopt;  // with kSession, and only then
  // Its windows or sessions are given to the program once, when they close.
  bool final() const { return (window && window->final) || (session && session->final); }
  // Not of the manifest: where event time, timers, the ends of windows and the positions of visits are kept. Always the
  // last store.
  bool internal = false;
};

// A walk over all rows of a store of a task, started by the program.
struct VisitSpec {
  std::string name;
  size_t store = 0;  // index into stores; a KeyValue one
};

// The name of the internal store; no other may have it.
inline constexpr std::string_view kTimersName = "timers";

// What to make a topic with. An unset replication factor is the broker's default.
struct TopicCreation {
  int32_t partitions = 0;
  std::optional<int16_t> replication_factor;
  TopicConfig config;
};

struct OutputSpec {
  std::string name;  // the topic unless the manifest says otherwise
  std::string topic;
  std::optional<TopicCreation> create;  // unset: the topic must exist
  Partitioner partitioner = Partitioner::kMurmur2;
  bool loop = false;  // comes back as the input named loop; always the last output
};

// A compacted topic read as a table: a join (each task reads its own partition) or a lookup (whole everywhere).
struct TableSpec {
  std::string name;  // the topic unless the manifest says otherwise
  std::string topic;
};

struct InternalTopicsSpec {
  std::optional<int16_t> replication_factor;
  TopicConfig config;
  DeletionPolicy when_deleted = DeletionPolicy::kRetain;
};

struct TransactionSpec {
  absl::Duration min_duration = absl::Milliseconds(10);
  absl::Duration max_duration = absl::Milliseconds(100);
  int64_t max_bytes = int64_t{64} << 20;
  absl::Duration timeout = absl::Seconds(15);
  int32_t max_per_second = 2000;
};

struct BatchSpec {
  int32_t max_records = 500;
  int64_t max_bytes = int64_t{1} << 20;
  absl::Duration deadline = absl::Seconds(60);
};

struct ErrorsSpec {
  int32_t max_attempts = 3;
  absl::Duration backoff_initial = absl::Milliseconds(100);
  absl::Duration backoff_max = absl::Seconds(30);
  FailureAction on_failure = FailureAction::kStop;
  std::map<std::string, FailureAction, std::less<>> by_class;  // "Decode", "Handler", "Output": where it differs
  std::string dead_letter_topic;  // resolved: <group>-dead-letter; used only if DeadLetters()

  FailureAction ActionFor(std::string_view failure_class) const;
  // Some failed records go to the dead-letter topic.
  bool DeadLetters() const;
};

struct WorkersSpec {
  int32_t max = 8;
  absl::Duration connect_timeout = absl::Seconds(60);
};

struct SidecarSpec {
  LogLevel log_level = LogLevel::kInfo;
  WorkersSpec workers;
};

// The part of the worker's container that a local run honours. Variables with valueFrom, and envFrom, concern a
// cluster.
struct ContainerSpec {
  std::string image;                 // may be empty
  std::vector<std::string> command;  // may be empty: then `millstream run` needs `-- COMMAND`
  std::vector<std::string> args;
  std::string working_dir;  // may be empty
  std::vector<std::pair<std::string, std::string>> env;
};

// A key of a Secret or ConfigMap in the processor's namespace. Outside of a cluster it is the file
// <secrets folder>/<name>/<key>.
struct SecretRef {
  std::string name, key;
  friend bool operator==(const SecretRef&, const SecretRef&) = default;
};

struct KafkaTlsSpec {
  std::optional<SecretRef> ca;  // unset: the authorities of the system
  bool ca_is_config_map = false;
  std::optional<SecretRef> certificate, key;  // both or none
};

struct KafkaOauthSpec {
  std::string token_endpoint, client_id;
  SecretRef client_secret;
  std::string scope;  // may be empty
};

struct KafkaSaslSpec {
  SaslMechanism mechanism = SaslMechanism::kScramSha512;
  std::string username;  // empty: from `username_ref`
  std::optional<SecretRef> username_ref, password;
  std::optional<KafkaOauthSpec> oauth;  // with kOauthBearer, and only then
};

struct KafkaSpec {
  std::string bootstrap_servers;  // empty: the manifest has no kafka block and runs on the embedded log only
  std::map<std::string, std::string> config;  // extra librdkafka properties; none is protected (protected_config.h)
  std::optional<KafkaTlsSpec> tls;            // unset: no encryption
  std::optional<KafkaSaslSpec> sasl;
};

struct MembershipSpec {
  absl::Duration session_timeout = absl::Seconds(45);
  absl::Duration heartbeat_interval = absl::Milliseconds(500);
  absl::Duration rebalance_timeout = absl::Seconds(60);
};

// The name of the loop's input and output; no other may have it.
inline constexpr std::string_view kLoopName = "loop";

struct StreamProcessorSpec {
  std::string name_space = "default";  // metadata.namespace
  std::string name;                    // metadata.name
  std::string group;                   // resolved: <namespace>.<name>
  Guarantee guarantee = Guarantee::kExactlyOnce;
  KafkaSpec kafka;
  // In the manifest's order, which is the order of ids in WELCOME; the loop, if there is one, is the last input and the
  // last output. No inputs: a view.
  std::vector<InputSpec> inputs;
  std::vector<TableSpec> joins, lookups;  // the same
  // The same; behind those of the manifest the internal one, if anything depends on event time.
  std::vector<StoreSpec> stores;
  std::vector<OutputSpec> outputs;         // the same
  std::vector<int32_t> manual_partitions;  // partitions.manual, ascending: the only ones it reads; empty: all
  InternalTopicsSpec internal_topics;
  TransactionSpec transaction;
  BatchSpec batch;
  ErrorsSpec errors;
  absl::Duration max_ahead = absl::Hours(1);  // timestamps.maxAhead
  LatePolicy late_policy = LatePolicy::kDrop;
  bool timers = false;            // the program may set timers
  std::vector<VisitSpec> visits;  // in the manifest's order, which is that of their ids
  // The state is in a database of the program's: no stores, no timers, and not AtMostOnce.
  bool external_store = false;
  MergeBy merge_by = MergeBy::kArrival;
  DesiredState desired_state = DesiredState::kRunning;
  int32_t replicas = 1;
  int32_t standby_replicas = 0;
  MembershipSpec membership;
  SidecarSpec sidecar;
  ContainerSpec container;

  // "<namespace>/<name>", as messages name a processor.
  std::string QualifiedName() const { return name_space + "/" + name; }
  // The stamp in the metadata of every committed offset, by which a group knows its owner:
  // "<cluster>/<namespace>/<name>". The cluster is a chart value; everywhere outside Kubernetes it is "local".
  std::string OwnerStamp(std::string_view cluster_name = "local") const;
  // Of the manifest: those with an id in WELCOME. The internal store is behind them.
  size_t ManifestStores() const { return stores.size() - (KeepsEventTime() ? 1 : 0); }
  // Whether there is an internal store.
  bool KeepsEventTime() const { return !stores.empty() && stores.back().internal; }
  bool HasWindows() const;
  // The tasks it has, ascending, where its inputs have so many partitions: those chosen by hand, or all. A choice
  // beyond the partitions is in it too (PrepareTopics refuses it).
  std::vector<TaskId> TasksOf(int partitions) const;
  // nullptr when there is none of that name. The pointer lives as long as this object and is not modified.
  const InputSpec* FindInput(std::string_view input_name) const;
  const StoreSpec* FindStore(std::string_view store_name) const;
  const OutputSpec* FindOutput(std::string_view output_name) const;
  // It serves joins and lookups, and has no worker.
  bool is_view() const { return inputs.empty(); }
  // Everything that can be read by key, in the order of the engine: stores (the internal one too), then joins, then
  // lookups. In WELCOME, and in the frames behind it, the internal store has no id and those behind it move up.
  size_t readables() const { return stores.size() + joins.size() + lookups.size(); }
  size_t first_lookup() const { return stores.size() + joins.size(); }
  size_t ids() const { return ManifestStores() + joins.size() + lookups.size(); }
  size_t ReadableOf(size_t id) const { return id < ManifestStores() ? id : id + stores.size() - ManifestStores(); }
  // Precondition: readable < readables().
  const std::string& ReadableName(size_t readable) const;
};

// A topic that belongs to a processor: made, checked and (internalTopics.whenDeleted) deleted with it.
struct InternalTopic {
  enum class Kind { kLoop, kChangelog, kDeadLetter };
  Kind kind = Kind::kChangelog;
  std::string topic;
  std::string store;  // kChangelog only
  // What the kind needs (a changelog: cleanup.policy=compact, the loop: delete; no bound on timestamps is up to the
  // backend), then internalTopics.config, then the store's changelog.config; later ones win.
  TopicConfig config;
  std::optional<int16_t> replication_factor;
};

// The loop's topic, changelogs of the stores that have one, in their order, then the dead-letter topic if `on_failure`,
// `by_class` or `late_policy` says DeadLetter. All have as many partitions as the inputs.
std::vector<InternalTopic> InternalTopicsOf(const StreamProcessorSpec& processor);

}  // namespace millstream::spec

#endif  // MILLSTREAM_COMMON_SPEC_STREAM_PROCESSOR_H_
