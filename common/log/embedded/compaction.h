#ifndef MILLSTREAM_COMMON_LOG_EMBEDDED_COMPACTION_H_
#define MILLSTREAM_COMMON_LOG_EMBEDDED_COMPACTION_H_

#include <memory>

#include "absl/status/status.h"
#include "common/log/embedded/core.h"

namespace millstream::log::embedded {

// Keeps the last committed value of each key, below the last stable offset and older than min.compaction.lag.ms.
// Removes aborted records and markers on the way, and tombstones delete.retention.ms after the pass that first met
// them. The last batch of the partition stays, empty if need be, so that the end stays where it is. Requires
// maintenance_mutex.
absl::Status Compact(Core& core, const std::shared_ptr<PartitionState>& partition);

// Whether so much is dirty that Compact is worth its time.
bool WorthCompacting(const PartitionState& partition);  // requires state_mutex

}  // namespace millstream::log::embedded

#endif  // MILLSTREAM_COMMON_LOG_EMBEDDED_COMPACTION_H_
