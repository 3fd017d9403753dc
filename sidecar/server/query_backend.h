#ifndef MILLSTREAM_SIDECAR_SERVER_QUERY_BACKEND_H_
#define MILLSTREAM_SIDECAR_SERVER_QUERY_BACKEND_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/bytes.h"
#include "common/base/ids.h"
#include "common/spec/stream_processor.h"
#include "sidecar/store/task_store.h"

namespace millstream::server {

// Where an answer comes from and how fresh it is.
struct AnswerSource {
  TaskId task;
  std::string owner;                       // process that answered, e.g. "totals-0" or "localhost"
  std::map<std::string, Offset> position;  // by input topic: next offset whose effects are in the answer
  int64_t written_ms = 0;                  // wall time of the last commit in the answer; 0: nothing committed yet
};

struct KeyAnswer {
  MaybeBytes value;  // nullopt: no such key
  AnswerSource source;
};

struct ScanAnswer {
  store::ScanPage page;
  AnswerSource source;
};

// One task as GET /v1/tasks shows it.
struct TaskReport {
  struct Input {
    std::string name, topic;
    Partition partition;
    Offset committed = kNoOffset, position = kNoOffset, end = kNoOffset;  // kNoOffset: not known yet
  };
  struct Restore {  // of the store that is being read back now
    std::string store;
    Offset position, end;
    int64_t bytes = 0, bytes_left = 0;        // left: estimated
    std::optional<absl::Duration> time_left;  // once there is something to estimate it from
  };

  TaskId task;
  std::string state;   // idle, restoring, standby, active, stopped
  std::string error;   // why it is stopped, and what to do
  struct Place {       // the record that stopped it
    size_t input = 0;  // of `inputs`
    Offset offset;
  };
  std::optional<Place> error_at;
  std::vector<Input> inputs;
  std::optional<Restore> restore;
  uint64_t records = 0;  // committed since it was opened
  int attempt = 0;       // of the record it is busy with, when more than 1
};

struct ProcessorReport {
  struct Condition {  // what a person should know
    std::string reason, message;
  };
  std::string processor, group;
  std::string member;     // who this process is in the group
  std::string version;    // of Millstream
  std::string guarantee;  // in force
  bool paused = false;    // in force
  std::string drain;      // No, Draining, Drained
  bool in_group = false;
  bool ready = false;                      // as the probe says
  int workers = 0;                         // connected
  std::string orders;                      // in force, as JSON; empty: none are given
  int64_t lag_records = 0;                 // of the tasks here
  std::optional<absl::Duration> lag_time;  // age of the oldest record that waits; unset: not known
  int64_t restore_bytes_left = 0;
  std::optional<absl::Duration> restore_time_left = absl::ZeroDuration();  // unset: not known yet
  std::vector<TaskReport> tasks;                                           // all of the processor
  std::vector<Condition> conditions;                                       // the worst first
};

// Answer to a probe. `reason` says in one sentence what is wrong and what to do; it may also comment an OK.
struct ProbeAnswer {
  bool ok = false;
  std::string reason;
};

// What the HTTP endpoints ask of the running sidecar. Thread-safe. Nothing here may wait: the first group answers from
// what it has at hand, the second calls `done` exactly once, on any thread, possibly before it returns. A backend that
// shuts down answers what it still owes with UNAVAILABLE. It outlives the endpoints.
class QueryBackend {
 public:
  virtual ~QueryBackend() = default;

  // The process makes progress (its loop has turned lately); a failing one is restarted by whoever watches it.
  virtual ProbeAnswer Health() const = 0;
  // It takes part: a worker is connected, it is a member of its group, and every task it was given is restored. Who is
  // drained by order is ready as well: nothing is missing.
  virtual ProbeAnswer Readiness() const = 0;
  virtual ProcessorReport Tasks() const = 0;
  // Names of the stores, joins and lookups, each in manifest order.
  virtual std::vector<std::string> Stores() const = 0;
  // A lookup is whole here and belongs to no task: it is asked as that of task 0.
  virtual bool IsLookup(store::StoreIndex store) const = 0;
  // How the rows of a store with windows or sessions are to be read (engine/windows.h); null: they are plain keys. It
  // lives as long as the backend.
  virtual const spec::StoreSpec* Windowed(store::StoreIndex store) const = 0;
  // The task whose partition the key hashes to.
  virtual TaskId TaskOf(std::string_view key) const = 0;
  // Tasks whose state this process answers for, ascending: open or not. A scan over them fails while one is not open,
  // rather than give a shorter list.
  virtual std::vector<TaskId> TasksToScan() const = 0;

  // Reads committed state. `store` is an index into Stores(). Without `task`, the one that the key's hash belongs to.
  // Of a store with windows a key is a whole row; to find those of a key is a scan.
  // UNAVAILABLE: the task is not open here (restoring, moving): ask again. NOT_FOUND: there is no such task.
  virtual void GetKey(store::StoreIndex store, Bytes key, std::optional<TaskId> task,
                      std::function<void(absl::StatusOr<KeyAnswer>)> done) = 0;
  virtual void Scan(TaskId task, store::ScanRequest range, std::function<void(absl::StatusOr<ScanAnswer>)> done) = 0;
};

}  // namespace millstream::server

#endif  // MILLSTREAM_SIDECAR_SERVER_QUERY_BACKEND_H_
