#include "sidecar/host/topics.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::host {
namespace {

constexpr int kDefaultPartitions = 4;
// What the log adds to a record's key, value and headers.
constexpr int64_t kRecordOverhead = 512;
// What a dead letter has beside the record it is about: headers with the error and its traceback.
constexpr int64_t kDeadLetterOverhead = 64 << 10;
// How long a topic that is there may be unknown to the broker that is asked.
constexpr absl::Duration kTopicAppears = absl::Seconds(10);
constexpr const char kNoBound[] = "9223372036854775807";
constexpr const char kMaxMessageBytes[] = "max.message.bytes";
constexpr const char kTimestampAhead[] = "message.timestamp.after.max.ms";
constexpr const char kTimestampBehind[] = "message.timestamp.before.max.ms";
constexpr const char kTimestampDifference[] = "message.timestamp.difference.max.ms";

const spec::TopicConfig& Compacted() {
  static const spec::TopicConfig* const config = new spec::TopicConfig{{"cleanup.policy", "compact"}};
  return *config;
}

int64_t NumberOf(const log::TopicInfo& topic, const char* name, int64_t otherwise) {
  const auto found = topic.config.find(name);
  int64_t number = 0;
  return found != topic.config.end() && absl::SimpleAtoi(found->second, &number) ? number : otherwise;
}

int64_t MaxRecordBytes(const log::TopicInfo& topic) {
  const int64_t bytes = NumberOf(topic, kMaxMessageBytes, 0);
  return bytes > kRecordOverhead ? bytes - kRecordOverhead : engine::kDefaultRecordBytes;
}

// What brokers check the times of its records against. Kafka 3.6 split the bound in two; while both are there, the old
// one counts where the new one is as it comes (no bound).
engine::TimestampBounds TimestampsOf(const log::TopicInfo& topic) {
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  const auto type = topic.config.find("message.timestamp.type");
  if (type != topic.config.end() && type->second == "LogAppendTime") return {};  // the brokers' own time
  const auto bound = [&](const char* name) -> std::optional<int64_t> {
    const int64_t here = NumberOf(topic, name, kNone);
    const int64_t ms = here != kNone ? here : NumberOf(topic, kTimestampDifference, kNone);
    return ms == kNone ? std::nullopt : std::optional(ms);
  };
  return {.ahead_ms = bound(kTimestampAhead), .behind_ms = bound(kTimestampBehind)};
}

// A list of policies, compared without order and spaces.
std::set<std::string> Policies(const std::string& value) {
  std::set<std::string> policies;
  for (const absl::string_view policy : absl::StrSplit(value, ',')) {
    policies.emplace(absl::StripAsciiWhitespace(policy));
  }
  return policies;
}

bool SameSetting(const std::string& name, const std::string& left, const std::string& right) {
  return left == right || (name == "cleanup.policy" && Policies(left) == Policies(right));
}

std::string Partitions(int count) { return StrCat(count, count == 1 ? " partition" : " partitions"); }

std::string SettingOf(const log::TopicInfo& topic, const std::string& name) {
  const auto found = topic.config.find(name);
  return found == topic.config.end() ? "not set" : found->second;
}

// The topics of one processor.
class Preparation {
 public:
  Preparation(const TopicOwner& owner, const TopicPreparation& options, PreparationReport* report)
      : admin_(owner.admin), processor_(*owner.spec), options_(options), report_(report) {}

  // Outputs with `create`: first, because they may be the inputs of another processor.
  absl::Status MakeOutputs() {
    for (const spec::OutputSpec& output : processor_.outputs) {
      if (!output.create.has_value()) continue;
      MS_ASSIGN_OR_RETURN(const log::TopicInfo topic,
                          Ensure(output.topic, output.create->partitions, output.create->config,
                                 output.create->replication_factor.value_or(-1)));
      if (topic.partitions != output.create->partitions) {
        return absl::FailedPreconditionError(StrCat(processor_.QualifiedName(), ": output ", output.name, ": topic ",
                                                    output.topic, " has ", Partitions(topic.partitions),
                                                    ", its create block says ", output.create->partitions,
                                                    "; change the manifest, or delete the topic"));
      }
      WarnOfSettings(topic, output.create->config);
    }
    return absl::OkStatus();
  }

  // Inputs and joins, which share one partition count, then lookups.
  absl::Status MakeInputs() {
    std::optional<std::pair<std::string, int>> first;  // of those that are there: the others follow them
    std::vector<CoPartitioned> missing;
    for (const CoPartitioned& wanted : CoPartitionedTopics()) {
      MS_ASSIGN_OR_RETURN(const std::optional<log::TopicInfo> topic, Find(wanted.topic));
      if (!topic.has_value()) {
        missing.push_back(wanted);
        continue;
      }
      if (first.has_value() && first->second != topic->partitions) {
        return absl::FailedPreconditionError(StrCat(
            processor_.QualifiedName(), ": inputs and joins of one processor need the same number of partitions, but ",
            first->first, " has ", first->second, " and ", wanted.topic, " has ", topic->partitions,
            wanted.join ? "; each task would join with other keys. Make it a lookup, or copy it into a topic of "
                          "that many partitions"
                        : "; records of one key would meet in different tasks"));
      }
      if (!first.has_value()) first = {wanted.topic, topic->partitions};
      if (wanted.join) WarnUnlessCompacted("join", *topic);
    }
    if (!missing.empty() && !options_.create_inputs) {
      return absl::NotFoundError(StrCat(processor_.QualifiedName(), ": ", missing.front().join ? "join" : "input",
                                        " topic ", missing.front().topic,
                                        " does not exist; make it, or let this run make it with --partitions N"));
    }
    const int wanted = first.has_value() ? first->second : NewInputPartitions();
    for (const CoPartitioned& each : missing)
      MS_RETURN_IF_ERROR(Ensure(each.topic, wanted, each.join ? Compacted() : spec::TopicConfig(), -1).status());
    return MakeLookups();
  }

  absl::StatusOr<PreparedTopics> MakeTheRest() {
    PreparedTopics prepared;
    MS_ASSIGN_OR_RETURN(const log::TopicInfo first, Describe(FirstTopic()));
    prepared.tasks = TasksOf(first);
    MS_ASSIGN_OR_RETURN(const std::vector<spec::InternalTopic> internals, Internals(first));
    for (const spec::InternalTopic& internal : internals) {
      // Where the example's settings may not be seen, the log finds out for itself how its bound is called.
      const bool any_timestamp =
          !internal.config.contains(kTimestampAhead) && !internal.config.contains(kTimestampDifference);
      MS_RETURN_IF_ERROR(Ensure(internal.topic, prepared.tasks, internal.config,
                                internal.replication_factor.value_or(-1), any_timestamp)
                             .status());
    }
    MS_RETURN_IF_ERROR(Look(&prepared));
    return prepared;
  }

  // Fills in what needs only a look; checks internal topics and the choice of partitions against `prepared->tasks`.
  absl::Status Look(PreparedTopics* prepared) {
    if (!processor_.manual_partitions.empty() && processor_.manual_partitions.back() >= prepared->tasks) {
      return absl::FailedPreconditionError(StrCat(processor_.QualifiedName(), ": partitions.manual names partition ",
                                                  processor_.manual_partitions.back(), ", but ",
                                                  FirstTopic(), " has the partitions 0 to ",
                                                  prepared->tasks - 1, "; choose among those"));
    }
    log::TopicInfo first;
    for (const spec::InputSpec& input : processor_.inputs) {
      if (input.loop) continue;
      MS_ASSIGN_OR_RETURN(const log::TopicInfo topic, Describe(input.topic));
      if (first.name.empty()) first = topic;
      Know(KnownTopic::Role::kInput, topic, prepared);
    }
    MS_RETURN_IF_ERROR(LookAtTables(&first, prepared));
    MS_ASSIGN_OR_RETURN(const std::vector<spec::InternalTopic> internals, Internals(first));
    for (const spec::InternalTopic& internal : internals) {
      MS_ASSIGN_OR_RETURN(const log::TopicInfo topic, Describe(internal.topic));
      MS_RETURN_IF_ERROR(CheckInternal(internal, topic, prepared->tasks));
      Know(RoleOf(internal.kind), topic, prepared);
      if (internal.kind == spec::InternalTopic::Kind::kDeadLetter) prepared->dead_letter_partitions = topic.partitions;
    }
    for (const spec::StoreSpec& store : processor_.stores) {
      prepared->changelog_ids.emplace_back();
      prepared->store_max_bytes.push_back(engine::kDefaultRecordBytes);
      if (!store.changelog.enabled) continue;
      MS_ASSIGN_OR_RETURN(const log::TopicInfo topic, Describe(store.changelog.topic));
      prepared->changelog_ids.back() = topic.id;
      prepared->store_max_bytes.back() = MaxRecordBytes(topic);
    }
    for (const spec::OutputSpec& output : processor_.outputs) {
      MS_ASSIGN_OR_RETURN(const std::optional<log::TopicInfo> topic, Find(output.topic));
      if (!topic.has_value()) {
        return absl::NotFoundError(StrCat(
            processor_.QualifiedName(), ": output topic ", output.topic,
            " does not exist; give the output a create block, or make it: millstream topics create ", output.topic));
      }
      prepared->output_partitions.push_back(topic->partitions);
      prepared->output_max_bytes.push_back(MaxRecordBytes(*topic));
      prepared->output_timestamps.push_back(TimestampsOf(*topic));
      if (output.loop) continue;
      Know(KnownTopic::Role::kOutput, *topic, prepared);
    }
    return absl::OkStatus();
  }

  // A topic of the processor that shows how many tasks there are, and which settings the log knows.
  const std::string& FirstTopic() const {
    if (!processor_.inputs.empty()) return processor_.inputs.front().topic;
    return processor_.joins.empty() ? processor_.lookups.front().topic : processor_.joins.front().topic;
  }
  // With lookups alone there is nothing to share out.
  int TasksOf(const log::TopicInfo& first) const {
    return processor_.inputs.empty() && processor_.joins.empty() ? 0 : first.partitions;
  }

 private:
  struct CoPartitioned {
    std::string topic;
    bool join = false;
  };
  // Without the loop, which is an internal topic.
  std::vector<CoPartitioned> CoPartitionedTopics() const {
    std::vector<CoPartitioned> topics;
    for (const spec::InputSpec& input : processor_.inputs) {
      if (!input.loop) topics.push_back({input.topic, false});
    }
    for (const spec::TableSpec& join : processor_.joins) topics.push_back({join.topic, true});
    return topics;
  }

  absl::Status MakeLookups() {
    for (const spec::TableSpec& lookup : processor_.lookups) {
      MS_ASSIGN_OR_RETURN(const std::optional<log::TopicInfo> topic, Find(lookup.topic));
      if (topic.has_value()) {
        WarnUnlessCompacted("lookup", *topic);
        continue;
      }
      if (!options_.create_inputs) {
        return absl::NotFoundError(
            StrCat(processor_.QualifiedName(), ": lookup topic ", lookup.topic, " does not exist; make it"));
      }
      MS_RETURN_IF_ERROR(Ensure(lookup.topic, 1, Compacted(), -1).status());
    }
    return absl::OkStatus();
  }

  // What retention deletes is gone from the table when it is read the next time, and only then.
  void WarnUnlessCompacted(std::string_view what, const log::TopicInfo& topic) {
    const auto policy = topic.config.find("cleanup.policy");
    if (policy == topic.config.end() || Policies(policy->second) == Policies("compact")) return;
    report_->warnings.push_back(
        StrCat(processor_.QualifiedName(), ": ", what, " topic ", topic.name, " has cleanup.policy ", policy->second,
               ": what retention deletes vanishes from the table when it is read anew; a table is compact"));
  }

  // Fills in what is known of joins and lookups. `first`: as in Look.
  absl::Status LookAtTables(log::TopicInfo* first, PreparedTopics* prepared) {
    for (const spec::TableSpec& join : processor_.joins) {
      MS_ASSIGN_OR_RETURN(const log::TopicInfo topic, Describe(join.topic));
      if (first->name.empty()) *first = topic;
      prepared->join_ids.push_back(topic.id);
      Know(KnownTopic::Role::kJoin, topic, prepared);
    }
    for (const spec::TableSpec& lookup : processor_.lookups) {
      MS_ASSIGN_OR_RETURN(const log::TopicInfo topic, Describe(lookup.topic));
      if (first->name.empty()) *first = topic;
      prepared->lookup_ids.push_back(topic.id);
      prepared->lookup_partitions.push_back(topic.partitions);
      Know(KnownTopic::Role::kLookup, topic, prepared);
    }
    return absl::OkStatus();
  }

  int NewInputPartitions() const {
    if (options_.partitions.has_value()) return *options_.partitions;
    for (const spec::OutputSpec& output : processor_.outputs) {
      if (output.create.has_value()) return output.create->partitions;
    }
    return kDefaultPartitions;
  }

  // The spec's, with what the backend needs on top. `example` is a topic of the same log: it shows which settings exist
  // there.
  absl::StatusOr<std::vector<spec::InternalTopic>> Internals(const log::TopicInfo& example) {
    std::vector<spec::InternalTopic> internals = spec::InternalTopicsOf(processor_);
    for (spec::InternalTopic& internal : internals) {
      // Timestamps of records are the inputs': a broker that refuses one would refuse the transaction for ever. Kafka
      // 3.6 split the bound in two, 4.0 dropped the old one.
      for (const char* const bound : {kTimestampAhead, kTimestampBehind}) {
        if (example.config.contains(bound)) internal.config.emplace(bound, kNoBound);
      }
      if (!example.config.contains(kTimestampAhead) && example.config.contains(kTimestampDifference))
        internal.config.emplace(kTimestampDifference, kNoBound);
      // A changelog's timestamps are the records', whatever the brokers' default.
      if (internal.kind == spec::InternalTopic::Kind::kChangelog && !example.config.empty())
        internal.config.emplace("message.timestamp.type", "CreateTime");
      // What comes in may go through the loop or end as a dead letter.
      if (internal.kind == spec::InternalTopic::Kind::kChangelog) continue;
      int64_t largest = 0;
      for (const spec::InputSpec& input : processor_.inputs) {
        if (input.loop) continue;
        MS_ASSIGN_OR_RETURN(const log::TopicInfo topic, Describe(input.topic));
        largest = std::max(largest, NumberOf(topic, kMaxMessageBytes, 0));
      }
      if (largest > 0 && internal.kind == spec::InternalTopic::Kind::kDeadLetter) largest += kDeadLetterOverhead;
      if (largest > 0) internal.config.emplace(kMaxMessageBytes, StrCat(largest));
    }
    return internals;
  }

  // A topic that was just made is not known to every broker at once: one that is there for sure is waited for.
  absl::StatusOr<log::TopicInfo> Describe(const std::string& topic) {
    const absl::Duration deadline = SystemClock().Monotonic() + kTopicAppears;
    while (true) {
      absl::StatusOr<log::TopicInfo> info = admin_->DescribeTopic(topic);
      if (info.ok()) {
        there_.insert(topic);
        return info;
      }
      const bool wait =
          absl::IsNotFound(info.status()) && there_.contains(topic) && SystemClock().Monotonic() < deadline;
      if (!wait) return Annotate(info.status(), StrCat(processor_.QualifiedName(), ": topic ", topic));
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

  absl::StatusOr<std::optional<log::TopicInfo>> Find(const std::string& topic) {
    absl::StatusOr<log::TopicInfo> info = Describe(topic);
    if (info.ok()) return *std::move(info);
    if (absl::IsNotFound(info.status())) return std::nullopt;
    return info.status();
  }

  absl::StatusOr<log::TopicInfo> Ensure(const std::string& topic, int partitions, const spec::TopicConfig& config,
                                        int replication_factor, bool any_timestamp = false) {
    MS_ASSIGN_OR_RETURN(const std::optional<log::TopicInfo> existing, Find(topic));
    if (existing.has_value()) return *existing;
    const absl::Status created = admin_->CreateTopic({.name = topic,
                                                      .partitions = partitions,
                                                      .replication_factor = replication_factor,
                                                      .config = config,
                                                      .any_timestamp = any_timestamp});
    if (created.ok()) report_->created.push_back(StrCat(topic, " (", Partitions(partitions), ")"));
    if (!created.ok() && !absl::IsAlreadyExists(created)) {
      return Annotate(created,
                      replication_factor > 0
                          ? StrCat(processor_.QualifiedName(), ": topic ", topic, " with replicationFactor ",
                                   replication_factor, " (the manifest's; there may be fewer brokers) cannot be made")
                          : StrCat(processor_.QualifiedName(), ": topic ", topic, " cannot be made"));
    }
    there_.insert(topic);
    return Describe(topic);
  }

  void WarnOfSettings(const log::TopicInfo& topic, const spec::TopicConfig& wanted) {
    for (const auto& [name, value] : wanted) {
      if (SameSetting(name, SettingOf(topic, name), value)) continue;
      report_->warnings.push_back(StrCat("topic ", topic.name, ": ", name, " is ", SettingOf(topic, name),
                                         ", the manifest says ", value, "; it is left as it is"));
    }
  }

  static void Know(KnownTopic::Role role, const log::TopicInfo& topic, PreparedTopics* prepared) {
    prepared->known.push_back({.role = role, .topic = topic.name, .id = topic.id, .partitions = topic.partitions});
  }

  static KnownTopic::Role RoleOf(spec::InternalTopic::Kind kind) {
    switch (kind) {
      case spec::InternalTopic::Kind::kLoop:
        return KnownTopic::Role::kLoop;
      case spec::InternalTopic::Kind::kChangelog:
        return KnownTopic::Role::kChangelog;
      case spec::InternalTopic::Kind::kDeadLetter:
        break;
    }
    return KnownTopic::Role::kDeadLetter;
  }

  static std::string NameOf(const spec::InternalTopic& internal) {
    switch (internal.kind) {
      case spec::InternalTopic::Kind::kLoop:
        return "loop";
      case spec::InternalTopic::Kind::kChangelog:
        return StrCat("changelog of store ", internal.store);
      case spec::InternalTopic::Kind::kDeadLetter:
        break;
    }
    return "dead-letter topic";
  }

  absl::Status CheckInternal(const spec::InternalTopic& internal, const log::TopicInfo& topic, int tasks) {
    const bool changelog = internal.kind == spec::InternalTopic::Kind::kChangelog;
    const std::string what = StrCat(processor_.QualifiedName(), ": ", NameOf(internal), ": topic ", topic.name);
    if (topic.partitions != tasks) {
      return absl::FailedPreconditionError(StrCat(
          what, " has ", Partitions(topic.partitions), ", the inputs have ", tasks,
          "; partition counts of a running processor cannot change: use another group, or delete its internal topics"));
    }
    if (internal.replication_factor.has_value() && topic.replication_factor > 0 &&
        topic.replication_factor != *internal.replication_factor) {
      return absl::FailedPreconditionError(StrCat(
          what, " has the replication factor ", topic.replication_factor, ", internalTopics.replicationFactor says ",
          *internal.replication_factor, "; change the manifest, or reassign the topic's partitions"));
    }
    if (topic.config.empty()) {
      report_->warnings.push_back(StrCat(what,
                                         ": its settings cannot be checked, the right to see them is missing (ACL "
                                         "DescribeConfigs on the topic)"));
      return absl::OkStatus();
    }
    for (const auto& [name, value] : internal.config) {
      const std::string found = SettingOf(topic, name);
      if (SameSetting(name, found, value)) continue;
      if (name == kMaxMessageBytes && !changelog) {
        int64_t needed = 0;
        if (absl::SimpleAtoi(value, &needed) && NumberOf(topic, kMaxMessageBytes, 0) < needed) {
          report_->warnings.push_back(StrCat(what, ": ", name, " is ", found, ", the largest records need ", value));
        }
        continue;
      }
      const char* const because = name == "cleanup.policy" && changelog
                                      ? " (it is not compacted as state needs it: what retention deletes would be lost)"
                                      : "";
      return absl::FailedPreconditionError(StrCat(what, ": ", name, " is ", found, ", but has to be ", value, because,
                                                  "; it was made by somebody else, or changed since: set it so, or "
                                                  "delete the topic if nothing is in it"));
    }
    return absl::OkStatus();
  }

  log::Admin* const admin_;
  const spec::StreamProcessorSpec& processor_;
  const TopicPreparation& options_;
  PreparationReport* const report_;
  std::set<std::string> there_;  // topics that some broker has told of, or that were made here
};

}  // namespace

absl::StatusOr<PreparationReport> PrepareTopics(const std::vector<TopicOwner>& processors,
                                                const TopicPreparation& options) {
  PreparationReport report;
  std::vector<Preparation> preparations;
  for (const TopicOwner& owner : processors) preparations.emplace_back(owner, options, &report);
  for (Preparation& preparation : preparations) MS_RETURN_IF_ERROR(preparation.MakeOutputs());
  for (Preparation& preparation : preparations) MS_RETURN_IF_ERROR(preparation.MakeInputs());
  for (Preparation& preparation : preparations) {
    MS_ASSIGN_OR_RETURN(PreparedTopics prepared, preparation.MakeTheRest());
    report.processors.push_back(std::move(prepared));
  }
  return report;
}

absl::StatusOr<PreparationReport> PrepareTopics(log::Admin* admin,
                                                const std::vector<const spec::StreamProcessorSpec*>& processors,
                                                const TopicPreparation& options) {
  std::vector<TopicOwner> owners;
  for (const spec::StreamProcessorSpec* processor : processors) owners.push_back({admin, processor});
  return PrepareTopics(owners, options);
}

absl::StatusOr<PreparedTopics> LookAtTopics(log::Admin* admin, const spec::StreamProcessorSpec& processor) {
  PreparationReport unused;
  PreparedTopics prepared;
  Preparation preparation({admin, &processor}, TopicPreparation{}, &unused);
  MS_ASSIGN_OR_RETURN(const log::TopicInfo first, admin->DescribeTopic(preparation.FirstTopic()));
  prepared.tasks = preparation.TasksOf(first);
  MS_RETURN_IF_ERROR(preparation.Look(&prepared));
  return prepared;
}

}  // namespace millstream::host
