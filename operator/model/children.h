#ifndef MILLSTREAM_OPERATOR_MODEL_CHILDREN_H_
#define MILLSTREAM_OPERATOR_MODEL_CHILDREN_H_

#include <vector>

#include "absl/status/statusor.h"
#include "operator/model/processor.h"

namespace millstream::model {

// Every object that a processor consists of, as it should be, whole, for server-side apply: with apiVersion, kind,
// labels and owner, and only the fields that the operator decides. In the order in which they are applied: what pods
// need comes before them. Pure: the same processor and options give the same objects.
//
// INVALID_ARGUMENT: spec.podTemplate says what it may not (merge.h); the field and the way out.
absl::StatusOr<std::vector<Json>> ChildrenOf(const Processor& processor, const ModelOptions& options);

// The single ones.
Json ServiceAccountOf(const Processor& processor, const ModelOptions& options);  // without rights and without a token
Json ConfigMapOf(const Processor& processor, const ModelOptions& options);       // the canonical manifest
Json ServiceOf(const Processor& processor, const ModelOptions& options);         // headless: names for pods
Json DisruptionBudgetOf(const Processor& processor, const ModelOptions& options);
Json NetworkPolicyOf(const Processor& processor, const ModelOptions& options);
Json PodMonitorOf(const Processor& processor, const ModelOptions& options);
absl::StatusOr<Json> StatefulSetOf(const Processor& processor, const ModelOptions& options);

// What makes and checks the topics (operator.md): runs once for each manifest, says its verdict as termination message.
// A Job's template cannot be changed, so its name has the manifest's hash.
absl::StatusOr<Json> TopicsJobOf(const Processor& processor, const ModelOptions& options);

}  // namespace millstream::model

#endif  // MILLSTREAM_OPERATOR_MODEL_CHILDREN_H_
