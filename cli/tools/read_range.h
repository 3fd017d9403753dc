#ifndef MILLSTREAM_CLI_TOOLS_READ_RANGE_H_
#define MILLSTREAM_CLI_TOOLS_READ_RANGE_H_

#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "common/log/log.h"

namespace millstream::cli {

// Offsets [start, end) of a partition.
struct Range {
  Offset start, end;
};

// Everything of a partition that is decided now: from its first offset to what read_committed sees.
absl::StatusOr<Range> StableRange(log::Log* log, const TopicPartition& of);

// Everything of a partition, once no transaction is open in it. DEADLINE_EXCEEDED: somebody left one open; it ends by
// itself after its timeout.
absl::StatusOr<Range> SettledRange(log::Log* log, const TopicPartition& of);

// Gives `take` every committed record of the range, in order, in batches of about a megabyte. Ends by position, never
// by counting: control records and compacted offsets are passed over. An error of `take` ends it. DEADLINE_EXCEEDED: no
// progress for 30 s.
absl::Status ReadRange(log::Log* log, const TopicPartition& of, const Range& range,
                       const std::function<absl::Status(std::vector<log::Record>)>& take);

}  // namespace millstream::cli

#endif  // MILLSTREAM_CLI_TOOLS_READ_RANGE_H_
