#ifndef MILLSTREAM_OPERATOR_MODEL_SIDECAR_REPORT_H_
#define MILLSTREAM_OPERATOR_MODEL_SIDECAR_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "operator/model/processor.h"

namespace millstream::model {

// One task on one pod, as GET /v1/tasks of its sidecar shows it (docs/reference/http.md).
struct TaskSeen {
  enum class State { kIdle, kRestoring, kStandby, kActive, kStopped };
  int task = 0;
  State state = State::kIdle;  // kStandby: a copy that has reached the end once; on its way there it is kRestoring
  std::optional<int64_t> lag;  // records of its inputs behind their ends
  int64_t records = 0;         // committed since it was opened
  int64_t bytes_left = 0;      // to restore
  std::optional<absl::Duration> time_left;
  std::string error;  // why it is stopped
};

// What one sidecar said.
struct SidecarReport {
  absl::Time heard = absl::InfinitePast();
  std::string pod_uid;                // of the pod that was asked: a report of its predecessor counts for nothing
  std::string version;                // of the sidecar
  std::string guarantee;              // in force
  std::string state;                  // "Running" or "Paused": as it is, not as it was told; empty: it does not say
  bool drained = false;               // it was told to drain, holds no task any more and has left the group
  bool ready = false;                 // as its probe says
  int workers = 0;                    // connected
  int partitions = 0;                 // tasks of the processor; 0: not known yet
  std::optional<absl::Duration> lag;  // how old the oldest record is that its tasks have not processed
  std::vector<TaskSeen> tasks;
  struct FirstError {  // of the task of the lowest number that stopped
    int task = 0;
    std::string input;    // empty: no record is to blame
    int64_t offset = -1;  // the same
    std::string message;
  };
  std::optional<FirstError> first_error;
  struct Problem {  // the worst of its conditions
    std::string reason, message;
    bool blocks = false;  // nothing is processed while it lasts
  };
  std::optional<Problem> problem;

  int Count(TaskSeen::State state) const;
  bool Holds(int task, TaskSeen::State state) const;
};

// From the answer's body. What is not in it keeps its default: sidecars of the version before say less.
// INVALID_ARGUMENT: it is no such answer.
absl::StatusOr<SidecarReport> ReadSidecarReport(const Json& answer, absl::Time heard, std::string pod_uid);

// All reports of a processor together, each task counted once: numbers for status, tables and autoscaling.
struct TaskTotals {
  int total = 0;  // tasks of the processor; 0: not known
  int running = 0, restoring = 0, standby = 0, stopped = 0;
  std::optional<int64_t> lag_records;  // nullopt: of no task known
  std::optional<absl::Duration> lag;   // the greatest of any pod
  int64_t bytes_left = 0;
  std::optional<absl::Duration> time_left;  // until the last one is restored
  int64_t records = 0;                      // processed since the tasks were opened
  std::string guarantee;
  std::optional<SidecarReport::FirstError> first_error;  // of the lowest task
  std::optional<SidecarReport::Problem> problem;         // of the first pod that has one; one that blocks before others
};
TaskTotals TotalsOf(const std::vector<const SidecarReport*>& reports);

}  // namespace millstream::model

#endif  // MILLSTREAM_OPERATOR_MODEL_SIDECAR_REPORT_H_
