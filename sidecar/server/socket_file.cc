#include "sidecar/server/socket_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::server {
namespace {

constexpr size_t kMaxPathBytes = sizeof(sockaddr_un::sun_path) - 1;  // 107
// Connections the kernel holds until they are accepted; the server accepts at once.
constexpr int kBacklog = 64;
// Another process holds the folder's lock for some microseconds; longer means it is stuck.
constexpr int kLockAttempts = 200;
constexpr auto kLockPause = std::chrono::milliseconds(10);

absl::Status SystemError(int error, const std::string& what) { return absl::ErrnoToStatus(error, what); }

sockaddr_un AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

absl::Status CheckPath(const std::string& path) {
  if (path.empty())
    return absl::InvalidArgumentError("the path of the worker socket is empty; set MILLSTREAM_SOCKET or leave it out");
  if (path.size() > kMaxPathBytes) {
    return absl::InvalidArgumentError(StrCat("worker socket ", path, ": the path has ", path.size(),
                                             " bytes, the operating system takes ", kMaxPathBytes,
                                             "; choose a shorter one with MILLSTREAM_SOCKET"));
  }
  if (path.find('\0') != std::string::npos)
    return absl::InvalidArgumentError("the path of the worker socket contains a zero byte");
  return absl::OkStatus();
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

absl::StatusOr<FileDescriptor> LockFolder(const std::string& path) {
  const std::string folder = FolderOf(path);
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return SystemError(errno,
                       StrCat("worker socket ", path, ": its folder ", folder, " does not exist and cannot be made"));
  }
  FileDescriptor fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return SystemError(errno, StrCat("worker socket ", path, ": opening its folder ", folder));
  for (int attempt = 0; flock(fd.get(), LOCK_EX | LOCK_NB) != 0; ++attempt) {
    if (errno != EWOULDBLOCK && errno != EINTR)
      return SystemError(errno, StrCat("worker socket ", path, ": locking its folder"));
    if (attempt == kLockAttempts) {
      return absl::UnavailableError(
          StrCat("worker socket ", path, ": another process keeps the folder ", folder, " locked; stop it"));
    }
    std::this_thread::sleep_for(kLockPause);
  }
  return fd;
}

// Removes a socket nobody listens on. OK also if there is nothing.
absl::Status RemoveStale(const std::string& path) {
  struct stat info;
  if (lstat(path.c_str(), &info) != 0) {
    return errno == ENOENT ? absl::OkStatus() : SystemError(errno, StrCat("worker socket ", path));
  }
  if (!S_ISSOCK(info.st_mode)) {
    return absl::FailedPreconditionError(StrCat(
        "worker socket ", path,
        ": something that is not a socket is there; move it away or choose another path with MILLSTREAM_SOCKET"));
  }
  FileDescriptor probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe.valid()) return SystemError(errno, "making a socket");
  const sockaddr_un address = AddressOf(path);
  const bool refused =
      connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 && errno == ECONNREFUSED;
  if (!refused) {  // connected, a full backlog (EAGAIN), or not ours to try: somebody may be there
    return absl::AlreadyExistsError(
        StrCat("worker socket ", path,
               ": another process listens there; stop it or choose another path with MILLSTREAM_SOCKET"));
  }
  if (unlink(path.c_str()) != 0 && errno != ENOENT)
    return SystemError(errno, StrCat("worker socket ", path, ": removing the stale one"));
  return absl::OkStatus();
}

}  // namespace

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    Reset();
    fd_ = other.Release();
  }
  return *this;
}

int FileDescriptor::Release() {
  const int fd = fd_;
  fd_ = -1;
  return fd;
}

void FileDescriptor::Reset() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

absl::StatusOr<ListeningSocket> ListeningSocket::Listen(const std::string& path, mode_t mode) {
  MS_RETURN_IF_ERROR(CheckPath(path));
  MS_ASSIGN_OR_RETURN(FileDescriptor lock, LockFolder(path));  // until the end of this function
  MS_RETURN_IF_ERROR(RemoveStale(path));

  FileDescriptor fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return SystemError(errno, "making a socket");
  const sockaddr_un address = AddressOf(path);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return SystemError(errno, StrCat("worker socket ", path, ": making it"));
  }
  // Nobody can connect before listen, so the mode is never too wide for a moment.
  struct stat info;
  if (chmod(path.c_str(), mode) != 0 || lstat(path.c_str(), &info) != 0 || listen(fd.get(), kBacklog) != 0) {
    const absl::Status status = SystemError(errno, StrCat("worker socket ", path, ": setting it up"));
    unlink(path.c_str());
    return status;
  }
  ListeningSocket result;
  result.fd_ = std::move(fd);
  result.path_ = path;
  result.device_ = info.st_dev;
  result.inode_ = info.st_ino;
  return result;
}

void ListeningSocket::Close() {
  if (!fd_.valid()) return;
  struct stat info;
  if (lstat(path_.c_str(), &info) == 0 && info.st_dev == device_ && info.st_ino == inode_) unlink(path_.c_str());
  fd_.Reset();
}

std::optional<PeerIdentity> PeerOf(int fd) {
  ucred credentials{};
  socklen_t size = sizeof(credentials);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return std::nullopt;
  return PeerIdentity{credentials.pid, credentials.uid};
}

}  // namespace millstream::server
