#include "operator/runtime/leader_election.h"

#include <algorithm>
#include <utility>

#include "common/base/log_line.h"
#include "common/base/status.h"

namespace millstream::runtime {

LeaderElection::LeaderElection(ElectionOptions options, kube::LeaseStore* store, const Clock* clock)
    : options_(std::move(options)), store_(store), clock_(clock), seen_at_(clock->Monotonic()) {
  MS_CHECK(!options_.identity.empty());
  MS_CHECK(options_.lease_duration > options_.renew_deadline && options_.renew_deadline > options_.retry_period);
}

absl::Duration LeaderElection::Allowance() const {
  absl::MutexLock lock(&mutex_);
  return std::max(absl::ZeroDuration(), allowed_until_ - clock_->Monotonic());
}

int64_t LeaderElection::term() const {
  absl::MutexLock lock(&mutex_);
  return term_;
}

std::string LeaderElection::holder() const {
  absl::MutexLock lock(&mutex_);
  return holder_;
}

absl::Duration LeaderElection::Step() {
  const absl::Status status = TakeOrRenew();
  const bool is_leader = leads();
  if (was_leader_ && !is_leader) {
    LogWarning("leads no more", {{"identity", options_.identity}, {"error", std::string(status.message())}});
  }
  if (!was_leader_ && is_leader) LogInfo("leads", {{"identity", options_.identity}, {"term", term()}});
  was_leader_ = is_leader;
  return options_.retry_period;
}

absl::Status LeaderElection::TakeOrRenew() {
  // Before the call: a renewal counts from when it was sent, whenever the answer comes.
  const absl::Duration began = clock_->Monotonic();
  absl::StatusOr<kube::Lease> lease = store_->Read();
  if (!lease.ok() && !absl::IsNotFound(lease.status())) return lease.status();
  if (!lease.ok()) lease = kube::Lease();
  Observe(*lease);
  if (!IsFree(*lease)) {
    // Somebody else holds it: whatever was allowed to us is over.
    absl::MutexLock lock(&mutex_);
    allowed_until_ = -absl::InfiniteDuration();
    return absl::OkStatus();
  }
  // In the lease since an earlier life with the same identity, or a write whose answer was lost: taken anew, as a new
  // term, unless this process leads without a break.
  return Write(*lease, lease->holder == options_.identity && leads(), began);
}

void LeaderElection::Observe(const kube::Lease& lease) {
  if (lease.resource_version != seen_version_) {
    seen_version_ = lease.resource_version;
    seen_at_ = clock_->Monotonic();
  }
  absl::MutexLock lock(&mutex_);
  holder_ = lease.holder;
}

bool LeaderElection::IsFree(const kube::Lease& lease) const {
  if (lease.holder.empty() || lease.holder == options_.identity) return true;
  return clock_->Monotonic() - seen_at_ >= std::max(lease.duration, options_.lease_duration);
}

absl::Status LeaderElection::Write(kube::Lease lease, bool renewal, absl::Duration began) {
  const absl::Time now = clock_->WallTime();
  if (!renewal) {
    lease.acquired = now;
    if (lease.holder != options_.identity) lease.transitions += 1;
  }
  lease.holder = options_.identity;
  lease.duration = options_.lease_duration;
  lease.renewed = now;
  const absl::StatusOr<kube::Lease> written = store_->Write(lease);
  if (!written.ok()) return written.status();
  Observe(*written);
  absl::MutexLock lock(&mutex_);
  allowed_until_ = began + options_.renew_deadline;
  if (!renewal) ++term_;
  return absl::OkStatus();
}

absl::Status LeaderElection::Release() {
  {
    absl::MutexLock lock(&mutex_);
    allowed_until_ = -absl::InfiniteDuration();
  }
  was_leader_ = false;
  MS_ASSIGN_OR_RETURN(kube::Lease lease, store_->Read());
  if (lease.holder != options_.identity) return absl::OkStatus();
  lease.holder.clear();
  lease.renewed = clock_->WallTime();
  lease.duration = absl::Seconds(1);
  const absl::StatusOr<kube::Lease> written = store_->Write(lease);
  if (written.ok()) Observe(*written);
  return written.status();
}

}  // namespace millstream::runtime
