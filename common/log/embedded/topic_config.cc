#include "common/log/embedded/topic_config.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/base/bytes.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::log::embedded {
namespace {

// Bounds what a reader must hold at least for one record.
constexpr int64_t kLargestMessageBytes = 128 << 20;

const std::map<std::string, std::string>& Defaults() {
  static const auto* const defaults = new std::map<std::string, std::string>{
      {"cleanup.policy", "delete"},     {"retention.ms", "604800000"},
      {"retention.bytes", "-1"},        {"delete.retention.ms", "86400000"},
      {"min.compaction.lag.ms", "0"},   {"min.cleanable.dirty.ratio", "0.5"},
      {"max.message.bytes", "2097152"}, {"message.timestamp.type", "CreateTime"},
  };
  return *defaults;
}

// Settings of Kafka's topics without a meaning here.
bool KnownToKafka(const std::string& name) {
  static const auto* const known = new std::set<std::string>{"compression.type",
                                                             "compression.gzip.level",
                                                             "compression.lz4.level",
                                                             "compression.zstd.level",
                                                             "file.delete.delay.ms",
                                                             "flush.messages",
                                                             "flush.ms",
                                                             "follower.replication.throttled.replicas",
                                                             "index.interval.bytes",
                                                             "leader.replication.throttled.replicas",
                                                             "local.retention.bytes",
                                                             "local.retention.ms",
                                                             "max.compaction.lag.ms",
                                                             "message.downconversion.enable",
                                                             "message.format.version",
                                                             "message.timestamp.after.max.ms",
                                                             "message.timestamp.before.max.ms",
                                                             "message.timestamp.difference.max.ms",
                                                             "min.insync.replicas",
                                                             "preallocate",
                                                             "remote.storage.enable",
                                                             "segment.bytes",
                                                             "segment.index.bytes",
                                                             "segment.jitter.ms",
                                                             "segment.ms",
                                                             "unclean.leader.election.enable"};
  return known->contains(name);
}

absl::Status Bad(const std::string& name, const std::string& value, std::string_view wanted) {
  return absl::InvalidArgumentError(StrCat("topic setting ", name, ": \"", Readable(value), "\" is not ", wanted));
}

absl::Status Number(const std::string& name, const std::string& value, int64_t low, int64_t high, int64_t* out) {
  if (absl::SimpleAtoi(value, out) && *out >= low && *out <= high) return absl::OkStatus();
  return Bad(name, value, StrCat("a whole number from ", low, " to ", high));
}

absl::Status Policy(const std::string& value, TopicConfig* config) {
  config->compact = config->remove_old = false;
  for (absl::string_view policy : absl::StrSplit(value, ',')) {
    policy = absl::StripAsciiWhitespace(policy);
    if (policy == "compact") {
      config->compact = true;
    } else if (policy == "delete") {
      config->remove_old = true;
    } else {
      return Bad("cleanup.policy", value, "delete, compact or compact,delete");
    }
  }
  return absl::OkStatus();
}

absl::Status Apply(const std::string& name, const std::string& value, TopicConfig* config) {
  if (name == "cleanup.policy") return Policy(value, config);
  if (name == "retention.ms") return Number(name, value, -1, INT64_MAX, &config->retention_ms);
  if (name == "retention.bytes") return Number(name, value, -1, INT64_MAX, &config->retention_bytes);
  if (name == "delete.retention.ms") return Number(name, value, 0, INT64_MAX, &config->delete_retention_ms);
  if (name == "min.compaction.lag.ms") return Number(name, value, 0, INT64_MAX, &config->min_compaction_lag_ms);
  if (name == "max.message.bytes") return Number(name, value, 0, kLargestMessageBytes, &config->max_message_bytes);
  if (name == "min.cleanable.dirty.ratio") {
    double* ratio = &config->min_cleanable_dirty_ratio;
    return absl::SimpleAtod(value, ratio) && *ratio >= 0 && *ratio <= 1 ? absl::OkStatus()
                                                                        : Bad(name, value, "a number from 0 to 1");
  }
  if (name == "message.timestamp.type") {
    return value == "CreateTime" ? absl::OkStatus()
                                 : Bad(name, value, "CreateTime, the only kind the embedded log supports");
  }
  if (KnownToKafka(name)) return absl::OkStatus();
  return absl::InvalidArgumentError(StrCat("topic setting ", Readable(name), " is not one Kafka knows"));
}

}  // namespace

absl::StatusOr<TopicConfig> ParseTopicConfig(const std::map<std::string, std::string>& settings) {
  TopicConfig config;
  for (const auto& [name, value] : settings) MS_RETURN_IF_ERROR(Apply(name, value, &config));
  return config;
}

std::map<std::string, std::string> SettingsInForce(const std::map<std::string, std::string>& settings) {
  std::map<std::string, std::string> all = settings;
  all.insert(Defaults().begin(), Defaults().end());
  return all;
}

absl::Status CheckTopicName(const std::string& name) {
  const bool legal = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  });
  if (legal && !name.empty() && name.size() <= 249 && name != "." && name != "..") return absl::OkStatus();
  return absl::InvalidArgumentError(StrCat("topic name \"", Readable(name),
                                           "\" is not legal: 1 to 249 of letters, digits, "
                                           "'.', '_' and '-', and neither \".\" nor \"..\""));
}

}  // namespace millstream::log::embedded
