#ifndef MILLSTREAM_SIDECAR_HOST_SIDECAR_H_
#define MILLSTREAM_SIDECAR_HOST_SIDECAR_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/metrics.h"
#include "common/log/log.h"
#include "common/spec/stream_processor.h"
#include "sidecar/engine/engine.h"
#include "sidecar/host/abandoned_transactions.h"
#include "sidecar/host/backend.h"
#include "sidecar/host/conditions.h"
#include "sidecar/host/member_state.h"
#include "sidecar/host/memory_budget.h"
#include "sidecar/host/orders.h"
#include "sidecar/host/task_opener.h"
#include "sidecar/host/task_owners.h"
#include "sidecar/host/topics.h"
#include "sidecar/server/lost_workers.h"
#include "sidecar/server/query_backend.h"
#include "sidecar/store/state_environment.h"

namespace millstream::host {

struct SidecarOptions {
  spec::StreamProcessorSpec spec;
  PreparedTopics topics;
  std::string state_directory;
  std::string socket_path;          // where workers connect
  std::string instance_id;          // of the data folder, or the pod's name
  std::string owner = "localhost";  // who answers queries
  std::string cluster = "local";    // in the owner stamp of the group
  MemoryShares memory;
  int read_threads = 1;
  int restore_threads = 3;  // fewer if the memory is not enough for so many
  bool shared = false;      // the group has other members: it is joined when the first worker is there
  bool leaves = true;       // the group, when it stops; false: a process of the same name comes back soon
  std::optional<Orders> orders;
  ForeignTransactions foreign_transactions;
  TaskOwners::MembersFn members;  // of the group; empty: this process is all of it
  // What is wrong with rotated secrets, told among the conditions; thread-safe. Empty: they are not followed.
  std::function<std::vector<Condition>()> secrets;
  absl::Duration topic_watch_interval = absl::Seconds(10);
  absl::Duration writer_call_deadline = absl::Seconds(30);
  absl::Duration writer_abandon_after = absl::Seconds(40);
};

// Of the processor's writers, a and b: <group>-<instance id>-0-a and -b.
std::vector<std::string> TransactionalIdsOf(const spec::StreamProcessorSpec& spec, const std::string& instance_id);

struct SidecarStatus {
  engine::EngineStatus engine;
  bool view = false;  // it has no inputs, and needs no worker
  int running = 0, restoring = 0, stopped = 0;
  std::vector<RestoreReport> restores;
  std::vector<Condition> conditions;
  std::string worker_error;  // the first connection that ended badly
  // Each is a condition as well. Whoever started them and may should kill them.
  std::vector<server::LostWorker> hanging_workers;
  int stuck_calls = 0;
  absl::Status ended;  // why this process can never be a member of its group again: it should end; OK: it can
  DrainState drain = DrainState::kNo;
};

// One processor running in this process: an engine and the threads that serve it (see README.md). Thread-safe.
class Sidecar {
 public:
  // Starts everything and joins the group. `log`, `environment`, `clock` and `metrics` outlive it.
  // FAILED_PRECONDITION "GroupOwnedByAnother: ..."; errors of the worker socket.
  static absl::StatusOr<std::unique_ptr<Sidecar>> Start(SidecarOptions options, log::Log* log,
                                                        store::StateEnvironment* environment,
                                                        const MembershipFactory& membership, const Clock* clock,
                                                        MetricsRegistry* metrics);
  // Stops without draining, as a crash would but with the state flushed.
  virtual ~Sidecar() = default;

  virtual const spec::StreamProcessorSpec& spec() const = 0;
  virtual server::QueryBackend* queries() = 0;
  virtual SidecarStatus Status() const = 0;
  // A person asked a stopped task to go on.
  virtual void RestartTask(TaskId task) = 0;
  // What is out is finished and committed, nothing new is fetched or sent; or it goes on. The group, state and queries
  // stay. Starts as desiredState says.
  virtual void SetPaused(bool paused) = 0;
  // From now on; nullopt: as the manifest says. `problem`: why newer ones cannot be followed, told as a condition.
  virtual void SetOrders(const std::optional<Orders>& orders, const absl::Status& problem) = 0;

  // Begins the orderly end: stop fetching, finish or abort what is in flight, commit, say GOODBYE to the workers.
  virtual void BeginDrain(absl::Duration deadline) = 0;
  virtual bool drained() const = 0;
  // Waits for the drain, leaves the group if that is meant (SidecarOptions::leaves, or orders), closes the socket,
  // flushes and closes state. False if the drain took longer than `deadline` (then the rest was cut). Called once; the
  // object is only good for Status and destruction afterwards.
  virtual bool Stop(absl::Duration deadline) = 0;
  // Threads stuck in a call of the log: with any, the log must not be destroyed (WriterThreads::Stop).
  virtual int stuck_calls() const = 0;
};

}  // namespace millstream::host

#endif  // MILLSTREAM_SIDECAR_HOST_SIDECAR_H_
