#ifndef MILLSTREAM_COMMON_LOG_EMBEDDED_TOPIC_CONFIG_H_
#define MILLSTREAM_COMMON_LOG_EMBEDDED_TOPIC_CONFIG_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace millstream::log::embedded {

// The settings of a topic the embedded log acts on, under Kafka's names.
struct TopicConfig {
  bool compact = false;    // cleanup.policy
  bool remove_old = true;  // cleanup.policy: delete
  int64_t retention_ms =
      604'800'000;  // counted from the append, so that old event times are not removed at once; -1: for ever
  int64_t retention_bytes = -1;  // per partition; -1: no bound
  int64_t delete_retention_ms = 86'400'000;
  int64_t min_compaction_lag_ms = 0;
  double min_cleanable_dirty_ratio = 0.5;
  // Of key, value and headers of one record. Kafka's default (1,048,588) refuses a value of 1 MiB with any key; this
  // one takes it.
  int64_t max_message_bytes = 2 << 20;
};

// Reads settings. Names Kafka knows and this log has no use for (segment.bytes, compression.type, ...) are accepted and
// kept; others, and values out of range, are INVALID_ARGUMENT naming the setting.
absl::StatusOr<TopicConfig> ParseTopicConfig(const std::map<std::string, std::string>& settings);

// The settings with the defaults of everything ParseTopicConfig acts on filled in.
std::map<std::string, std::string> SettingsInForce(const std::map<std::string, std::string>& settings);

// Kafka's rule: 1-249 of letters, digits, '.', '_', '-'; not "." or "..".
absl::Status CheckTopicName(const std::string& name);

}  // namespace millstream::log::embedded

#endif  // MILLSTREAM_COMMON_LOG_EMBEDDED_TOPIC_CONFIG_H_
