#ifndef MILLSTREAM_CLI_KAFKA_PROPERTIES_H_
#define MILLSTREAM_CLI_KAFKA_PROPERTIES_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/log/kafka/cluster_access.h"

namespace millstream::cli {

// How a cluster is reached, from a properties file as Kafka's own tools (--command-config) and kcat (-F) read: names of
// the Java client and of librdkafka. Files it names are read; PEM only. What neither the connection nor librdkafka can
// honour is an error, never dropped: a security setting that is ignored is a password in the clear.
// NOT_FOUND: the file, or one it names. INVALID_ARGUMENT names file, line and property, with the way out.
absl::StatusOr<kafka::ClusterAccess> ReadKafkaProperties(const std::string& path);

// The same from a text; `name` is what messages call it.
absl::StatusOr<kafka::ClusterAccess> ParseKafkaProperties(std::string_view text, const std::string& name);

}  // namespace millstream::cli

#endif  // MILLSTREAM_CLI_KAFKA_PROPERTIES_H_
