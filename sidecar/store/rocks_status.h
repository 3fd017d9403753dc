#ifndef MILLSTREAM_SIDECAR_STORE_ROCKS_STATUS_H_
#define MILLSTREAM_SIDECAR_STORE_ROCKS_STATUS_H_

#include <string_view>

#include "absl/status/status.h"
#include "rocksdb/status.h"

// Internal to sidecar/store.
namespace millstream::store {

// What RocksDB says, in our words: DATA_LOSS (checksums, missing files), RESOURCE_EXHAUSTED (disk full, with the way
// out), UNAVAILABLE (other I/O errors). `doing` and `path` become part of the message: "read /data/7: ...".
absl::Status FromRocks(const rocksdb::Status& status, std::string_view doing, std::string_view path);

// The files are not a database this build can open: wipe it. False for errors of the machine (disk full, permissions).
bool IsDamage(const rocksdb::Status& status);

}  // namespace millstream::store

#endif  // MILLSTREAM_SIDECAR_STORE_ROCKS_STATUS_H_
