#ifndef MILLSTREAM_OPERATOR_MODEL_POD_TEMPLATE_H_
#define MILLSTREAM_OPERATOR_MODEL_POD_TEMPLATE_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "operator/model/processor.h"

namespace millstream::model {

// The pods of a processor: Millstream's container beside the worker, restricted, with spec.podTemplate merged over it.
// A view has no worker: Millstream's container is the only one.
//
// Fields that take effect in running pods are not in it (processor.h, ManifestHash), so that changing them rolls
// nothing. INVALID_ARGUMENT: spec.podTemplate says what it may not, with the field; a Secret and a ConfigMap of one
// name and key.
absl::StatusOr<Json> PodTemplateOf(const Processor& processor, const ModelOptions& options);

// The parts that pods of Jobs share with it.
Json PodSecurityOf(const ModelOptions& options);  // securityContext of the pod
Json ContainerSecurity();                         // of a container
std::string SidecarImageOf(const Processor& processor, const ModelOptions& options);
// Volumes and mounts that Millstream's programs need to reach Kafka: manifest, secrets (if any), a folder for temporary
// files.
struct Mounted {
  Json volumes = Json::array();
  Json mounts = Json::array();
};
absl::StatusOr<Mounted> ConfigurationOf(const Processor& processor);

inline constexpr std::string_view kManifestFolder = "/etc/millstream";
inline constexpr std::string_view kSecretsFolder = "/etc/millstream-secrets";
inline constexpr std::string_view kOrdersFolder = "/etc/millstream-orders";
inline constexpr std::string_view kSocketFolder = "/run/millstream";
inline constexpr std::string_view kStateFolder = "/var/lib/millstream";
// Annotations of the template, by which a pod is known to be outdated: the hash of everything else in it, and the hash
// of what the user said that takes effect in new pods only. The first differs and the second does not: that is the
// operator's doing (its own template, its default image).
inline constexpr std::string_view kTemplateHashAnnotation = "millstream.dev/template-hash";
inline constexpr std::string_view kSpecHashAnnotation = "millstream.dev/spec-hash";
// The annotation of a pod with its orders (orders.h), projected as file `orders` into kOrdersFolder.
inline constexpr std::string_view kOrdersAnnotation = "millstream.dev/orders";

}  // namespace millstream::model

#endif  // MILLSTREAM_OPERATOR_MODEL_POD_TEMPLATE_H_
