#ifndef MILLSTREAM_SIDECAR_HOST_QUERIES_H_
#define MILLSTREAM_SIDECAR_HOST_QUERIES_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "sidecar/engine/engine.h"
#include "sidecar/engine/window_rows.h"
#include "sidecar/host/conditions.h"
#include "sidecar/host/engine_loop.h"
#include "sidecar/host/member_state.h"
#include "sidecar/host/read_pool.h"
#include "sidecar/host/task_opener.h"
#include "sidecar/host/task_owners.h"
#include "sidecar/host/task_table.h"
#include "sidecar/host/worker_port.h"
#include "sidecar/server/query_backend.h"

namespace millstream::host {

// What HTTP and the command line ask of a running sidecar: its tasks from the last status snapshot, committed state
// through the engine, so that what is committed and not on disk yet is seen.
class Queries : public server::QueryBackend {
 public:
  // Questions the engine has not answered yet; beyond it RESOURCE_EXHAUSTED. Each holds its key and a callback.
  static constexpr size_t kMaxPending = 10'000;

  struct Parts {
    const spec::StreamProcessorSpec* spec = nullptr;
    int tasks = 0;        // partitions of its inputs
    bool shared = false;  // the group may have other members: tasks that are not assigned here are elsewhere
    EngineLoop* loop = nullptr;
    const TaskTable* table = nullptr;
    const TaskOpener* opener = nullptr;
    ReadPool* readers = nullptr;  // asked for lookups
    const WorkerPort* workers = nullptr;
    std::function<std::vector<Condition>()> conditions;
    std::function<MemberState()> member;
    std::string name;  // of this process in its group
    const Clock* clock = nullptr;
    std::string owner;             // who answers: "localhost"
    TaskOwners* owners = nullptr;  // nullptr: there are no other members
  };
  // Everything in `parts` outlives it.
  explicit Queries(Parts parts);

  void Answer(engine::QueryAnswered answer);  // the engine's action
  void Stop();                                // answers what is pending, and everything later, with UNAVAILABLE

  server::ProbeAnswer Health() const override;
  server::ProbeAnswer Readiness() const override;
  server::ProcessorReport Tasks() const override;
  std::vector<std::string> Stores() const override;
  bool IsLookup(store::StoreIndex store) const override { return store >= parts_.spec->first_lookup(); }
  const spec::StoreSpec* Windowed(store::StoreIndex store) const override {
    return engine::WindowedStore(*parts_.spec, store);
  }
  TaskId TaskOf(std::string_view key) const override;
  std::vector<TaskId> TasksToScan() const override;
  void GetKey(store::StoreIndex store, Bytes key, std::optional<TaskId> task,
              std::function<void(absl::StatusOr<server::KeyAnswer>)> done) override;
  void Scan(TaskId task, store::ScanRequest range,
            std::function<void(absl::StatusOr<server::ScanAnswer>)> done) override;

 private:
  using Completion = std::function<void(engine::QueryAnswered, server::AnswerSource)>;

  // Why it does not take part as it should; empty: it does.
  std::string NotReady(const engine::EngineStatus& status, const MemberState& member) const;
  server::TaskReport ReportOf(const engine::TaskStatus& task, const std::vector<RestoreReport>& restores) const;
  void AddRestore(const std::vector<RestoreReport>& restores, server::ProcessorReport* report) const;
  // There is such a task, and it is this processor's.
  absl::Status Check(TaskId task) const;
  // Calls `go_on` with OK if the task is open here, else with why not; later, if others have to be asked.
  void WhenHere(TaskId task, std::function<void(absl::Status)> go_on) const;
  void ScanHere(TaskId task, const store::ScanRequest& range,
                const std::function<void(absl::StatusOr<server::ScanAnswer>)>& done);
  server::AnswerSource LookupSource(const store::TaskStore& table) const;
  absl::StatusOr<engine::QueryId> Expect(TaskId task, Completion completion);
  server::AnswerSource SourceOf(TaskId task) const;

  const Parts parts_;
  absl::Mutex mutex_;
  struct Pending {
    server::AnswerSource source;
    Completion completion;
  };
  absl::flat_hash_map<engine::QueryId, Pending> pending_ ABSL_GUARDED_BY(mutex_);
  engine::QueryId next_query_ ABSL_GUARDED_BY(mutex_) = 1;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace millstream::host

#endif  // MILLSTREAM_SIDECAR_HOST_QUERIES_H_
