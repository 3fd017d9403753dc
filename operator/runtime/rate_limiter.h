#ifndef MILLSTREAM_OPERATOR_RUNTIME_RATE_LIMITER_H_
#define MILLSTREAM_OPERATOR_RUNTIME_RATE_LIMITER_H_

#include <cstdint>
#include <random>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/clock.h"

namespace millstream::runtime {

struct BackoffOptions {
  absl::Duration first = absl::Milliseconds(5);
  absl::Duration max = absl::Seconds(1000);
  double jitter = 0.1;  // so much of a delay is left to chance, so that a thousand failures do not come back at once
};

// The delay before try number `failures` (from 1), doubled with each. `chance` in [0, 1).
absl::Duration BackoffDelay(const BackoffOptions& options, int failures, double chance);

// When a failed key may come again: its own exponential delay, and a bound on all keys together (10 a second after a
// burst of 100), the longer of the two. The figures are client-go's. Thread-safe; `clock` outlives it.
class RateLimiter {
 public:
  RateLimiter(const Clock* clock, uint64_t seed, BackoffOptions options = BackoffOptions());

  static constexpr double kPerSecond = 10;
  static constexpr double kBurst = 100;

  // Counts a failure and says how long to wait.
  absl::Duration When(const std::string& key);
  // It succeeded.
  void Forget(const std::string& key);
  int failures(const std::string& key) const;

 private:
  absl::Duration Reserve() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock* const clock_;
  const BackoffOptions options_;
  mutable absl::Mutex mutex_;
  std::mt19937_64 random_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, int> failures_ ABSL_GUARDED_BY(mutex_);  // keys that failed and were not forgotten
  double tokens_ ABSL_GUARDED_BY(mutex_) = kBurst;                          // below zero: promised ahead
  absl::Duration filled_at_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millstream::runtime

#endif  // MILLSTREAM_OPERATOR_RUNTIME_RATE_LIMITER_H_
