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
      if (!token_.has_value() || draining_) return;
      draining_ = true;
      tasks.assign(held_.begin(), held_.end());
    }
    events_->OnRevoked(tasks);
  }

  void Leave() override {
    std::optional<log::GroupToken> token;
    {
      std::lock_guard lock(mutex_);
      token.swap(token_);
    }
    if (token.has_value()) options_.leave(*token);
  }

 private:
  const LocalMembershipOptions options_;
  MembershipEvents* const events_;
  std::mutex mutex_;                      // guards what follows
  std::optional<log::GroupToken> token_;  // set while joined
  std::set<TaskId> held_;
  bool draining_ = false;
};

}  // namespace

std::unique_ptr<Membership> NewLocalMembership(LocalMembershipOptions options, MembershipEvents* events) {
  return std::make_unique<LocalMembership>(std::move(options), events);
}

}  // namespace millstream::group
