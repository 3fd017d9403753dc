#ifndef MILLSTREAM_SIDECAR_GROUP_TESTING_FAKE_ENGINE_H_
#define MILLSTREAM_SIDECAR_GROUP_TESTING_FAKE_ENGINE_H_

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "sidecar/group/kafka_membership.h"

namespace millstream::group {

// Who holds which task, over all members of a test: two at a time is what must never happen.
class Ownership {
 public:
  void Take(const std::string& who, TaskId task);
  void Drop(const std::string& who, TaskId task);
  std::vector<std::string> violations() const;
  // Waits until so many tasks have an owner.
  bool AwaitOwned(size_t count) const;

 private:
  mutable absl::Mutex mutex_;
  std::map<TaskId, std::string> owners_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> violations_ ABSL_GUARDED_BY(mutex_);
};

// The other side of a membership, as the engine is: answers rebalances and revocations at once, remembers what it was
// told. Thread-safe.
class FakeEngine : public MembershipEvents {
 public:
  // `ownership` outlives it.
  FakeEngine(std::string name, Ownership* ownership) : name_(std::move(name)), ownership_(ownership) {}
  // The membership is made, and joins.
  void Start(KafkaMembershipOptions options);
  // Dies: no leaving.
  void Kill();
  // Ends as a drained process does: lets go of everything, leaves.
  void Leave();
  Membership& membership() { return *membership_; }

  struct Seen {
    std::set<TaskId> tasks;
    log::GroupToken token;
    int members = 0, tokens = 0, rebalances = 0, revoked = 0;
    std::vector<absl::Status> lost;
    absl::Status problem, stopped;
    bool drained = false;
  };
  Seen seen() const;
  // Waits until `condition` holds; false: not within `limit`.
  bool Await(const std::function<bool(const Seen&)>& condition, absl::Duration limit = absl::Seconds(30)) const;
  bool AwaitTasks(size_t count) const;

 private:
  void OnToken(const log::GroupToken& token, int members) override;
  void OnAssigned(const std::vector<TaskId>& tasks) override;
  void OnRevoked(const std::vector<TaskId>& tasks) override;
  void OnRebalance() override;
  void OnLost(const absl::Status& cause) override;
  void OnProblem(const absl::Status& problem) override;
  void OnStopped(const absl::Status& cause) override;
  void OnDrained() override;

  const std::string name_;
  Ownership* const ownership_;
  mutable absl::Mutex mutex_;
  Seen seen_ ABSL_GUARDED_BY(mutex_);
  bool leaving_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<Membership> membership_;
};

}  // namespace millstream::group

#endif  // MILLSTREAM_SIDECAR_GROUP_TESTING_FAKE_ENGINE_H_
