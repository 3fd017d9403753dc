#ifndef MILLSTREAM_SIDECAR_STORE_ROCKS_SCAN_H_
#define MILLSTREAM_SIDECAR_STORE_ROCKS_SCAN_H_

#include <string>

#include "absl/status/statusor.h"
#include "rocksdb/db.h"
#include "sidecar/store/task_store.h"

// Internal to sidecar/store.
namespace millstream::store {

// One page of a column family, as of now. `path` is for the message of an error.
absl::StatusOr<ScanPage> ScanFamily(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* family, const ScanRequest& request,
                                    const std::string& path);

}  // namespace millstream::store

#endif  // MILLSTREAM_SIDECAR_STORE_ROCKS_SCAN_H_
