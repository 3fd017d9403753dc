#include "sidecar/group/local_membership.h"

#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "common/base/status.h"

namespace millstream::group {
namespace {

class LocalMembership : public Membership {
 public:
  LocalMembership(LocalMembershipOptions options, MembershipEvents* events)
      : options_(std::move(options)), events_(events) {}

  absl::Status Join() override {
    {
      std::lock_guard lock(mutex_);
      if (token_.has_value() && !draining_) return absl::OkStatus();
    }
    if (TakeDrainBack()) return absl::OkStatus();
    absl::StatusOr<log::GroupToken> token = options_.join();
    if (!token.ok()) return Annotate(token.status(), "join the group");
    {
      std::lock_guard lock(mutex_);
      token_ = *token;
    }
    events_->OnToken(*token, /*members=*/1);
    {
      std::lock_guard lock(mutex_);
      held_ = {options_.tasks.begin(), options_.tasks.end()};
    }
    events_->OnAssigned(options_.tasks);
    return absl::OkStatus();
  }

  void TaskReleased(TaskId task) override {
    {
      std::lock_guard lock(mutex_);
      if (coming_back_.erase(task) > 0) return;
      held_.erase(task);
      if (!draining_ || !held_.empty()) return;
      draining_ = false;
    }
    Leave();
    events_->OnDrained();
  }
  // Nobody waits for it: there is no other member.
  void RebalanceReady() override {}

  void Drain() override {
    std::vector<TaskId> tasks;
    {
      std::lock_guard lock(mutex_);
      if (draining_) return;
      draining_ = token_.has_value() && !held_.empty();
      if (draining_) tasks.assign(held_.begin(), held_.end());
    }
    if (!tasks.empty()) return events_->OnRevoked(tasks);
    Leave();
    events_->OnDrained();
  }

  void Leave() override {
    {
      std::lock_guard lock(mutex_);
      draining_ = false;
      coming_back_.clear();
    }
    std::optional<log::GroupToken> token;
    {
      std::lock_guard lock(mutex_);
      token.swap(token_);
    }
    if (token.has_value()) options_.leave(*token);
  }

 private:
  // Assigns everything again: what was let go of, and what is about to be.
  bool TakeDrainBack() {
    {
      std::lock_guard lock(mutex_);
      if (!std::exchange(draining_, false)) return false;
      coming_back_ = held_;
      held_ = {options_.tasks.begin(), options_.tasks.end()};
    }
    events_->OnAssigned(options_.tasks);
    return true;
  }

  const LocalMembershipOptions options_;
  MembershipEvents* const events_;
  std::mutex mutex_;                      // guards what follows
  std::optional<log::GroupToken> token_;  // set while joined
  std::set<TaskId> held_;
  std::set<TaskId> coming_back_;  // revoked by a drain that was taken back, and not released yet
  bool draining_ = false;
};

}  // namespace

std::unique_ptr<Membership> NewLocalMembership(LocalMembershipOptions options, MembershipEvents* events) {
  return std::make_unique<LocalMembership>(std::move(options), events);
}

}  // namespace millstream::group
