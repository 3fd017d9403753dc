#ifndef MILLSTREAM_OPERATOR_MODEL_ORDERS_H_
#define MILLSTREAM_OPERATOR_MODEL_ORDERS_H_

#include <string>

#include "operator/model/processor.h"

namespace millstream::model {

// What a running sidecar is told without a restart: the annotation millstream.dev/orders of its pod, which the kubelet
// projects into a file of the sidecar within about a minute. Compact JSON with sorted keys:
//   {"drain":false,"standbyReplicas":1,"state":"Running"}
// drain: hand over all tasks and leave the group (scale-in, a rolling update with standbys); state: spec.desiredState.
// A sidecar without orders does as its manifest says.
std::string OrdersOf(const Processor& processor, bool drain);

// Whether such an annotation says drain. Anything else than orders does not.
bool SaysDrain(const std::string& orders);

}  // namespace millstream::model

#endif  // MILLSTREAM_OPERATOR_MODEL_ORDERS_H_
