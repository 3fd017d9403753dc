#include "sidecar/store/folder_lock.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "common/base/lock_file.h"
#include "common/base/strings.h"

namespace millstream::store {
namespace {

absl::Status FromErrno(int error, const std::string& what) {
  const std::string message = StrCat(what, ": ", std::string(strerror(error)));
  if (error == ENOSPC || error == EDQUOT) {
    return absl::ResourceExhaustedError(StrCat(message, ". Free space or enlarge the volume"));
  }
  if (error == EACCES || error == EPERM || error == EROFS) {
    return absl::PermissionDeniedError(StrCat(message, ". Give this user write access or name another data folder"));
  }
  return absl::UnavailableError(message);
}

pid_t HolderOf(int fd) {
  char text[32] = {};
  const ssize_t length = pread(fd, text, sizeof(text) - 1, 0);
  return HolderIn({text, length > 0 ? static_cast<size_t>(length) : 0});
}

}  // namespace

absl::StatusOr<std::unique_ptr<FolderLock>> FolderLock::Take(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return FromErrno(error.value(), StrCat("create folder ", folder));

  const std::string path = folder + "/owner.lock";
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return FromErrno(errno, StrCat("open ", path));
  std::unique_ptr<FolderLock> lock(new FolderLock(fd));
  const pid_t holder = HolderOf(fd);
  if (const absl::Status locked = LockFile(fd, holder); !locked.ok()) {
    if (!absl::IsUnavailable(locked)) {
      return absl::UnavailableError(StrCat("lock ", path, ": ", std::string(locked.message())));
    }
    return absl::FailedPreconditionError(StrCat("folder ", folder, " is held by ",
                                                holder == 0 ? "another process" : StrCat("process ", holder),
                                                ": stop it, or name another data folder"));
  }
  // The id is a courtesy for the message above; on a full disk the lock holds without it.
  const std::string pid = StrCat(getpid(), "\n");
  if (ftruncate(fd, 0) == 0) [[maybe_unused]]
    ssize_t written = pwrite(fd, pid.data(), pid.size(), 0);
  return lock;
}

FolderLock::~FolderLock() { close(fd_); }

}  // namespace millstream::store
