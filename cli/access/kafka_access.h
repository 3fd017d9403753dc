#ifndef MILLSTREAM_CLI_ACCESS_KAFKA_ACCESS_H_
#define MILLSTREAM_CLI_ACCESS_KAFKA_ACCESS_H_

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "cli/access/log_access.h"
#include "common/log/kafka/cluster_access.h"
#include "common/spec/stream_processor.h"

namespace millstream::cli {

// Access to a Kafka cluster for the time of one command. With a processor its state can be read, from the changelogs.
// Errors of opening are those of the configuration; that no broker answers is known with the first call.
absl::StatusOr<std::unique_ptr<LogAccess>> OpenKafkaAccess(const kafka::ClusterAccess& access,
                                                           const std::optional<spec::StreamProcessorSpec>& processor);

}  // namespace millstream::cli

#endif  // MILLSTREAM_CLI_ACCESS_KAFKA_ACCESS_H_
