#include "sidecar/group/testing/fake_engine.h"

#include <utility>

#include "common/base/strings.h"

namespace millstream::group {

void Ownership::Take(const std::string& who, TaskId task) {
  absl::MutexLock lock(&mutex_);
  const auto [entry, taken] = owners_.try_emplace(task, who);
  if (!taken) violations_.push_back(StrCat(who, " took task ", task.value(), " of ", entry->second));
}

void Ownership::Drop(const std::string& who, TaskId task) {
  absl::MutexLock lock(&mutex_);
  const auto entry = owners_.find(task);
  if (entry != owners_.end() && entry->second == who) owners_.erase(entry);
}

std::vector<std::string> Ownership::violations() const {
  absl::MutexLock lock(&mutex_);
  return violations_;
}

bool Ownership::AwaitOwned(size_t count) const {
  absl::MutexLock lock(&mutex_);
  const auto holds = [&] {
    mutex_.AssertHeld();
    return owners_.size() == count;
  };
  return mutex_.AwaitWithTimeout(absl::Condition(&holds), absl::Seconds(30));
}

void FakeEngine::Start(KafkaMembershipOptions options) {
  membership_ = NewKafkaMembership(std::move(options), this);
  const absl::Status joined = membership_->Join();
  absl::MutexLock lock(&mutex_);
  seen_.problem = joined;
}

void FakeEngine::Kill() {
  membership_.reset();
  absl::MutexLock lock(&mutex_);
  for (const TaskId task : std::exchange(seen_.tasks, {})) ownership_->Drop(name_, task);
}

void FakeEngine::Leave() {
  std::set<TaskId> tasks;
  {
    absl::MutexLock lock(&mutex_);
    leaving_ = true;
    tasks.swap(seen_.tasks);
    for (const TaskId task : tasks) ownership_->Drop(name_, task);
  }
  for (const TaskId task : tasks) membership_->TaskReleased(task);
  membership_->Leave();
}

FakeEngine::Seen FakeEngine::seen() const {
  absl::MutexLock lock(&mutex_);
  return seen_;
}

bool FakeEngine::Await(const std::function<bool(const Seen&)>& condition, absl::Duration limit) const {
  absl::MutexLock lock(&mutex_);
  const auto holds = [&] { return condition(seen_); };
  return mutex_.AwaitWithTimeout(absl::Condition(&holds), limit);
}

bool FakeEngine::AwaitTasks(size_t count) const {
  return Await([count](const Seen& seen) { return seen.tasks.size() == count; });
}

void FakeEngine::OnToken(const log::GroupToken& token, int members) {
  absl::MutexLock lock(&mutex_);
  seen_.token = token;
  seen_.members = members;
  ++seen_.tokens;
}

void FakeEngine::OnAssigned(const std::vector<TaskId>& tasks) {
  {
    absl::MutexLock lock(&mutex_);
    if (!leaving_) {
      for (const TaskId task : tasks) {
        seen_.tasks.insert(task);
        ownership_->Take(name_, task);
      }
      return;
    }
  }
  for (const TaskId task : tasks) membership_->TaskReleased(task);  // a drain takes nothing any more, as in the engine
}

void FakeEngine::OnRevoked(const std::vector<TaskId>& tasks) {
  {
    absl::MutexLock lock(&mutex_);
    for (const TaskId task : tasks) {
      seen_.tasks.erase(task);
      ownership_->Drop(name_, task);
      ++seen_.revoked;
    }
  }
  for (const TaskId task : tasks) membership_->TaskReleased(task);
}

void FakeEngine::OnRebalance() {
  {
    absl::MutexLock lock(&mutex_);
    ++seen_.rebalances;
  }
  membership_->RebalanceReady();
}

void FakeEngine::OnLost(const absl::Status& cause) {
  std::set<TaskId> tasks;
  {
    absl::MutexLock lock(&mutex_);
    seen_.lost.push_back(cause);
    tasks.swap(seen_.tasks);
    for (const TaskId task : tasks) ownership_->Drop(name_, task);
  }
  for (const TaskId task : tasks) membership_->TaskReleased(task);
}

void FakeEngine::OnProblem(const absl::Status& problem) {
  absl::MutexLock lock(&mutex_);
  seen_.problem = problem;
}

void FakeEngine::OnStopped(const absl::Status& cause) {
  absl::MutexLock lock(&mutex_);
  seen_.stopped = cause;
}

void FakeEngine::OnDrained() {
  absl::MutexLock lock(&mutex_);
  seen_.drained = true;
}

}  // namespace millstream::group
