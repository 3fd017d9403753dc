#ifndef MILLSTREAM_OPERATOR_RUNTIME_WORK_QUEUE_H_
#define MILLSTREAM_OPERATOR_RUNTIME_WORK_QUEUE_H_

#include <deque>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/clock.h"

namespace millstream::runtime {

// Keys that wait for work. A key is in it once however often it is added, and is handled by one worker at a time: one
// that is added while it is handled comes again when that is done. The three sets and why they suffice are those of
// client-go's util/workqueue. Its size is bounded by the number of distinct keys. Thread-safe; `clock` outlives it.
class WorkQueue {
 public:
  explicit WorkQueue(const Clock* clock) : clock_(clock) {}
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  void Add(const std::string& key);
  // Adds it when `delay` has passed. Of several delays of one key the earliest counts.
  void AddAfter(const std::string& key, absl::Duration delay);

  // The next key, which is then being handled until Done. nullopt: none is due (TryGet), the queue is shut down (Get).
  std::optional<std::string> TryGet();
  std::optional<std::string> Get();
  // Precondition: the key is being handled.
  void Done(const std::string& key);

  // Nothing is added any more, Get returns nullopt at once. Keys that wait are dropped: the next leader lists anew.
  void ShutDown();

  size_t depth() const;    // keys that are due
  size_t delayed() const;  // keys that are not due yet
  // How long the key that is handled for longest has been; zero: none is handled.
  absl::Duration longest_running() const;
  // When the next delayed key is due; infinite: there is none.
  absl::Duration until_next() const;

 private:
  void AddLocked(const std::string& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MoveDue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<std::string> TakeLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Duration UntilNextLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock* const clock_;
  mutable absl::Mutex mutex_;
  absl::CondVar changed_;
  std::deque<std::string> queue_ ABSL_GUARDED_BY(mutex_);  // due, in order; each is in dirty_, none in processing_
  absl::flat_hash_set<std::string> dirty_ ABSL_GUARDED_BY(mutex_);                       // need handling
  absl::flat_hash_map<std::string, absl::Duration> processing_ ABSL_GUARDED_BY(mutex_);  // since when
  std::set<std::pair<absl::Duration, std::string>> delayed_ ABSL_GUARDED_BY(mutex_);     // (when due, key)
  absl::flat_hash_map<std::string, absl::Duration> due_ ABSL_GUARDED_BY(mutex_);         // the same by key
  bool shut_down_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace millstream::runtime

#endif  // MILLSTREAM_OPERATOR_RUNTIME_WORK_QUEUE_H_
