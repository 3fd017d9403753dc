#ifndef MILLSTREAM_SIDECAR_HOST_EARLY_QUERIES_H_
#define MILLSTREAM_SIDECAR_HOST_EARLY_QUERIES_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/spec/stream_processor.h"
#include "sidecar/engine/window_rows.h"
#include "sidecar/host/conditions.h"
#include "sidecar/server/query_backend.h"

namespace millstream::host {

// Answers for a processor from before it could start: what it waits for, as a condition; everything else is asked again
// later. Once the processor runs it passes every question on. Thread-safe.
class EarlyQueries : public server::QueryBackend {
 public:
  // The spec outlives it. `member`: who this process is in the group.
  EarlyQueries(const spec::StreamProcessorSpec* spec, std::string member) : spec_(spec), member_(std::move(member)) {}

  void WaitsFor(Condition condition);
  // From now on `target` is asked; it outlives whoever asks this.
  void PassOnTo(server::QueryBackend* target);

  server::ProbeAnswer Health() const override;
  server::ProbeAnswer Readiness() const override;
  server::ProcessorReport Tasks() const override;
  std::vector<std::string> Stores() const override;
  bool IsLookup(store::StoreIndex store) const override { return store >= spec_->first_lookup(); }
  const spec::StoreSpec* Windowed(store::StoreIndex store) const override {
    return engine::WindowedStore(*spec_, store);
  }
  TaskId TaskOf(std::string_view key) const override;
  std::vector<TaskId> TasksToScan() const override;
  void GetKey(store::StoreIndex store, Bytes key, std::optional<TaskId> task,
              std::function<void(absl::StatusOr<server::KeyAnswer>)> done) override;
  void Scan(TaskId task, store::ScanRequest range,
            std::function<void(absl::StatusOr<server::ScanAnswer>)> done) override;

 private:
  server::QueryBackend* target() const;
  Condition condition() const;

  const spec::StreamProcessorSpec* const spec_;
  const std::string member_;
  mutable absl::Mutex mutex_;
  Condition condition_ ABSL_GUARDED_BY(mutex_);
  server::QueryBackend* target_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace millstream::host

#endif  // MILLSTREAM_SIDECAR_HOST_EARLY_QUERIES_H_
