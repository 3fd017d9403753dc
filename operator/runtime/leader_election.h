#ifndef MILLSTREAM_OPERATOR_RUNTIME_LEADER_ELECTION_H_
#define MILLSTREAM_OPERATOR_RUNTIME_LEADER_ELECTION_H_

#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "operator/kube/lease.h"

namespace millstream::runtime {

struct ElectionOptions {
  std::string identity;  // of this process, unique: the pod's name and something random
  // Those of client-go. Preconditions: lease_duration > renew_deadline > retry_period.
  absl::Duration lease_duration = absl::Seconds(15);  // others wait so long for a sign of life
  absl::Duration renew_deadline = absl::Seconds(10);  // so long after its last one a leader stops writing
  absl::Duration retry_period = absl::Seconds(2);
};

// Who of several operators works. A step function over a lease: nothing happens but in Step and Release. A leader whose
// renewals fail has no allowance 10 s after the last one that succeeded began, and others take over 15 s after they saw
// it: writes end before others begin, as long as no two clocks differ in speed by a third. Calendar times in the lease
// are for people; what counts is how long this process has seen a lease unchanged, so clocks may be set to anything.
//
// Step and Release: one thread. The rest: any. `store` and `clock` outlive it.
class LeaderElection {
 public:
  LeaderElection(ElectionOptions options, kube::LeaseStore* store, const Clock* clock);

  // One try to take or keep the lease; says how long to wait before the next. Blocks for the store's calls.
  absl::Duration Step();
  // Leads no more, and says so in the lease, so that the next one need not wait. An error costs only that wait.
  absl::Status Release();

  // How long writes are allowed from now on; zero: not at all (kube::WriteAllowance).
  absl::Duration Allowance() const;
  bool leads() const { return Allowance() > absl::ZeroDuration(); }
  // Counts how often this process began to lead: whoever began work in another term begins anew.
  int64_t term() const;
  // As last seen; empty: nobody.
  std::string holder() const;

 private:
  absl::Status TakeOrRenew();
  absl::Status Write(kube::Lease lease, bool renewal, absl::Duration began);
  void Observe(const kube::Lease& lease);
  bool IsFree(const kube::Lease& lease) const;

  const ElectionOptions options_;
  kube::LeaseStore* const store_;
  const Clock* const clock_;

  // Of the thread that steps.
  std::string seen_version_;  // of the lease
  absl::Duration seen_at_;    // since when it has not changed
  bool was_leader_ = false;   // as of the last step

  mutable absl::Mutex mutex_;
  std::string holder_ ABSL_GUARDED_BY(mutex_);
  absl::Duration allowed_until_ ABSL_GUARDED_BY(mutex_) = -absl::InfiniteDuration();
  int64_t term_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace millstream::runtime

#endif  // MILLSTREAM_OPERATOR_RUNTIME_LEADER_ELECTION_H_
