#ifndef MILLSTREAM_SIDECAR_STORE_POSITIONS_ON_DISK_H_
#define MILLSTREAM_SIDECAR_STORE_POSITIONS_ON_DISK_H_

#include <string>

#include "absl/status/statusor.h"
#include "sidecar/store/task_store.h"

namespace millstream::store {

// How far the state in a task's folder has come, without opening the task: nothing is written or locked. For a task
// that is not open. NOT_FOUND: no state, or not that of `identity`; TaskStore::Open would begin with nothing. Other
// errors: it cannot be read, and Open will say why.
absl::StatusOr<Positions> PositionsOnDisk(const std::string& directory, const TaskIdentity& identity);

}  // namespace millstream::store

#endif  // MILLSTREAM_SIDECAR_STORE_POSITIONS_ON_DISK_H_
