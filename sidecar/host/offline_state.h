#ifndef MILLSTREAM_SIDECAR_HOST_OFFLINE_STATE_H_
#define MILLSTREAM_SIDECAR_HOST_OFFLINE_STATE_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/log/log.h"
#include "common/spec/stream_processor.h"
#include "sidecar/engine/expiry.h"
#include "sidecar/engine/window_rows.h"
#include "sidecar/host/data_folder.h"
#include "sidecar/host/task_opener.h"
#include "sidecar/store/state_environment.h"

namespace millstream::host {

// The state of one task as a program would see it: without what `ttl` hides. Not thread-safe.
class OfflineTask {
 public:
  absl::StatusOr<MaybeBytes> Get(store::StoreIndex store, std::string_view key) const;
  // `more`: goes on behind the last row. A page without rows is the last one.
  absl::StatusOr<store::ScanPage> Scan(const store::ScanRequest& request) const;

 private:
  friend class OfflineReader;
  OfflineTask(std::shared_ptr<store::TaskStore> state, const spec::StreamProcessorSpec& spec);

  std::shared_ptr<store::TaskStore> state_;
  engine::ExpiryRules expiry_;
  int64_t stream_time_ = engine::kNoTime;
};

// Committed state of a processor that does not run: its databases in the data folder, brought up to their changelogs'
// ends. Not thread-safe.
class OfflineReader {
 public:
  // `log` and the reader outlive the tasks it opened. NOT_FOUND: the processor's topics are not there.
  static absl::StatusOr<std::unique_ptr<OfflineReader>> Open(const DataFolder& folder, log::Log* log,
                                                             const spec::StreamProcessorSpec& spec);

  int tasks() const { return options_.topics.tasks; }
  std::vector<std::string> Stores() const;
  // The store, by its index in Stores(), if it has windows or sessions; else nullptr. Lives as long as the reader.
  const spec::StoreSpec* Windowed(size_t store) const { return engine::WindowedStore(spec_, store); }
  // The task whose partition the key hashes to.
  TaskId TaskOf(std::string_view key) const;
  // One at a time: let the last one go first.
  absl::StatusOr<OfflineTask> OpenTask(TaskId task) const;

 private:
  OfflineReader() = default;

  spec::StreamProcessorSpec spec_;
  std::unique_ptr<store::StateEnvironment> environment_;
  TaskStateOptions options_;
};

// The partitioner of the first input decides which task a key belongs to.
TaskId TaskOfKey(const spec::StreamProcessorSpec& spec, int tasks, std::string_view key);

}  // namespace millstream::host

#endif  // MILLSTREAM_SIDECAR_HOST_OFFLINE_STATE_H_
