#ifndef MILLSTREAM_OPERATOR_RUNTIME_CONTROLLER_H_
#define MILLSTREAM_OPERATOR_RUNTIME_CONTROLLER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/metrics.h"
#include "operator/runtime/rate_limiter.h"
#include "operator/runtime/work_queue.h"

namespace millstream::runtime {

// What a pass over one key wants.
struct Pass {
  absl::Duration again_after = absl::ZeroDuration();  // zero: only when something changes
};

// Reads the world and brings one key closer to what it should be. Never called for one key by two threads at once. `id`
// names the pass in log lines. Errors: INVALID_ARGUMENT: no repetition will help, the user was told; ABORTED: read
// again and repeat; FAILED_PRECONDITION: not the leader any more; anything else is tried again later.
using Reconcile = std::function<absl::StatusOr<Pass>(const std::string& key, const std::string& id)>;

struct ControllerOptions {
  std::string name;  // in metrics and threads: "processors"
  int workers = 4;
  // A key whose error will not go away by itself is looked at again so seldom.
  absl::Duration hopeless_delay = absl::Minutes(10);
  // All calls of a pass together end by then (kube::TimeLimit); it fails, and the next one goes on. A server that takes
  // its time for each of many calls must not hold a worker for ever.
  absl::Duration pass_limit = absl::Seconds(90);
  uint64_t seed = 0;
};

// Workers that take keys from a queue. The one place where the result of a pass becomes a repetition, a log line and
// metrics. Thread-safe; `clock` and `metrics` outlive it.
class Controller {
 public:
  Controller(ControllerOptions options, Reconcile reconcile, const Clock* clock, MetricsRegistry* metrics);
  ~Controller();  // Stop

  // Where news about keys goes.
  WorkQueue& queue() { return queue_; }
  // The threads. Without it, ProcessOne does the work.
  void Start();
  // Returns when the passes under way are over.
  void Stop();
  // One key that is due, on this thread; false: there is none.
  bool ProcessOne();
  // How long the longest pass under way has taken so far; zero: none is under way.
  absl::Duration longest_pass() const { return queue_.longest_running(); }
  // Brings the gauges up to date, before they are read.
  void UpdateGauges();

 private:
  void Handle(const std::string& key);
  absl::StatusOr<Pass> RunPass(const std::string& key, const std::string& id) const;
  void Settle(const std::string& key, const std::string& id, const absl::StatusOr<Pass>& result);
  void Count(const std::string& result);

  const ControllerOptions options_;
  const Reconcile reconcile_;
  const Clock* const clock_;
  MetricsRegistry* const metrics_;
  WorkQueue queue_;
  RateLimiter limiter_;
  std::atomic<int64_t> passes_{0};
  std::vector<std::thread> threads_;
};

}  // namespace millstream::runtime

#endif  // MILLSTREAM_OPERATOR_RUNTIME_CONTROLLER_H_
