#ifndef MILLSTREAM_OPERATOR_RECONCILE_PACKED_H_
#define MILLSTREAM_OPERATOR_RECONCILE_PACKED_H_

#include "operator/kube/resource.h"

namespace millstream::reconcile {

using kube::Json;

// How caches keep objects. A tree of JSON values takes about ten times the memory of its text, and a thousand
// processors are nearly ten thousand objects: so an object is kept as text, beside the little that caches and handlers
// look at (name, namespace, uid, version, generation, owner, labels). About 5 KiB for a StatefulSet instead of 50.

// Leaves out what nobody reads: managedFields, kubectl's copy, and of a pod everything but what its state depends on.
void Pack(const kube::Resource& resource, Json* object);
// The whole object again.
Json Unpack(const Json& packed);

// metadata.labels["app.kubernetes.io/instance"] of a packed or whole object: the name of the processor it is of.
std::string ProcessorNameOf(const Json& object);

}  // namespace millstream::reconcile

#endif  // MILLSTREAM_OPERATOR_RECONCILE_PACKED_H_
