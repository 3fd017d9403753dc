#ifndef MILLSTREAM_SIDECAR_HOST_STATE_ON_DISK_H_
#define MILLSTREAM_SIDECAR_HOST_STATE_ON_DISK_H_

#include <atomic>
#include <thread>
#include <vector>

#include "sidecar/group/plan/member_data.h"
#include "sidecar/host/task_opener.h"
#include "sidecar/host/task_table.h"

namespace millstream::host {

// How much state of its processor's tasks this process has on disk, for the group's leader: tasks go where least is to
// be read back. An earlier run may have left some: Look finds it, and from then on the table of open tasks knows.
// Stores in memory do not count: nothing of them is left when a task moves or the process ends.
class StateOnDisk {
 public:
  // `table` and what `options` points to outlive it.
  StateOnDisk(const TaskStateOptions& options, TaskTable* table) : options_(options), table_(table) {}
  // Ends the look early.
  ~StateOnDisk();

  // Looks into the folders of an earlier run, on a thread of its own. At most once, and before tasks are opened.
  void Look();
  // That is done: joining before would hide what is there. Thread-safe.
  bool looked() const { return looked_; }
  // Ascending by task. Does not wait for a disk. Thread-safe.
  std::vector<group::RestoredPosition> Positions() const;

 private:
  void LookAt(const std::vector<TaskId>& tasks);

  const TaskStateOptions options_;
  TaskTable* const table_;
  std::atomic<bool> looked_{false}, stopping_{false};
  std::thread thread_;
};

}  // namespace millstream::host

#endif  // MILLSTREAM_SIDECAR_HOST_STATE_ON_DISK_H_
