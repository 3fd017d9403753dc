#include "sidecar/group/local_membership.h"

#include <mutex>
#include <optional>
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
    std::vector<TaskId> tasks;
    for (int number = 0; number < options_.tasks; ++number) tasks.push_back(TaskId(number));
    events_->OnAssigned(tasks);
    return absl::OkStatus();
  }

  // Nobody waits for these: there is no other member.
  void TaskReleased(TaskId) override {}
  void RebalanceReady() override {}

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
  std::mutex mutex_;
  std::optional<log::GroupToken> token_;  // guarded by mutex_; set while joined
};

}  // namespace

std::unique_ptr<Membership> NewLocalMembership(LocalMembershipOptions options, MembershipEvents* events) {
  return std::make_unique<LocalMembership>(std::move(options), events);
}

}  // namespace millstream::group
