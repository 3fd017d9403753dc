#include "operator/kube/watched_file.h"

#include <cerrno>
#include <fstream>
#include <iterator>

#include "common/base/strings.h"

namespace millstream::kube {

absl::StatusOr<std::string> ReadSmallFile(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::ErrnoToStatus(errno == 0 ? ENOENT : errno, ToAbsl(StrCat("cannot open ", path)));
  std::string bytes(WatchedFile::kMaxBytes + 1, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (file.bad() || file.gcount() == 0) {
    // A folder can be opened, and fails only here.
    if (!file.eof()) return absl::UnknownError(StrCat("cannot read ", path));
  }
  bytes.resize(static_cast<size_t>(file.gcount()));
  if (bytes.size() > WatchedFile::kMaxBytes) {
    return absl::ResourceExhaustedError(StrCat(path, " is larger than ", WatchedFile::kMaxBytes, " bytes"));
  }
  return bytes;
}

absl::StatusOr<std::string> WatchedFile::Contents() {
  absl::MutexLock lock(&mutex_);
  const absl::Duration now = clock_->Monotonic();
  if (!contents_.empty() && now - read_at_ < kMaxAge) return contents_;
  absl::StatusOr<std::string> bytes = ReadSmallFile(path_);
  if (bytes.ok() && !bytes->empty()) {
    contents_ = *std::move(bytes);
    read_at_ = now;
    return contents_;
  }
  if (!contents_.empty()) return contents_;
  if (!bytes.ok()) return bytes.status();
  return absl::UnavailableError(StrCat(path_, " is empty"));
}

void WatchedFile::Expire() {
  absl::MutexLock lock(&mutex_);
  read_at_ = -absl::InfiniteDuration();
}

}  // namespace millstream::kube
