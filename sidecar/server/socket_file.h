#ifndef MILLSTREAM_SIDECAR_SERVER_SOCKET_FILE_H_
#define MILLSTREAM_SIDECAR_SERVER_SOCKET_FILE_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace millstream::server {

// A file descriptor that is closed with its owner.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.Release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor() { Reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int Release();
  void Reset();

 private:
  int fd_ = -1;
};

// A Unix socket that listens, and the file it is reached by.
//
// Listen takes over the path of a process that is gone (a socket on which nobody listens), and nothing else: not a
// file, not a socket in use. Two processes that start at the same time cannot both succeed: they take turns by a lock
// on the folder.
class ListeningSocket {
 public:
  // `mode`: of the socket file. A missing folder (its last component only) is made with mode 0700. Errors name the path
  // and the way out: InvalidArgument (too long, relative folder missing), AlreadyExists (somebody listens),
  // FailedPrecondition (something else is in the way), PermissionDenied and others of the operating system.
  static absl::StatusOr<ListeningSocket> Listen(const std::string& path, mode_t mode);

  ListeningSocket() = default;
  ListeningSocket(ListeningSocket&&) = default;
  ListeningSocket& operator=(ListeningSocket&&) = default;
  ~ListeningSocket() { Close(); }

  int fd() const { return fd_.get(); }
  // Stops listening and removes the file, if it is still this socket's.
  void Close();

 private:
  FileDescriptor fd_;
  std::string path_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

// Who is at the other end, as the kernel saw it at connect.
struct PeerIdentity {
  int64_t pid = 0;
  uid_t uid = 0;
};
std::optional<PeerIdentity> PeerOf(int fd);

}  // namespace millstream::server

#endif  // MILLSTREAM_SIDECAR_SERVER_SOCKET_FILE_H_
