#include "sidecar/host/state_on_disk.h"

#include "common/base/strings.h"
#include "common/base/thread_name.h"
#include "sidecar/store/positions_on_disk.h"

namespace millstream::host {

void StateOnDisk::Look() {
  thread_ = std::thread([this, tasks = options_.spec->TasksOf(options_.topics.tasks)] {
    NameThread("disk-look");
    LookAt(tasks);
  });
}

StateOnDisk::~StateOnDisk() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
}

void StateOnDisk::LookAt(const std::vector<TaskId>& tasks) {
  for (const TaskId task : tasks) {
    if (stopping_) return;
    const absl::StatusOr<store::Positions> found =
        store::PositionsOnDisk(FolderOf(options_, task), IdentityOf(options_, task));
    // What cannot be read is as good as nothing: opening the task will wipe it or say what is wrong.
    if (found.ok()) table_->Remember(task, *found);
  }
  looked_ = true;
}

std::vector<group::RestoredPosition> StateOnDisk::Positions() const {
  std::vector<group::RestoredPosition> result;
  for (const auto& [task, positions] : table_->Positions()) {
    int64_t sum = 0;
    bool any = false;
    for (const auto& [store, offset] : positions.changelog) {
      // Joins come after the stores, and are on disk.
      const std::vector<spec::StoreSpec>& stores = options_.spec->stores;
      if (store < stores.size() && stores[store].backend != spec::StoreBackend::kDisk) continue;
      sum += offset.value();
      any = true;
    }
    // Where the changelogs end now is not known here; the leader compares members with each other.
    if (any) result.push_back({.task = task, .position = sum, .end = sum});
  }
  return result;
}

}  // namespace millstream::host
