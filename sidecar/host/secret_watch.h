#ifndef MILLSTREAM_SIDECAR_HOST_SECRET_WATCH_H_
#define MILLSTREAM_SIDECAR_HOST_SECRET_WATCH_H_

#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/metrics.h"
#include "common/log/kafka/live_access.h"
#include "sidecar/host/conditions.h"

namespace millstream::host {

struct SecretWatchOptions {
  // Between looks at the folder. A change is taken at the second look that finds it.
  absl::Duration interval = absl::Seconds(5);
  // Between attempts with secrets that brokers do not take: doubled each time, so that no account is locked.
  absl::Duration first_retry = absl::Seconds(5), longest_retry = absl::Minutes(1);
};

// Notices rotated secrets and has the processor go on with them: looks from time to time at the folder that the kubelet
// (or somebody else) keeps up to date, tries what is new on a broker, and puts it in force (LiveAccess). What cannot be
// read or is not taken is a condition as long as it lies there; connections go on with the secrets before.
//
// Look and Start are of one thread, before Start of the caller's; the rest is thread-safe.
class SecretWatch {
 public:
  // The access with the secrets as they are in the folder now.
  using Read = std::function<absl::StatusOr<kafka::ClusterAccess>()>;
  // Whether brokers take it; blocks for a bounded time. INVALID_ARGUMENT: it cannot be used at all; others: a broker
  // refuses it, is not to be trusted by it, or does not answer.
  using Try = std::function<absl::Status(const kafka::ClusterAccess& access)>;

  // `clock` and `metrics` outlive it.
  SecretWatch(const SecretWatchOptions& options, std::shared_ptr<kafka::LiveAccess> live, Read read, Try attempt,
              const Clock* clock, MetricsRegistry* metrics);
  ~SecretWatch();

  // Looks every interval on a thread of its own, from now on.
  void Start();
  // One look.
  void Look();
  // At most one.
  std::vector<Condition> Conditions() const;
  // Ends the thread after the look it is in. Idempotent.
  void Stop();

 private:
  void Run();
  // Nothing is in the folder but what is in force.
  void Settle();
  void Unreadable(const absl::Status& why);
  void Attempt(const kafka::ClusterAccess& access);
  void Tell(std::optional<Condition> condition);

  const SecretWatchOptions options_;
  const std::shared_ptr<kafka::LiveAccess> live_;
  const Read read_;
  const Try try_;
  const Clock* const clock_;
  Counter* const taken_;
  Gauge* const waiting_;

  // Of whoever looks. Found at the last look, and not in force: files may be written one after the other.
  std::optional<kafka::ClusterAccess> found_;
  std::optional<absl::Status> unread_;  // why the last look found nothing
  absl::Duration retry_at_ = -absl::InfiniteDuration(), retry_pause_;

  mutable absl::Mutex mutex_;
  std::optional<Condition> condition_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace millstream::host

#endif  // MILLSTREAM_SIDECAR_HOST_SECRET_WATCH_H_
