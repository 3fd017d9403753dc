#ifndef MILLSTREAM_COMMON_LOG_KAFKA_OPEN_H_
#define MILLSTREAM_COMMON_LOG_KAFKA_OPEN_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/metrics.h"
#include "common/log/kafka/cluster_access.h"
#include "common/log/kafka/live_access.h"
#include "common/log/log.h"

namespace millstream::kafka {

struct KafkaLogOptions {
  ClusterAccess access;
  // In place of `access` where that changes while the log is open, because secrets are rotated. Servers and `config`
  // stay.
  std::shared_ptr<LiveAccess> live_access;
  // How the brokers' request logs and quotas call this client.
  std::string client_id = "millstream";
  // Where the log counts what it does; may be null. Outlives the log.
  MetricsRegistry* metrics = nullptr;
  // Bound on every call of Admin, and on what readers and plain writers wait for.
  absl::Duration admin_deadline = absl::Seconds(30);
};

// What a Kafka can beside what every log can. Thread-safe, with the deadlines and errors of log::Admin.
class KafkaLog : public log::Log {
 public:
  // Offsets of the group as they are now: StableGroupOffsets without waiting for open transactions that are about to
  // replace them. For finding out whose those are.
  virtual absl::StatusOr<std::map<TopicPartition, log::GroupOffset>> GroupOffsetsNow(
      const std::string& group, absl::Span<const TopicPartition> partitions) = 0;

  struct Member {
    std::string member_id, host;  // as the broker sees it
    std::string metadata;         // what it joined with, as the group's protocol has it
    std::vector<TopicPartition> assigned;
  };
  // None for a group nobody knows.
  virtual absl::StatusOr<std::vector<Member>> GroupMembers(const std::string& group) = 0;
};

// The log on a Kafka cluster (brokers 2.5 and newer), on librdkafka. Checks the options and makes the admin client;
// does not wait for a broker: calls do, each within its deadline, and name what they could not reach.
//
// Errors: INVALID_ARGUMENT names the property of access.config that is protected (common/base/protected_config.h),
// unknown, or has an illegal value, or the certificate or key that cannot be read.
//
// A changed access (KafkaLogOptions::live_access): readers go on at their positions with another client at their next
// Poll, transactional writers at their next Begin, plain writers at their next call with nothing under way, calls of
// Admin at the next one. What is under way ends as it began.
//
// Threads: a client of librdkafka has one thread for itself and one per broker; the log has one client, and each reader
// and writer has one of its own. Destroying any of them waits a few seconds at most: a client that does not end by then
// is left to a thread of its own and counted (millstream_kafka_clients_abandoned_total).
absl::StatusOr<std::unique_ptr<KafkaLog>> OpenKafkaLog(const KafkaLogOptions& options);

}  // namespace millstream::kafka

#endif  // MILLSTREAM_COMMON_LOG_KAFKA_OPEN_H_
