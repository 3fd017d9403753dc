#include "sidecar/pod/drain_socket.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "sidecar/server/socket_file.h"

namespace millstream::pod {
namespace {

using server::FileDescriptor;

constexpr char kName[] = "drain.sock";
// The kubelet runs the hook once; a person may try it beside that.
constexpr size_t kMaxWaiting = 16;
constexpr char kAnswer = 'd';

absl::Status SystemError(const std::string& folder, std::string_view what) {
  return absl::UnavailableError(StrCat("socket ", folder, "/", kName, ": ", what, ": ", std::strerror(errno)));
}

absl::StatusOr<FileDescriptor> OpenFolder(const std::string& folder) {
  FileDescriptor fd(open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return absl::NotFoundError(StrCat("folder ", folder, ": ", std::strerror(errno)));
  return fd;
}

// Through the open folder: its own path may be longer than an address can be.
sockaddr_un AddressIn(const FileDescriptor& folder) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = StrCat("/proc/self/fd/", folder.get(), "/", kName);
  MS_CHECK(path.size() < sizeof(address.sun_path));
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

FileDescriptor NewSocket(int flags) { return FileDescriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0)); }

bool Connect(const FileDescriptor& fd, const sockaddr_un& address) {
  return connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

class DrainSocketImpl : public DrainSocket {
 public:
  DrainSocketImpl(FileDescriptor folder, FileDescriptor listener)
      : folder_(std::move(folder)),
        listener_(std::move(listener)),
        asked_(eventfd(0, EFD_CLOEXEC)),
        wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        thread_([this] { Run(); }) {}

  ~DrainSocketImpl() override {
    stopping_ = true;
    Signal(wake_);
    thread_.join();
    unlinkat(folder_.get(), kName, 0);
  }

  bool requested() const override { return requested_; }
  void WaitForRequest(absl::Duration most) const override {
    pollfd asked{asked_.get(), POLLIN, 0};
    poll(&asked, 1, static_cast<int>(std::max<int64_t>(0, absl::ToInt64Milliseconds(most))));
  }
  void SetDrained() override {
    drained_ = true;
    Signal(wake_);
  }

 private:
  static void Signal(const FileDescriptor& event) {
    const uint64_t one = 1;
    (void)!write(event.get(), &one, sizeof(one));
  }

  void Run() {
    std::vector<FileDescriptor> waiting;
    while (!stopping_) {
      pollfd events[2] = {{wake_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
      if (waiting.size() >= kMaxWaiting) events[1].fd = -1;
      if (poll(events, 2, -1) < 0) continue;  // EINTR
      uint64_t count = 0;
      if (events[0].revents != 0) (void)!read(wake_.get(), &count, sizeof(count));
      if (events[1].revents != 0) {
        FileDescriptor connection(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (connection.valid()) waiting.push_back(std::move(connection));
        if (!waiting.empty() && !requested_.exchange(true)) Signal(asked_);
      }
      if (!drained_) continue;
      for (const FileDescriptor& connection : waiting)
        (void)!send(connection.get(), &kAnswer, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
      waiting.clear();
    }
  }

  const FileDescriptor folder_, listener_;
  const FileDescriptor asked_;  // readable from the first request on
  const FileDescriptor wake_;   // of the thread
  std::atomic<bool> requested_{false}, drained_{false}, stopping_{false};
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DrainSocket>> DrainSocket::Listen(const std::string& folder) {
  std::error_code ignored;  // what is wrong shows when it is opened
  std::filesystem::create_directories(folder, ignored);
  MS_ASSIGN_OR_RETURN(FileDescriptor folder_fd, OpenFolder(folder));
  const sockaddr_un address = AddressIn(folder_fd);
  if (const FileDescriptor probe = NewSocket(0); probe.valid() && Connect(probe, address)) {
    return absl::AlreadyExistsError(StrCat("another sidecar listens on ", folder, "/", kName));
  }
  struct stat existing;  // left by one that was killed
  if (fstatat(folder_fd.get(), kName, &existing, AT_SYMLINK_NOFOLLOW) == 0 && S_ISSOCK(existing.st_mode))
    unlinkat(folder_fd.get(), kName, 0);
  FileDescriptor listener = NewSocket(SOCK_NONBLOCK);
  if (!listener.valid()) return SystemError(folder, "socket");
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    return SystemError(folder, "bind");
  if (chmod(address.sun_path, 0600) != 0 || listen(listener.get(), kMaxWaiting) != 0)
    return SystemError(folder, "listen");
  return std::make_unique<DrainSocketImpl>(std::move(folder_fd), std::move(listener));
}

absl::Status RequestDrain(const std::string& folder, absl::Duration timeout) {
  MS_ASSIGN_OR_RETURN(const FileDescriptor folder_fd, OpenFolder(folder));
  const FileDescriptor connection = NewSocket(0);
  if (!connection.valid() || !Connect(connection, AddressIn(folder_fd))) {
    return absl::NotFoundError(StrCat("no sidecar listens on ", folder, "/", kName, " (", std::strerror(errno),
                                      "); --state says where it keeps its state"));
  }
  const absl::Duration end = SystemClock().Monotonic() + timeout;
  while (true) {
    pollfd answer{connection.get(), POLLIN, 0};
    const absl::Duration left = end - SystemClock().Monotonic();
    const int ready = poll(&answer, 1, static_cast<int>(std::max<int64_t>(0, absl::ToInt64Milliseconds(left))));
    if (ready < 0) continue;  // EINTR
    if (ready == 0) return absl::DeadlineExceededError(StrCat("not drained after ", absl::FormatDuration(timeout)));
    char byte = 0;
    if (recv(connection.get(), &byte, 1, 0) == 1 && byte == kAnswer) return absl::OkStatus();
    return absl::UnavailableError("the sidecar ended before it had drained");
  }
}

}  // namespace millstream::pod
