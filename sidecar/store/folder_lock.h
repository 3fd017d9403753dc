#ifndef MILLSTREAM_SIDECAR_STORE_FOLDER_LOCK_H_
#define MILLSTREAM_SIDECAR_STORE_FOLDER_LOCK_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace millstream::store {

// Holds a folder for this object: a file `owner.lock` in it, locked by the kernel and therefore free again when the
// process dies, and holding its process id. It outlives wiping what else is in the folder.
class FolderLock {
 public:
  // Creates the folder if it is missing. FAILED_PRECONDITION names the folder and the process that holds it (this one
  // included); UNAVAILABLE or PERMISSION_DENIED: the folder cannot be made or written; RESOURCE_EXHAUSTED: the disk is
  // full.
  static absl::StatusOr<std::unique_ptr<FolderLock>> Take(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  explicit FolderLock(int fd) : fd_(fd) {}
  const int fd_;
};

}  // namespace millstream::store

#endif  // MILLSTREAM_SIDECAR_STORE_FOLDER_LOCK_H_
