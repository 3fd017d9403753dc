#ifndef MILLSTREAM_OPERATOR_RECONCILE_FINALIZER_H_
#define MILLSTREAM_OPERATOR_RECONCILE_FINALIZER_H_

#include "absl/status/statusor.h"
#include "operator/kube/client.h"
#include "operator/reconcile/world.h"

namespace millstream::reconcile {

// Of processors whose topics go with them (internalTopics.whenDeleted: Delete), and only of those: a processor without
// it is gone at once, whether an operator runs or not. To get rid of it by hand:
//   kubectl patch streamprocessor NAME --type=json -p '[{"op":"remove","path":"/metadata/finalizers"}]'
inline constexpr std::string_view kTopicsFinalizer = "millstream.dev/topics";

bool HasFinalizer(const Json& processor);
// The processor with the finalizer, or without it; written only if that is a change. ABORTED: it has changed meanwhile.
absl::StatusOr<Json> SetFinalizer(kube::Client* client, World* world, const Json& processor, bool wanted);

}  // namespace millstream::reconcile

#endif  // MILLSTREAM_OPERATOR_RECONCILE_FINALIZER_H_
