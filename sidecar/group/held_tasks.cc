#include "sidecar/group/held_tasks.h"

#include <algorithm>

namespace millstream::group {

HeldTasks::Change HeldTasks::Assign(Generation generation, const std::vector<TaskId>& tasks) {
  Change change;
  assigned_ = std::set<TaskId>(tasks.begin(), tasks.end());
  generation_ = generation;
  in_force_ = true;
  for (auto& [task, held] : held_) {
    if (assigned_.count(task) > 0) {
      held.received = generation;  // one on its way out comes back when it is out
    } else if (!held.releasing) {
      held.releasing = true;
      ++releasing_;
      change.revoked.push_back(task);
    }
  }
  for (const TaskId task : assigned_) {
    if (held_.count(task) > 0 || closing_.count(task) > 0) continue;
    held_[task] = {generation, false};
    change.assigned.push_back(task);
  }
  return change;
}

HeldTasks::Release HeldTasks::Released(TaskId task) {
  Release release;
  if (closing_.erase(task) == 0) {
    const auto held = held_.find(task);
    if (held == held_.end()) return release;
    if (!held->second.releasing) {  // given up without order: the engine shuts down
      held_.erase(held);
      assigned_.erase(task);
      return release;
    }
    --releasing_;
    held_.erase(held);
    release.publish = in_force_ && assigned_.count(task) == 0;
  }
  if (in_force_ && assigned_.count(task) > 0) {
    held_[task] = {generation_, false};
    release.again = true;
  }
  return release;
}

void HeldTasks::LoseAll() {
  for (const auto& [task, held] : held_) closing_.insert(task);
  held_.clear();
  assigned_.clear();
  published_.clear();
  in_force_ = false;
  releasing_ = 0;
}

std::vector<OwnedTask> HeldTasks::Owned() const {
  std::vector<OwnedTask> owned;
  for (const auto& [task, held] : held_) owned.push_back({task, held.received});
  return owned;
}

void HeldTasks::Published() {
  in_force_ = false;
  published_.clear();
  for (const auto& [task, held] : held_) published_.insert(task);
}

bool HeldTasks::Holds(const std::vector<TaskId>& tasks) const {
  return std::all_of(tasks.begin(), tasks.end(), [this](TaskId task) { return held_.count(task) > 0; });
}

bool HeldTasks::Outdated() const {
  return std::any_of(published_.begin(), published_.end(),
                     [this](TaskId task) { return held_.count(task) == 0 && assigned_.count(task) == 0; });
}

}  // namespace millstream::group
