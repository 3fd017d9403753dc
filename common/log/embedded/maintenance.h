#ifndef MILLSTREAM_COMMON_LOG_EMBEDDED_MAINTENANCE_H_
#define MILLSTREAM_COMMON_LOG_EMBEDDED_MAINTENANCE_H_

#include "absl/status/status.h"
#include "common/log/embedded/core.h"

namespace millstream::log::embedded {

// Aborts expired transactions, applies retention and compaction to every partition, and reclaims disk space. Runs once
// at a time. Not `thorough`: compacts only where enough is dirty to be worth it (min.cleanable.dirty.ratio). Goes on
// with the other partitions after an error; returns the first.
absl::Status RunMaintenance(Core& core, bool thorough);

}  // namespace millstream::log::embedded

#endif  // MILLSTREAM_COMMON_LOG_EMBEDDED_MAINTENANCE_H_
