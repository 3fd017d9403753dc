#ifndef MILLSTREAM_COMMON_LOG_KAFKA_LIVE_ACCESS_H_
#define MILLSTREAM_COMMON_LOG_KAFKA_LIVE_ACCESS_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/log/kafka/cluster_access.h"
#include "common/log/kafka/oauth.h"

namespace millstream::kafka {

// An access that was in force at some time, and what was made for it. Does not change.
struct AccessInForce {
  ClusterAccess access;
  std::unique_ptr<TokenSource> tokens;  // OAUTHBEARER only
  uint64_t version = 0;                 // grows with every change; the first is 1
};

// The access that is in force: of one processor, shared by its log and its group client. Whoever holds a connection or
// a client remembers the version it was made with, and makes another one when that is not the current one any more and
// nothing of its own is under way (docs/design/0009-rotated-secrets.md). Thread-safe.
class LiveAccess {
 public:
  explicit LiveAccess(ClusterAccess access);

  std::shared_ptr<const AccessInForce> Now() const;
  // That of Now(), without a lock: asked before each transaction and at each poll.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }
  // In force from now on. Nobody is told: they look.
  void Change(ClusterAccess access);

 private:
  mutable absl::Mutex mutex_;
  std::shared_ptr<const AccessInForce> now_ ABSL_GUARDED_BY(mutex_);
  std::atomic<uint64_t> version_{0};
};

}  // namespace millstream::kafka

#endif  // MILLSTREAM_COMMON_LOG_KAFKA_LIVE_ACCESS_H_
