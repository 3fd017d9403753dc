#include "sidecar/host/topics.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "sidecar/engine/engine.h"

namespace millstream::host {
namespace {

constexpr int kDefaultPartitions = 4;
// What the log adds to a record's key, value and headers.
constexpr int64_t kRecordOverhead = 512;

int64_t MaxRecordBytes(const log::TopicInfo& topic) {
  const auto found = topic.config.find("max.message.bytes");
  if (found == topic.config.end()) return engine::kDefaultRecordBytes;
  int64_t bytes = 0;
  std::from_chars(found->second.data(), found->second.data() + found->second.size(), bytes);
  return bytes > kRecordOverhead ? bytes - kRecordOverhead : engine::kDefaultRecordBytes;
}

bool IsCompacted(const log::TopicInfo& topic) {
  const auto policy = topic.config.find("cleanup.policy");
  return policy != topic.config.end() && policy->second.find("compact") != std::string::npos;
}

std::string Partitions(int count) { return StrCat(count, count == 1 ? " partition" : " partitions"); }

class Preparation {
 public:
  Preparation(log::Admin* admin, const TopicPreparation& options, PreparationReport* report)
      : admin_(admin), options_(options), report_(report) {}

  // Outputs with `create`: first, because they may be the inputs of another processor.
  absl::Status MakeOutputs(const spec::StreamProcessorSpec& processor) {
    for (const spec::OutputSpec& output : processor.outputs) {
      if (!output.create.has_value()) continue;
      MS_ASSIGN_OR_RETURN(const log::TopicInfo topic,
                          Ensure(output.topic, output.create->partitions, output.create->config,
                                 output.create->replication_factor.value_or(-1)));
      if (topic.partitions != output.create->partitions) {
        return absl::FailedPreconditionError(StrCat(processor.QualifiedName(), ": output ", output.name, ": topic ",
                                                    output.topic, " has ", Partitions(topic.partitions),
                                                    ", its create block says ", output.create->partitions,
                                                    "; change the manifest, or delete the topic"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status MakeInputs(const spec::StreamProcessorSpec& processor) {
    std::optional<std::pair<std::string, int>> first;  // of those that are there: the others follow them
    for (const spec::InputSpec& input : processor.inputs) {
      MS_ASSIGN_OR_RETURN(const std::optional<log::TopicInfo> topic, Find(input.topic));
      if (!topic.has_value()) continue;
      if (first.has_value() && first->second != topic->partitions) {
        return absl::FailedPreconditionError(
            StrCat(processor.QualifiedName(), ": inputs of one processor need the same number of partitions, but ",
                   first->first, " has ", first->second, " and ", input.topic, " has ", topic->partitions,
                   "; records of one key would meet in different tasks"));
      }
      if (!first.has_value()) first = {input.topic, topic->partitions};
    }
    const int wanted = first.has_value() ? first->second : NewInputPartitions(processor);
    for (const spec::InputSpec& input : processor.inputs) {
      if (!options_.create_inputs) {
        MS_ASSIGN_OR_RETURN(const std::optional<log::TopicInfo> topic, Find(input.topic));
        if (!topic.has_value())
          return absl::NotFoundError(
              StrCat(processor.QualifiedName(), ": input topic ", input.topic, " does not exist"));
        continue;
      }
      MS_RETURN_IF_ERROR(Ensure(input.topic, wanted, {}, -1).status());
    }
    return absl::OkStatus();
  }

  absl::StatusOr<PreparedTopics> MakeTheRest(const spec::StreamProcessorSpec& processor) {
    PreparedTopics prepared;
    MS_ASSIGN_OR_RETURN(const log::TopicInfo first, admin_->DescribeTopic(processor.inputs.front().topic));
    prepared.tasks = first.partitions;
    for (const spec::InternalTopic& internal : spec::InternalTopicsOf(processor)) {
      MS_RETURN_IF_ERROR(
          Ensure(internal.topic, prepared.tasks, internal.config, internal.replication_factor.value_or(-1)).status());
    }
    MS_RETURN_IF_ERROR(Look(processor, &prepared));
    return prepared;
  }

  // Fills in what needs only a look; checks internal topics against `prepared->tasks`.
  absl::Status Look(const spec::StreamProcessorSpec& processor, PreparedTopics* prepared) {
    for (const spec::InternalTopic& internal : spec::InternalTopicsOf(processor)) {
      MS_ASSIGN_OR_RETURN(const log::TopicInfo topic, admin_->DescribeTopic(internal.topic));
      MS_RETURN_IF_ERROR(CheckInternal(processor, internal, topic, prepared->tasks));
      if (internal.kind == spec::InternalTopic::Kind::kDeadLetter) prepared->dead_letter_partitions = topic.partitions;
    }
    for (const spec::StoreSpec& store : processor.stores) {
      prepared->changelog_ids.emplace_back();
      prepared->store_max_bytes.push_back(engine::kDefaultRecordBytes);
      if (!store.changelog.enabled) continue;
      MS_ASSIGN_OR_RETURN(const log::TopicInfo topic, admin_->DescribeTopic(store.changelog.topic));
      prepared->changelog_ids.back() = topic.id;
      prepared->store_max_bytes.back() = MaxRecordBytes(topic);
    }
    for (const spec::OutputSpec& output : processor.outputs) {
      MS_ASSIGN_OR_RETURN(const std::optional<log::TopicInfo> topic, Find(output.topic));
      if (!topic.has_value()) {
        return absl::NotFoundError(StrCat(
            processor.QualifiedName(), ": output topic ", output.topic,
            " does not exist; give the output a create block, or make it: millstream topics create ", output.topic));
      }
      prepared->output_partitions.push_back(topic->partitions);
      prepared->output_max_bytes.push_back(MaxRecordBytes(*topic));
    }
    return absl::OkStatus();
  }

 private:
  int NewInputPartitions(const spec::StreamProcessorSpec& processor) const {
    if (options_.partitions.has_value()) return *options_.partitions;
    for (const spec::OutputSpec& output : processor.outputs) {
      if (output.create.has_value()) return output.create->partitions;
    }
    return kDefaultPartitions;
  }

  absl::StatusOr<std::optional<log::TopicInfo>> Find(const std::string& topic) {
    absl::StatusOr<log::TopicInfo> info = admin_->DescribeTopic(topic);
    if (info.ok()) return *std::move(info);
    if (absl::IsNotFound(info.status())) return std::nullopt;
    return info.status();
  }

  absl::StatusOr<log::TopicInfo> Ensure(const std::string& topic, int partitions, const spec::TopicConfig& config,
                                        int replication_factor) {
    MS_ASSIGN_OR_RETURN(const std::optional<log::TopicInfo> existing, Find(topic));
    if (existing.has_value()) {
      CompareConfig(*existing, config);
      return *existing;
    }
    const absl::Status created = admin_->CreateTopic(
        {.name = topic, .partitions = partitions, .replication_factor = replication_factor, .config = config});
    if (created.ok()) report_->created.push_back(StrCat(topic, " (", Partitions(partitions), ")"));
    if (!created.ok() && !absl::IsAlreadyExists(created)) return Annotate(created, StrCat("topic ", topic));
    return admin_->DescribeTopic(topic);
  }

  void CompareConfig(const log::TopicInfo& topic, const spec::TopicConfig& wanted) {
    for (const auto& [name, value] : wanted) {
      const auto found = topic.config.find(name);
      if (found != topic.config.end() && found->second == value) continue;
      report_->warnings.push_back(StrCat("topic ", topic.name, ": ", name, " is ",
                                         found == topic.config.end() ? "not set" : found->second,
                                         ", the manifest says ", value, "; it is left as it is"));
    }
  }

  static absl::Status CheckInternal(const spec::StreamProcessorSpec& processor, const spec::InternalTopic& internal,
                                    const log::TopicInfo& topic, int tasks) {
    const bool changelog = internal.kind == spec::InternalTopic::Kind::kChangelog;
    const std::string what =
        StrCat(processor.QualifiedName(), ": ",
               changelog ? StrCat("changelog of store ", internal.store) : std::string("dead-letter topic"), ": topic ",
               topic.name);
    if (topic.partitions != tasks) {
      return absl::FailedPreconditionError(StrCat(
          what, " has ", Partitions(topic.partitions), ", the inputs have ", tasks,
          "; partition counts of a running processor cannot change: use another group, or delete its internal topics"));
    }
    if (changelog && !IsCompacted(topic)) {
      return absl::FailedPreconditionError(StrCat(
          what, " is not compacted (cleanup.policy): state would be lost with the records that retention deletes"));
    }
    return absl::OkStatus();
  }

  log::Admin* const admin_;
  const TopicPreparation& options_;
  PreparationReport* const report_;
};

}  // namespace

absl::StatusOr<PreparationReport> PrepareTopics(log::Admin* admin,
                                                const std::vector<const spec::StreamProcessorSpec*>& processors,
                                                const TopicPreparation& options) {
  PreparationReport report;
  Preparation preparation(admin, options, &report);
  for (const spec::StreamProcessorSpec* processor : processors) MS_RETURN_IF_ERROR(preparation.MakeOutputs(*processor));
  for (const spec::StreamProcessorSpec* processor : processors) MS_RETURN_IF_ERROR(preparation.MakeInputs(*processor));
  for (const spec::StreamProcessorSpec* processor : processors) {
    MS_ASSIGN_OR_RETURN(PreparedTopics prepared, preparation.MakeTheRest(*processor));
    report.processors.push_back(std::move(prepared));
  }
  return report;
}

absl::StatusOr<PreparedTopics> LookAtTopics(log::Admin* admin, const spec::StreamProcessorSpec& processor) {
  PreparationReport unused;
  PreparedTopics prepared;
  MS_ASSIGN_OR_RETURN(const log::TopicInfo first, admin->DescribeTopic(processor.inputs.front().topic));
  prepared.tasks = first.partitions;
  MS_RETURN_IF_ERROR(Preparation(admin, TopicPreparation{}, &unused).Look(processor, &prepared));
  return prepared;
}

}  // namespace millstream::host
