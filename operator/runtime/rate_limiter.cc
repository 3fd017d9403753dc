#include "operator/runtime/rate_limiter.h"

#include <algorithm>
#include <cmath>

namespace millstream::runtime {
namespace {
// 2^60 times anything is beyond every bound.
constexpr int kMaxDoublings = 60;
}  // namespace

absl::Duration BackoffDelay(const BackoffOptions& options, int failures, double chance) {
  const double factor = std::ldexp(1.0, std::clamp(failures - 1, 0, kMaxDoublings));
  const absl::Duration delay = std::min(options.max, options.first * factor);
  return delay * (1 - options.jitter * chance);
}

RateLimiter::RateLimiter(const Clock* clock, uint64_t seed, BackoffOptions options)
    : clock_(clock), options_(options), random_(seed), filled_at_(clock->Monotonic()) {}

absl::Duration RateLimiter::Reserve() {
  const absl::Duration now = clock_->Monotonic();
  tokens_ = std::min(kBurst, tokens_ + kPerSecond * absl::ToDoubleSeconds(now - filled_at_));
  filled_at_ = now;
  tokens_ -= 1;
  return tokens_ >= 0 ? absl::ZeroDuration() : absl::Seconds(-tokens_ / kPerSecond);
}

absl::Duration RateLimiter::When(const std::string& key) {
  absl::MutexLock lock(&mutex_);
  int& failures = failures_[key];
  failures = std::min(failures + 1, kMaxDoublings);
  const double chance = std::uniform_real_distribution<double>(0, 1)(random_);
  return std::max(Reserve(), BackoffDelay(options_, failures, chance));
}

void RateLimiter::Forget(const std::string& key) {
  absl::MutexLock lock(&mutex_);
  failures_.erase(key);
}

int RateLimiter::failures(const std::string& key) const {
  absl::MutexLock lock(&mutex_);
  const auto found = failures_.find(key);
  return found == failures_.end() ? 0 : found->second;
}

}  // namespace millstream::runtime
