#include "sidecar/store/rocks_status.h"

#include <cerrno>
#include <cstring>
#include <string>

#include "common/base/strings.h"

namespace millstream::store {
namespace {

// RocksDB keeps errno only as text; its own files going missing or being cut short is damage, not a failing machine.
bool NamesMissingFile(const rocksdb::Status& status) {
  return status.IsPathNotFound() || status.ToString().find(strerror(ENOENT)) != std::string::npos;
}

}  // namespace

bool IsDamage(const rocksdb::Status& status) {
  if (status.IsNoSpace()) return false;
  return status.IsCorruption() || status.IsInvalidArgument() || status.IsNotSupported() || status.IsNotFound() ||
         (status.IsIOError() && NamesMissingFile(status));
}

absl::Status FromRocks(const rocksdb::Status& status, std::string_view doing, std::string_view path) {
  if (status.ok()) return absl::OkStatus();
  const std::string message = StrCat(doing, " ", path, ": ", status.ToString());
  if (status.IsNoSpace()) {
    return absl::ResourceExhaustedError(
        StrCat(message, ". The disk is full: free space or enlarge the volume; work goes on by itself then"));
  }
  if (status.IsMemoryLimit()) return absl::ResourceExhaustedError(message);
  if (status.IsCorruption() || (status.IsIOError() && NamesMissingFile(status))) {
    return absl::DataLossError(
        StrCat(message, ". The state on this disk is damaged; it is rebuilt from the changelog"));
  }
  if (status.IsInvalidArgument() || status.IsNotSupported()) return absl::InternalError(message);
  return absl::UnavailableError(message);
}

}  // namespace millstream::store
