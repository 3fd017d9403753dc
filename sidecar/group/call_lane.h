#ifndef MILLSTREAM_SIDECAR_GROUP_CALL_LANE_H_
#define MILLSTREAM_SIDECAR_GROUP_CALL_LANE_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/base/metrics.h"
#include "sidecar/group/member_io.h"
#include "sidecar/group/net/cluster_client.h"
#include "sidecar/group/transaction_ender.h"

namespace millstream::group {

// A thread with connections of its own that makes a member's calls, one after the other. Thread-safe.
class CallLane {
 public:
  using Call = std::variant<CallBroker, EndVanished>;

  // `done` takes each call's answer, on the lane's thread. `seconds` (may be null) takes how long answers took.
  CallLane(ClusterClient client, absl::Duration transaction_timeout, std::function<void(MemberEvent)> done,
           Histogram* seconds);
  ~CallLane();

  // At most one call is under way or waits, apart from one that was given up.
  void Do(Call call);
  // Cuts what is under way short; its answer, CANCELLED, still comes.
  void GiveUp();

 private:
  void Run();
  MemberEvent Make(const Call& call, const Cancel& cancel);
  MemberEvent Make(const CallBroker& call, const Cancel& cancel);
  MemberEvent Make(const EndVanished& call, const Cancel& cancel);

  ClusterClient client_;
  TransactionEnder ender_;
  const std::function<void(MemberEvent)> done_;
  Histogram* const seconds_;

  absl::Mutex mutex_;
  struct Order {
    Call call;
    std::shared_ptr<Cancel> cancel;
  };
  std::vector<Order> waiting_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Cancel> cancel_ ABSL_GUARDED_BY(mutex_);  // of what was ordered last; all before is given up
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace millstream::group

#endif  // MILLSTREAM_SIDECAR_GROUP_CALL_LANE_H_
