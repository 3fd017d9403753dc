#ifndef MILLSTREAM_OPERATOR_OWN_LEASE_H_
#define MILLSTREAM_OPERATOR_OWN_LEASE_H_

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/base/strings.h"
#include "operator/kube/lease.h"

namespace millstream::program {

// The lease of an operator that was told that there is no other (--no-leader-elect): in memory, so that this process
// always leads and the rest need not know. Thread-safe.
class OwnLease : public kube::LeaseStore {
 public:
  absl::StatusOr<kube::Lease> Read() override {
    absl::MutexLock lock(&mutex_);
    return lease_;
  }
  absl::StatusOr<kube::Lease> Write(const kube::Lease& lease) override {
    absl::MutexLock lock(&mutex_);
    lease_ = lease;
    lease_.resource_version = StrCat(++version_);
    return lease_;
  }

 private:
  absl::Mutex mutex_;
  kube::Lease lease_ ABSL_GUARDED_BY(mutex_);
  int version_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace millstream::program

#endif  // MILLSTREAM_OPERATOR_OWN_LEASE_H_
