#include <utility>

#include "common/base/log_line.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "nlohmann/json.hpp"
#include "sidecar/host/task_opener.h"
#include "sidecar/host/topic_stamp.h"

namespace millstream::host {
namespace {

// The owner stamp in the metadata of a committed offset; empty if there is none (set by another tool).
std::string OwnerOf(const std::string& metadata) {
  const nlohmann::json parsed = nlohmann::json::parse(metadata, nullptr, false);
  if (!parsed.is_object()) return "";
  const auto owner = parsed.find("owner");
  return owner != parsed.end() && owner->is_string() ? owner->get<std::string>() : "";
}

absl::Status CheckOwner(const TaskStateOptions& options, const TopicPartition& of, const std::string& metadata) {
  const std::string owner = OwnerOf(metadata);
  if (owner.empty() || owner == options.owner_stamp) return absl::OkStatus();
  return absl::FailedPreconditionError(StrCat("GroupOwnedByAnother: the offsets of group ", options.spec->group, " (",
                                              of.ToString(), ") belong to the processor ", owner, ", this one is ",
                                              options.owner_stamp, "; give this processor another spec.group"));
}

std::vector<TopicPartition> InputsOf(const TaskStateOptions& options, TaskId task) {
  std::vector<TopicPartition> partitions;
  for (const spec::InputSpec& input : options.spec->inputs)
    partitions.push_back({input.topic, Partition(task.value())});
  return partitions;
}

absl::StatusOr<Offset> ResolveStart(log::Admin& admin, const TopicPartition& of, const spec::StartFrom& start) {
  switch (start.type) {
    case spec::StartFrom::Type::kEarliest:
      return admin.StartOffset(of);
    case spec::StartFrom::Type::kLatest:
      return admin.EndOffset(of, log::Isolation::kReadCommitted);
    case spec::StartFrom::Type::kTimestamp:
      return admin.OffsetForTime(of, absl::ToUnixMillis(start.time));
  }
  return absl::InternalError("unknown startFrom");
}

using CommittedOffsets = std::map<TopicPartition, log::GroupOffset>;

absl::StatusOr<std::vector<engine::InputStart>> ResolveInputs(const TaskStateOptions& options, TaskId task,
                                                              const CommittedOffsets& committed) {
  std::vector<engine::InputStart> starts;
  for (uint32_t i = 0; i < options.spec->inputs.size(); ++i) {
    const spec::InputSpec& input = options.spec->inputs[i];
    const TopicPartition of{input.topic, Partition(task.value())};
    engine::InputStart start{.input = i, .next = {}, .committed = false, .metadata = ""};
    if (const auto found = committed.find(of); found != committed.end()) {
      start.next = found->second.next;
      start.committed = true;
      start.metadata = found->second.metadata;
    } else {
      MS_ASSIGN_OR_RETURN(start.next, ResolveStart(options.log->admin(), of, input.start_from));
    }
    starts.push_back(std::move(start));
  }
  return starts;
}

absl::StatusOr<std::shared_ptr<store::TaskStore>> OpenStore(const TaskStateOptions& options, TaskId task,
                                                            MetricsRegistry* metrics) {
  MS_ASSIGN_OR_RETURN(std::shared_ptr<store::TaskStore> store,
                      store::TaskStore::Open(options.environment, FolderOf(options, task), IdentityOf(options, task)));
  if (!store->wiped_reason().empty()) {
    LogWarning("state on disk was not usable: wiped, rebuilt from the changelog",
               {{"task", task.value()}, {"reason", store->wiped_reason()}});
    if (metrics != nullptr) WipedCounter(metrics)->Add();
  }
  return store;
}

absl::Status Restore(const TaskStateOptions& options, TaskId task, store::TaskStore* store,
                     const std::function<void(const store::RestoreProgress&)>& on_progress,
                     const std::atomic<bool>* cancelled) {
  store::RestoreOptions restore;
  restore.clock = options.clock;
  restore.batch_bytes = options.restore_batch_bytes;
  restore.on_progress = on_progress;
  restore.cancelled = cancelled;
  return Annotate(store::RestoreTask(options.log, store, IdentityOf(options, task), restore),
                  StrCat("restore task ", task.value()));
}

// A view commits nothing.
absl::StatusOr<CommittedOffsets> CommittedBy(const TaskStateOptions& options,
                                             const std::vector<TopicPartition>& inputs) {
  if (inputs.empty()) return CommittedOffsets();
  return options.log->admin().StableGroupOffsets(options.spec->group, inputs);
}

// A store that has a changelog and anything in it, by name; empty if there is none.
absl::StatusOr<std::string> StoreWithState(const TaskStateOptions& options, const store::TaskStore& store) {
  for (store::StoreIndex i = 0; i < options.spec->stores.size(); ++i) {
    if (!options.spec->stores[i].changelog.enabled) continue;
    store::ScanRequest first;
    first.store = i;
    first.max_rows = 1;
    MS_ASSIGN_OR_RETURN(const store::ScanPage page, store.Scan(first));
    if (!page.rows.empty()) return options.spec->stores[i].name;
  }
  return std::string();
}

}  // namespace

Counter* WipedCounter(MetricsRegistry* metrics) {
  return metrics->GetCounter("millstream_state_wiped_total",
                             "Task databases that could not be used and were rebuilt from the changelog.", {});
}

std::string FolderOf(const TaskStateOptions& options, TaskId task) {
  return StrCat(options.state_directory, "/", task.value());
}

store::TaskIdentity IdentityOf(const TaskStateOptions& options, TaskId task) {
  store::TaskIdentity identity{.group = options.spec->group, .task = task, .stores = {}};
  for (size_t i = 0; i < options.spec->stores.size(); ++i) {
    const spec::StoreSpec& store = options.spec->stores[i];
    store::StoreDefinition definition;
    definition.name = store.name;
    definition.backend = store.backend == spec::StoreBackend::kDisk ? store::StoreDefinition::Backend::kDisk
                                                                    : store::StoreDefinition::Backend::kMemory;
    definition.timed = store.ttl.has_value();
    if (store.changelog.enabled) {
      definition.changelog_topic = store.changelog.topic;
      definition.changelog_topic_id = options.topics.changelog_ids[i];
    }
    identity.stores.push_back(std::move(definition));
  }
  for (size_t i = 0; i < options.spec->joins.size(); ++i) {
    store::StoreDefinition definition;
    definition.name = options.spec->joins[i].name;
    definition.changelog_topic = options.spec->joins[i].topic;
    definition.changelog_topic_id = options.topics.join_ids[i];
    definition.foreign = true;
    identity.stores.push_back(std::move(definition));
  }
  return identity;
}

absl::StatusOr<OpenedTask> OpenTaskState(const TaskStateOptions& options, TaskId task, MetricsRegistry* metrics,
                                         const std::function<void(const store::RestoreProgress&)>& on_progress,
                                         const std::atomic<bool>* cancelled) {
  OpenedTask opened;
  MS_ASSIGN_OR_RETURN(opened.store, OpenStore(options, task, metrics));
  // Before the changelog's end is looked up: state of a transaction that commits in between is then ahead of no offset
  // we know.
  const std::vector<TopicPartition> inputs = InputsOf(options, task);
  if (options.abandoned != nullptr) MS_RETURN_IF_ERROR(options.abandoned->EndWritersOf(inputs));
  MS_ASSIGN_OR_RETURN(const CommittedOffsets committed, CommittedBy(options, inputs));
  for (const auto& [of, offset] : committed) MS_RETURN_IF_ERROR(CheckOwner(options, of, offset.metadata));
  MS_RETURN_IF_ERROR(CheckTopicStamp(options.spec->group, options.topics, inputs, committed));
  MS_RETURN_IF_ERROR(Restore(options, task, opened.store.get(), on_progress, cancelled));
  if (committed.empty() && !inputs.empty()) {
    MS_ASSIGN_OR_RETURN(const std::string store_name, StoreWithState(options, *opened.store));
    if (!store_name.empty()) {
      return absl::FailedPreconditionError(
          StrCat("OffsetsLost: task ", task.value(), " has state in store ", store_name, " but group ",
                 options.spec->group, " has no committed offset for ", inputs.front().ToString(),
                 " (brokers delete offsets of a group without members after a week, "
                 "and with a topic that is deleted); starting over would count records "
                 "twice. `millstream reset --to start` sets offsets and state anew"));
    }
  }
  MS_ASSIGN_OR_RETURN(opened.inputs, ResolveInputs(options, task, committed));
  return opened;
}

absl::StatusOr<std::shared_ptr<store::TaskStore>> OpenStateForReading(const TaskStateOptions& options, TaskId task) {
  MS_ASSIGN_OR_RETURN(std::shared_ptr<store::TaskStore> store, OpenStore(options, task, nullptr));
  MS_RETURN_IF_ERROR(Restore(options, task, store.get(), nullptr, nullptr));
  return store;
}

absl::Status CheckGroupOwner(const TaskStateOptions& options) {
  for (int number = 0; number < options.topics.tasks; ++number) {
    const absl::StatusOr<CommittedOffsets> committed = CommittedBy(options, InputsOf(options, TaskId(number)));
    // Pending ones are of a transaction of this group that died: opening the task waits for its end.
    if (absl::IsDeadlineExceeded(committed.status())) continue;
    MS_RETURN_IF_ERROR(committed.status());
    for (const auto& [of, offset] : *committed) MS_RETURN_IF_ERROR(CheckOwner(options, of, offset.metadata));
  }
  return absl::OkStatus();
}

}  // namespace millstream::host
