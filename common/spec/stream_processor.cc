#include "common/spec/stream_processor.h"

#include <algorithm>

#include "common/base/strings.h"

namespace millstream::spec {
namespace {

template <typename T>
const T* FindByName(const std::vector<T>& items, std::string_view name) {
  for (const T& item : items) {
    if (item.name == name) return &item;
  }
  return nullptr;
}

// Adds `more` to `config`; where both have a key, `more` wins.
void Override(TopicConfig& config, const TopicConfig& more) {
  for (const auto& [key, value] : more) config[key] = value;
}

}  // namespace

std::string_view ToString(Guarantee value) {
  switch (value) {
    case Guarantee::kExactlyOnce:
      return "ExactlyOnce";
    case Guarantee::kAtLeastOnce:
      return "AtLeastOnce";
    case Guarantee::kAtMostOnce:
      return "AtMostOnce";
  }
  return "?";
}

std::string_view ToString(Partitioner value) {
  switch (value) {
    case Partitioner::kMurmur2:
      return "Murmur2";
    case Partitioner::kCrc32:
      return "Crc32";
    case Partitioner::kFnv1a:
      return "Fnv1a";
  }
  return "?";
}

std::string_view ToString(StoreBackend value) {
  switch (value) {
    case StoreBackend::kDisk:
      return "Disk";
    case StoreBackend::kMemory:
      return "Memory";
  }
  return "?";
}

std::string_view ToString(StoreType value) {
  switch (value) {
    case StoreType::kKeyValue:
      return "KeyValue";
    case StoreType::kWindow:
      return "Window";
    case StoreType::kSession:
      return "Session";
  }
  return "?";
}

std::string_view ToString(LatePolicy value) {
  switch (value) {
    case LatePolicy::kDrop:
      return "Drop";
    case LatePolicy::kDeadLetter:
      return "DeadLetter";
    case LatePolicy::kProcess:
      return "Process";
  }
  return "?";
}

std::string_view ToString(FailureAction value) {
  switch (value) {
    case FailureAction::kStop:
      return "Stop";
    case FailureAction::kSkip:
      return "Skip";
    case FailureAction::kDeadLetter:
      return "DeadLetter";
  }
  return "?";
}

std::string_view ToString(MergeBy value) { return value == MergeBy::kArrival ? "Arrival" : "Timestamp"; }

std::string_view ToString(DesiredState value) { return value == DesiredState::kRunning ? "Running" : "Paused"; }

std::string_view ToString(DeletionPolicy value) {
  switch (value) {
    case DeletionPolicy::kRetain:
      return "Retain";
    case DeletionPolicy::kDelete:
      return "Delete";
  }
  return "?";
}

std::string_view ToString(LogLevel value) {
  switch (value) {
    case LogLevel::kDebug:
      return "Debug";
    case LogLevel::kInfo:
      return "Info";
    case LogLevel::kWarn:
      return "Warn";
    case LogLevel::kError:
      return "Error";
  }
  return "?";
}

std::string_view ToString(SaslMechanism value) {
  switch (value) {
    case SaslMechanism::kPlain:
      return "PLAIN";
    case SaslMechanism::kScramSha256:
      return "SCRAM-SHA-256";
    case SaslMechanism::kScramSha512:
      return "SCRAM-SHA-512";
    case SaslMechanism::kOauthBearer:
      return "OAUTHBEARER";
  }
  return "?";
}

std::string StreamProcessorSpec::OwnerStamp(std::string_view cluster_name) const {
  return StrCat(cluster_name, "/", name_space, "/", name);
}

bool StreamProcessorSpec::HasWindows() const {
  for (const StoreSpec& store : stores) {
    if (store.type != StoreType::kKeyValue) return true;
  }
  return false;
}

std::vector<TaskId> StreamProcessorSpec::TasksOf(int partitions) const {
  std::vector<TaskId> tasks;
  for (const int32_t partition : manual_partitions) tasks.emplace_back(partition);
  for (int number = 0; manual_partitions.empty() && number < partitions; ++number) tasks.emplace_back(number);
  return tasks;
}

FailureAction ErrorsSpec::ActionFor(std::string_view failure_class) const {
  const auto found = by_class.find(failure_class);
  return found == by_class.end() ? on_failure : found->second;
}

bool ErrorsSpec::DeadLetters() const {
  if (on_failure == FailureAction::kDeadLetter) return true;
  return std::any_of(by_class.begin(), by_class.end(),
                     [](const auto& entry) { return entry.second == FailureAction::kDeadLetter; });
}

const InputSpec* StreamProcessorSpec::FindInput(std::string_view input_name) const {
  return FindByName(inputs, input_name);
}
const StoreSpec* StreamProcessorSpec::FindStore(std::string_view store_name) const {
  return FindByName(stores, store_name);
}
const OutputSpec* StreamProcessorSpec::FindOutput(std::string_view output_name) const {
  return FindByName(outputs, output_name);
}

const std::string& StreamProcessorSpec::ReadableName(size_t id) const {
  if (id < stores.size()) return stores[id].name;
  return id < first_lookup() ? joins[id - stores.size()].name : lookups[id - first_lookup()].name;
}

std::vector<InternalTopic> InternalTopicsOf(const StreamProcessorSpec& processor) {
  std::vector<InternalTopic> topics;
  for (const OutputSpec& output : processor.outputs) {
    if (!output.loop) continue;
    InternalTopic topic;
    topic.kind = InternalTopic::Kind::kLoop;
    topic.topic = output.topic;
    topic.config = {{"cleanup.policy", "delete"}};
    Override(topic.config, processor.internal_topics.config);
    topic.replication_factor = processor.internal_topics.replication_factor;
    topics.push_back(std::move(topic));
  }
  for (const StoreSpec& store : processor.stores) {
    if (!store.changelog.enabled) continue;
    InternalTopic topic;
    topic.kind = InternalTopic::Kind::kChangelog;
    topic.topic = store.changelog.topic;
    topic.store = store.name;
    topic.config = {{"cleanup.policy", "compact"}};
    Override(topic.config, processor.internal_topics.config);
    Override(topic.config, store.changelog.config);
    topic.replication_factor = processor.internal_topics.replication_factor;
    topics.push_back(std::move(topic));
  }
  if (processor.errors.DeadLetters() || processor.late_policy == LatePolicy::kDeadLetter) {
    InternalTopic topic;
    topic.kind = InternalTopic::Kind::kDeadLetter;
    topic.topic = processor.errors.dead_letter_topic;
    topic.config = processor.internal_topics.config;
    topic.replication_factor = processor.internal_topics.replication_factor;
    topics.push_back(std::move(topic));
  }
  return topics;
}

}  // namespace millstream::spec
