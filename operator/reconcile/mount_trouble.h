#ifndef MILLSTREAM_OPERATOR_RECONCILE_MOUNT_TROUBLE_H_
#define MILLSTREAM_OPERATOR_RECONCILE_MOUNT_TROUBLE_H_

#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "operator/kube/client.h"

namespace millstream::reconcile {

// Why a pod waits for its volumes. The pod itself says "ContainerCreating" only; that a Secret or ConfigMap is missing
// is in an event of its kubelet (reason FailedMount), and the operator has no right on Secrets to look for itself.
// Without the right to list events nothing is known, and that is all. Thread-safe; pointers outlive it.
class MountTrouble {
 public:
  // A pod that mounts volumes without trouble is done sooner.
  static constexpr absl::Duration kPatience = absl::Seconds(10);
  // An answer is used for so long.
  static constexpr absl::Duration kKept = absl::Seconds(20);
  // More pods that wait at once are not remembered but asked about again.
  static constexpr size_t kMaxRemembered = 1000;

  struct Trouble {
    std::string reason;  // SecretNotFound, ConfigMapNotFound, FailedMount; empty: none known
    std::string message;
  };

  MountTrouble(kube::Client* client, const Clock* clock) : client_(client), clock_(clock) {}

  // Of a pod that waits without saying why. Blocks for one call, seldom.
  Trouble Of(const kube::ObjectKey& pod, const std::string& uid, absl::Time created);

 private:
  Trouble Ask(const kube::ObjectKey& pod, const std::string& uid) const;

  kube::Client* const client_;
  const Clock* const clock_;
  absl::Mutex mutex_;
  struct Answer {
    Trouble trouble;
    absl::Duration at;
  };
  std::map<std::string, Answer> answers_ ABSL_GUARDED_BY(mutex_);  // by uid of the pod
};

// From the words of a kubelet, of events and of waiting containers alike: `secret "kafka-user" not found`, `couldn't
// find key password in Secret orders/kafka-user`.
MountTrouble::Trouble TroubleFrom(const std::string& kubelet_says);
// A container that waits for the reason waits for a volume or has only begun.
bool WaitsSilently(const std::string& reason);

}  // namespace millstream::reconcile

#endif  // MILLSTREAM_OPERATOR_RECONCILE_MOUNT_TROUBLE_H_
