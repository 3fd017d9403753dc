#ifndef MILLSTREAM_OPERATOR_RECONCILE_ROLLOUT_SLOTS_H_
#define MILLSTREAM_OPERATOR_RECONCILE_ROLLOUT_SLOTS_H_

#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace millstream::reconcile {

// How many processors may be rolled at a time because of a new operator (maxConcurrentRollouts): its default sidecar
// image would otherwise restart every pod of the cluster at once. Thread-safe.
class RolloutSlots {
 public:
  explicit RolloutSlots(int slots) : slots_(slots) {}

  // True: the processor has a slot, also when it had one before. It keeps it until Give.
  bool Take(const std::string& key) {
    absl::MutexLock lock(&mutex_);
    if (taken_.contains(key)) return true;
    if (taken_.size() >= static_cast<size_t>(slots_)) return false;
    return taken_.insert(key).second;
  }
  // Whether it had one.
  bool Give(const std::string& key) {
    absl::MutexLock lock(&mutex_);
    return taken_.erase(key) > 0;
  }
  void Clear() {
    absl::MutexLock lock(&mutex_);
    taken_.clear();
  }

 private:
  const int slots_;
  absl::Mutex mutex_;
  std::set<std::string> taken_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millstream::reconcile

#endif  // MILLSTREAM_OPERATOR_RECONCILE_ROLLOUT_SLOTS_H_
