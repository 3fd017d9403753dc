#include "common/log/embedded/maintenance.h"

#include "common/log/embedded/coordinator.h"

namespace millstream::log::embedded {

absl::Status RunMaintenance(Core& core, bool /*thorough*/) {
  absl::MutexLock lock(&core.maintenance_mutex);
  return AbortExpired(core);
}

}  // namespace millstream::log::embedded
