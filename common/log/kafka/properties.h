#ifndef MILLSTREAM_COMMON_LOG_KAFKA_PROPERTIES_H_
#define MILLSTREAM_COMMON_LOG_KAFKA_PROPERTIES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/log/kafka/client.h"

namespace millstream::kafka {

// Where every property of a client comes from. Set in this order: defaults of all clients, defaults of its kind, the
// manifest's kafka.config (CheckConfig has seen to it that none is protected), how the cluster is reached, what its
// kind fixes.

// INVALID_ARGUMENT names a protected property of `access.config`, and why it is protected.
absl::Status CheckConfig(const ClusterAccess& access);

// Bytes of one batch of records, unless kafka.config says otherwise.
inline constexpr int64_t kDefaultBatchBytes = 1'000'000;

Properties CommonDefaults();
Properties UserProperties(const ClusterAccess& access);
// Servers, client id, TLS and SASL. librdkafka never reads a file for these.
Properties AccessProperties(const ClusterAccess& access, const std::string& client_id);

// The client that asks about topics and groups; see AdminClient::New for why it is a consumer.
Properties AdminProperties();
// A reader that holds about `max_buffered_bytes`.
Properties ReaderProperties(bool read_committed, int64_t max_buffered_bytes);
Properties ProducerDefaults();
Properties ProducerProperties();
Properties TransactionProperties(const ClusterAccess& access, const std::string& transactional_id,
                                 absl::Duration transaction_timeout);

}  // namespace millstream::kafka

#endif  // MILLSTREAM_COMMON_LOG_KAFKA_PROPERTIES_H_
