#ifndef MILLSTREAM_CLI_TOOLS_LAG_H_
#define MILLSTREAM_CLI_TOOLS_LAG_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/log/log.h"
#include "nlohmann/json.hpp"

namespace millstream::cli {

struct LagRequest {
  std::string group;
  std::vector<std::string> topics;       // empty: every topic the group has offsets of
  std::vector<int32_t> partitions = {};  // of them; empty: all
};

struct PartitionLag {
  TopicPartition of;
  std::optional<Offset> committed;  // unset: the group has not begun here
  Offset start, stable_end, end;
  std::string owner;  // member that reads it, where the log knows

  // Records up to the end; from the start of the partition while nothing is committed.
  int64_t lag() const;
  // The next offset to process is no longer in the log.
  bool lost() const { return committed.has_value() && (*committed < start || *committed > end); }
};

struct LagReport {
  std::string group, state;  // state as Kafka names it; "Dead" for a group nobody knows
  std::vector<std::string> members;
  std::vector<PartitionLag> partitions;  // by topic as asked for, then partition
};

// How far a group is behind. NOT_FOUND names a topic that is not there.
absl::StatusOr<LagReport> ReadLag(log::Log* log, const LagRequest& request);

nlohmann::json ToJson(const LagRequest& request);
LagRequest LagRequestFrom(const nlohmann::json& json);
nlohmann::json ToJson(const LagReport& report);

}  // namespace millstream::cli

#endif  // MILLSTREAM_CLI_TOOLS_LAG_H_
