#ifndef MILLSTREAM_SIDECAR_HOST_TASK_TABLE_H_
#define MILLSTREAM_SIDECAR_HOST_TASK_TABLE_H_

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/base/ids.h"
#include "sidecar/store/task_store.h"

namespace millstream::host {

// The open state of the process's tasks. Thread-safe; a store lives until the last user lets it go.
class TaskTable {
 public:
  using Store = std::shared_ptr<store::TaskStore>;

  void Put(TaskId task, Store store) {
    absl::MutexLock lock(&mutex_);
    stores_[task] = std::move(store);
  }
  // nullptr if the task is not open.
  Store Get(TaskId task) const {
    absl::MutexLock lock(&mutex_);
    const auto found = stores_.find(task);
    return found == stores_.end() ? nullptr : found->second;
  }
  Store Take(TaskId task) {
    absl::MutexLock lock(&mutex_);
    const auto found = stores_.find(task);
    if (found == stores_.end()) return nullptr;
    Store store = std::move(found->second);
    stores_.erase(found);
    closed_[task] = store->positions();
    return store;
  }
  // State that is on disk and was not opened yet.
  void Remember(TaskId task, const store::Positions& positions) {
    absl::MutexLock lock(&mutex_);
    closed_.try_emplace(task, positions);
  }
  // How far every task's state has come: of open ones now, of others when they were closed, or as remembered.
  std::map<TaskId, store::Positions> Positions() const {
    absl::MutexLock lock(&mutex_);
    std::map<TaskId, store::Positions> positions = closed_;
    for (const auto& [task, store] : stores_) positions[task] = store->positions();
    return positions;
  }
  std::vector<std::pair<TaskId, Store>> All() const {
    absl::MutexLock lock(&mutex_);
    return {stores_.begin(), stores_.end()};
  }

 private:
  mutable absl::Mutex mutex_;
  std::map<TaskId, Store> stores_ ABSL_GUARDED_BY(mutex_);
  std::map<TaskId, store::Positions> closed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millstream::host

#endif  // MILLSTREAM_SIDECAR_HOST_TASK_TABLE_H_
