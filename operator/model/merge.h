#ifndef MILLSTREAM_OPERATOR_MODEL_MERGE_H_
#define MILLSTREAM_OPERATOR_MODEL_MERGE_H_

#include "absl/status/status.h"
#include "operator/model/processor.h"

namespace millstream::model {

// What spec.podTemplate may not say, because pods of Millstream depend on it: labels of the selector, annotations of
// Millstream, the fields restartPolicy, hostname and subdomain, Millstream's volumes, the program and life of its
// container, variables MILLSTREAM_*. INVALID_ARGUMENT names the field and what to use instead.
absl::Status CheckPodTemplate(const Processor& processor, const Json& overrides);

// `overrides` over `base`, both a PodTemplateSpec: maps by key, a null takes the key away; containers, initContainers,
// volumes and env by name; volumeMounts by mountPath; any other list is replaced. What is new comes behind what was
// there.
Json MergePodTemplate(Json base, const Json& overrides);

// What of spec.podTemplate holds for the pods of Jobs too: the labels and annotations by which networks and meshes know
// them, where they run, as whom, and with which secrets images are pulled. A PodTemplateSpec; empty: nothing.
Json JobOverridesOf(const Processor& processor);

// No container but Millstream's own has state, secrets or the manifest mounted. INVALID_ARGUMENT names the container
// and the volume.
absl::Status CheckMounts(const Json& pod_template);

}  // namespace millstream::model

#endif  // MILLSTREAM_OPERATOR_MODEL_MERGE_H_
