#ifndef MILLSTREAM_COMMON_LOG_EMBEDDED_RETENTION_H_
#define MILLSTREAM_COMMON_LOG_EMBEDDED_RETENTION_H_

#include <memory>

#include "absl/status/status.h"
#include "common/log/embedded/core.h"

namespace millstream::log::embedded {

// Removes what retention.ms and retention.bytes do not keep, from the start of the partition, whole batches at a time
// and never beyond the last stable offset. Requires maintenance_mutex.
absl::Status ApplyRetention(Core& core, const std::shared_ptr<PartitionState>& partition);

}  // namespace millstream::log::embedded

#endif  // MILLSTREAM_COMMON_LOG_EMBEDDED_RETENTION_H_
