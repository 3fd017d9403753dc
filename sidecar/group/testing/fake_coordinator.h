#ifndef MILLSTREAM_SIDECAR_GROUP_TESTING_FAKE_COORDINATOR_H_
#define MILLSTREAM_SIDECAR_GROUP_TESTING_FAKE_COORDINATOR_H_

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "sidecar/group/member_io.h"
#include "sidecar/group/wire/error_code.h"

namespace millstream::group {

// One group as a broker keeps it (Kafka's classic protocol, versions as used here), with time that the test decides:
// the join barrier, expiry, static members, the restarted leader. As observed on a 4.4 broker. One thread.
class FakeCoordinator {
 public:
  using Reply = std::function<void(CallResponse)>;

  // Answers now or later, through `reply`. FindCoordinator always succeeds.
  void Call(absl::Duration now, const CallRequest& request, Reply reply);
  // Expiry of sessions and of the rebalance; at least every 100 ms of the test's time.
  void Tick(absl::Duration now);

  int32_t generation() const { return generation_; }
  bool Knows(const std::string& member_id) const { return members_.count(member_id) > 0; }
  size_t size() const { return members_.size(); }
  bool stable() const { return state_ == State::kStable; }
  const std::string& leader() const { return leader_; }

 private:
  enum class State { kEmpty, kPreparing, kCompleting, kStable };
  struct Member {
    std::string instance_id, metadata, assignment;
    absl::Duration session, rebalance, last_sign;
    Reply join, sync;  // being waited with
  };

  void Join(const wire::JoinGroupRequest& request, Reply reply);
  void JoinStatic(const wire::JoinGroupRequest& request, Reply reply);
  void JoinKnown(const std::string& id, const wire::JoinGroupRequest& request, Reply reply);
  void Sync(const wire::SyncGroupRequest& request, const Reply& reply);
  void Heartbeat(const wire::HeartbeatRequest& request, const Reply& reply);
  void Leave(const wire::LeaveGroupRequest& request, const Reply& reply);

  wire::ErrorCode Check(const std::string& member_id, const std::string& instance_id) const;
  void Update(Member* member, const wire::JoinGroupRequest& request);
  void Prepare();
  void CompleteJoinIfAllAreHere();
  void CompleteJoin();
  void Remove(const std::string& id);
  void ReplyJoin(const std::string& id, const Reply& reply) const;
  std::string NewId(const std::string& prefix);

  absl::Duration now_;
  State state_ = State::kEmpty;
  int32_t generation_ = 0;
  std::string leader_;
  std::map<std::string, Member> members_;
  std::map<std::string, std::string> static_ids_;  // instance -> member id
  std::set<std::string> pending_;                  // ids given out, not joined yet
  absl::Duration rebalance_by_, sync_by_;
  int ids_ = 0;
};

}  // namespace millstream::group

#endif  // MILLSTREAM_SIDECAR_GROUP_TESTING_FAKE_COORDINATOR_H_
