#ifndef MILLSTREAM_SIDECAR_HOST_CLUSTER_ACCESS_H_
#define MILLSTREAM_SIDECAR_HOST_CLUSTER_ACCESS_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/log/kafka/cluster_access.h"
#include "common/spec/stream_processor.h"

namespace millstream::host {

// Where the parts of a ClusterAccess come from that are not in the manifest.
struct AccessSources {
  std::string bootstrap_servers;  // --kafka: in place of kafka.bootstrapServers; empty: those of the manifest
  // --secrets: key KEY of the Secret (or ConfigMap) NAME is the file <secrets_folder>/NAME/KEY, as Kubernetes mounts
  // them. Empty: none is given.
  std::string secrets_folder;
};

// How the processor reaches its Kafka, with every secret read. Reads files; call it again after secrets were rotated.
// User names, passwords and client secrets end before a final line end; PEM texts are taken as they are.
// Errors name the field, the Secret, its key, the file and the way out:
//   INVALID_ARGUMENT     no bootstrap servers at all, or not HOST:PORT; a secret is needed and no folder given; a file
//                        that is empty, no PEM, or larger than a Secret can be
//   NOT_FOUND            no such file; what is there instead is listed
//   PERMISSION_DENIED    it cannot be read
absl::StatusOr<kafka::ClusterAccess> ResolveClusterAccess(const spec::KafkaSpec& kafka, const AccessSources& sources);

// "host:port[,host:port...]"; IPv6 addresses in brackets. INVALID_ARGUMENT says what is wrong with which part.
absl::Status CheckBootstrapServers(std::string_view servers);

}  // namespace millstream::host

#endif  // MILLSTREAM_SIDECAR_HOST_CLUSTER_ACCESS_H_
