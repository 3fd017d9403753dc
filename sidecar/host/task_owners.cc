#include "sidecar/host/task_owners.h"

#include <algorithm>

#include "common/base/log_line.h"
#include "common/base/thread_name.h"

namespace millstream::host {
namespace {

constexpr absl::Duration kFresh = absl::Seconds(1);

}  // namespace

TaskOwners::TaskOwners(MembersFn members, const Clock* clock) : members_(std::move(members)), clock_(clock) {
  thread_ = std::thread([this] {
    NameThread("task-owners");
    Run();
  });
}

TaskOwners::~TaskOwners() { Stop(); }

void TaskOwners::Find(TaskId task, Done done) {
  {
    absl::MutexLock lock(&mutex_);
    if (!stopping_ && pending_.size() < kMaxPending) {
      pending_.emplace_back(task, std::move(done));
      return;
    }
  }
  done("");
}

void TaskOwners::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void TaskOwners::Run() {
  const auto something_to_do = [this]()
                                   ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || !pending_.empty(); };
  bool stopping = false;
  while (!stopping) {
    std::deque<std::pair<TaskId, Done>> questions;
    {
      absl::MutexLock lock(&mutex_, absl::Condition(&something_to_do));
      stopping = stopping_;
      questions.swap(pending_);
    }
    if (!stopping) Refresh();
    for (auto& [task, done] : questions) done(stopping ? "" : WhereIs(task));
  }
}

void TaskOwners::Refresh() {
  if (clock_->Monotonic() < known_until_) return;
  absl::StatusOr<std::vector<Member>> found = members_();
  if (!found.ok()) LogWarning("who has which task is unknown", {{"error", found.status().ToString()}});
  known_ = found.ok() ? *std::move(found) : std::vector<Member>();
  known_until_ = clock_->Monotonic() + kFresh;
}

std::string TaskOwners::WhereIs(TaskId task) const {
  for (const Member& member : known_) {
    if (std::find(member.tasks.begin(), member.tasks.end(), task) != member.tasks.end()) return member.where;
  }
  return "";
}

}  // namespace millstream::host
