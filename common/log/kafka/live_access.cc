#include "common/log/kafka/live_access.h"

#include <utility>

namespace millstream::kafka {

LiveAccess::LiveAccess(ClusterAccess access) { Change(std::move(access)); }

std::shared_ptr<const AccessInForce> LiveAccess::Now() const {
  absl::MutexLock lock(&mutex_);
  return now_;
}

void LiveAccess::Change(ClusterAccess access) {
  auto next = std::make_shared<AccessInForce>();
  const bool needs_tokens = access.sasl.has_value() && access.sasl->mechanism == SaslMechanism::kOauthBearer;
  if (needs_tokens) next->tokens = NewTokenSource(access);
  next->access = std::move(access);
  absl::MutexLock lock(&mutex_);
  next->version = version_.load(std::memory_order_relaxed) + 1;
  now_ = std::move(next);
  version_.store(now_->version, std::memory_order_release);
}

}  // namespace millstream::kafka
