#ifndef MILLSTREAM_OPERATOR_RECONCILE_POD_TROUBLE_H_
#define MILLSTREAM_OPERATOR_RECONCILE_POD_TROUBLE_H_

#include <optional>
#include <string>

#include "operator/kube/json.h"

namespace millstream::reconcile {

// Why a pod does not become ready, as far as the API server knows.
struct PodTrouble {
  std::string pod;
  std::string reason;   // ErrImagePull, ImagePullBackOff, CreateContainerConfigError, SecretNotFound, CrashLoopBackOff,
                        // OOMKilled, Unschedulable, Evicted ...; ContainerCreating: it waits without saying why
  std::string message;  // with the container, the image or the last words of the program, and the way out
};

// nullopt: it is ready, or it is on its way and nothing is wrong. Back-off times and restart counts are not in the
// message: they would make it another one each time.
std::optional<PodTrouble> TroubleOf(const kube::Json& pod);

}  // namespace millstream::reconcile

#endif  // MILLSTREAM_OPERATOR_RECONCILE_POD_TROUBLE_H_
