#include "sidecar/host/offline_state.h"

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/log/partitioner.h"
#include "sidecar/engine/engine.h"
#include "sidecar/engine/event_time.h"
#include "sidecar/engine/internal_rows.h"
#include "sidecar/engine/scan_merge.h"
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

absl::StatusOr<OfflineTask> OfflineReader::OpenTask(TaskId task) const {
  MS_ASSIGN_OR_RETURN(std::shared_ptr<store::TaskStore> state, OpenStateForReading(options_, task));
  OfflineTask opened(std::move(state), spec_);
  if (!opened.expiry_.any()) return opened;
  const auto internal = static_cast<store::StoreIndex>(spec_.ManifestStores());
  MS_ASSIGN_OR_RETURN(const MaybeBytes kept, opened.state_->Get(internal, engine::StreamTimeRow()));
  engine::StreamClock clock(spec_);
  if (kept && !clock.Decode(*kept, spec_)) {
    return absl::DataLossError(
        StrCat("the stream time of task ", task.value(), " cannot be read; was it written by a newer version?"));
  }
  opened.stream_time_ = clock.time();
  return opened;
}

OfflineTask::OfflineTask(std::shared_ptr<store::TaskStore> state, const spec::StreamProcessorSpec& spec)
    : state_(std::move(state)), expiry_(spec, engine::EngineOptions().ttl_steps) {}

absl::StatusOr<MaybeBytes> OfflineTask::Get(store::StoreIndex store, std::string_view key) const {
  MS_ASSIGN_OR_RETURN(MaybeBytes value, state_->Get(store, key));
  expiry_.At(store, stream_time_).Settle(&value);
  return value;
}

absl::StatusOr<store::ScanPage> OfflineTask::Scan(const store::ScanRequest& request) const {
  store::ScanRequest next = request;
  while (true) {
    MS_ASSIGN_OR_RETURN(const store::ScanPage page, state_->Scan(next));
    engine::MergedPage seen = engine::MergeScan(next, page, {}, expiry_.At(request.store, stream_time_));
    if (!seen.rows.empty() || !seen.cursor) return store::ScanPage{std::move(seen.rows), seen.cursor.has_value()};
    next.after = std::move(seen.cursor);  // all of the page is hidden
  }
}

TaskId OfflineReader::TaskOf(std::string_view key) const { return TaskOfKey(spec_, tasks(), key); }

}  // namespace millstream::host
