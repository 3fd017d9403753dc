#ifndef MILLSTREAM_CLI_TOOLS_RESET_H_
#define MILLSTREAM_CLI_TOOLS_RESET_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/log/log.h"
#include "common/spec/stream_processor.h"
#include "nlohmann/json.hpp"

namespace millstream::cli {

// Where a partition of an input is read from after the reset.
struct ResetTarget {
  enum class Kind : uint8_t {
    kStart,     // where the manifest's startFrom says
    kEarliest,  // the first record still there
    kLatest,    // the end, as read_committed sees it
    kTime,      // the first record at or after `number` milliseconds since 1970
    kOffset,    // `number`
    kBy,        // `number` records after (or, negative, before) what is committed
  };
  Kind kind = Kind::kStart;
  int64_t number = 0;
};

// "start", "earliest", "latest", an offset, or an RFC 3339 time. INVALID_ARGUMENT says what was expected.
absl::StatusOr<ResetTarget> ParseResetTarget(const std::string& text);

struct ResetRequest {
  struct Input {
    std::string topic;
    spec::StartFrom start_from;
    bool to_end = false;  // whatever the target: the loop, whose records are made again
  };
  std::string group, owner;             // the owner stamp
  std::vector<Input> inputs;            // that move; all of them unless asked for otherwise
  std::vector<std::string> changelogs;  // of the stores that are emptied with them; none: state is kept
  std::vector<int32_t> partitions;      // empty: all
  ResetTarget target;
};

struct ResetRow {
  TopicPartition of;
  std::optional<Offset> from;  // unset: nothing committed
  Offset to;
  Offset start, end;     // what is there
  bool clamped = false;  // kBy went beyond one of the two
};

struct ResetPlan {
  std::vector<ResetRow> rows;        // by partition, then input
  std::vector<int32_t> tasks;        // that are reset, ascending
  int64_t changelog_offsets = 0;     // an upper bound on the state records that are emptied
  std::vector<std::string> members;  // alive: while there are any, nothing is executed
};

struct ResetOutcome {
  std::vector<int32_t> tasks;  // done, in order; the whole plan unless there was an error
  int64_t tombstones = 0;      // state records that were emptied
  absl::Status status;         // why it ended before its end
};

// What a reset would do; changes nothing. NOT_FOUND names a topic, OUT_OF_RANGE an offset that is not there,
// FAILED_PRECONDITION a group of another processor (GroupOwnedByAnother), DEADLINE_EXCEEDED a transaction that somebody
// left open and that has to end first.
absl::StatusOr<ResetPlan> PlanReset(log::Log* log, const ResetRequest& request);

// Executes the plan task by task, each in one transaction that empties the task's state in the changelogs and sets its
// offsets: a task is either reset with all that belongs to it or as it was. Disks of members follow by reading the
// changelogs. FAILED_PRECONDITION: members are alive.
absl::StatusOr<ResetOutcome> ExecuteReset(log::Log* log, const ResetRequest& request, const ResetPlan& plan);

nlohmann::json ToJson(const ResetRequest& request);
ResetRequest ResetRequestFrom(const nlohmann::json& json);
nlohmann::json ToJson(const ResetPlan& plan);

}  // namespace millstream::cli

#endif  // MILLSTREAM_CLI_TOOLS_RESET_H_
