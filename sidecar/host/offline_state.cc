#include "sidecar/host/offline_state.h"

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/log/partitioner.h"
#include "sidecar/host/key_check.h"

namespace millstream::host {
namespace {

// A short command: little memory does.
constexpr store::StateMemory kReadingMemory{.block_cache_bytes = 16 << 20, .memtable_bytes = 32 << 20};

}  // namespace

TaskId TaskOfKey(const spec::StreamProcessorSpec& spec, int tasks, std::string_view key) {
  const spec::Partitioner partitioner =
      spec.inputs.empty() ? spec::Partitioner::kMurmur2 : spec.inputs.front().partitioner;
  return TaskId(log::PartitionOfKey(HashOf(partitioner), key, tasks).value());
}

absl::StatusOr<std::unique_ptr<OfflineReader>> OfflineReader::Open(const DataFolder& folder, log::Log* log,
                                                                   const spec::StreamProcessorSpec& spec) {
  std::unique_ptr<OfflineReader> reader(new OfflineReader());
  reader->spec_ = spec;
  TaskStateOptions& options = reader->options_;
  options.log = log;
  options.spec = &reader->spec_;
  MS_ASSIGN_OR_RETURN(options.topics, LookAtTopics(&log->admin(), spec));
  MS_ASSIGN_OR_RETURN(options.state_directory, folder.StateDirectory(spec.group));
  reader->environment_ = std::make_unique<store::StateEnvironment>(kReadingMemory);
  options.environment = reader->environment_.get();
  options.owner_stamp = spec.OwnerStamp();
  return reader;
}

std::vector<std::string> OfflineReader::Stores() const {
  std::vector<std::string> names;
  for (const spec::StoreSpec& store : spec_.stores) names.push_back(store.name);
  for (const spec::TableSpec& join : spec_.joins) names.push_back(join.name);
  return names;
}

TaskId OfflineReader::TaskOf(std::string_view key) const { return TaskOfKey(spec_, tasks(), key); }

}  // namespace millstream::host
