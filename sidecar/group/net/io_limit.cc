#include "sidecar/group/net/io_limit.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::group {

Cancel::Cancel() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) { MS_CHECK(fd_ >= 0); }
Cancel::~Cancel() { close(fd_); }

void Cancel::Trigger() {
  triggered_.store(true, std::memory_order_release);
  const uint64_t one = 1;
  MS_CHECK(write(fd_, &one, sizeof(one)) == sizeof(one) || errno == EAGAIN);
}

IoLimit IoLimit::In(absl::Duration from_now, const Cancel* cancel) {
  return {SystemClock().Monotonic() + from_now, cancel};
}

absl::Duration IoLimit::Left() const { return std::max(deadline - SystemClock().Monotonic(), absl::ZeroDuration()); }

IoLimit IoLimit::AtMost(absl::Duration from_now) const {
  return {std::min(deadline, SystemClock().Monotonic() + from_now), cancel};
}

absl::Status WaitFor(int fd, short events, const IoLimit& limit) {
  while (true) {
    if (limit.cancel != nullptr && limit.cancel->triggered()) return absl::CancelledError("given up");
    const absl::Duration left = limit.Left();
    if (left <= absl::ZeroDuration()) return absl::DeadlineExceededError("no answer in time");
    pollfd fds[2] = {{fd, events, 0}, {limit.cancel == nullptr ? -1 : limit.cancel->fd(), POLLIN, 0}};
    const int64_t millis = std::min<int64_t>(absl::ToInt64Milliseconds(left) + 1, 3'600'000);
    const int ready = poll(fds, 2, static_cast<int>(millis));
    if (ready < 0 && errno != EINTR) return absl::InternalError(StrCat("poll: ", strerror(errno)));
    if (ready > 0 && fds[1].revents == 0 && fds[0].revents != 0) return absl::OkStatus();
  }
}

}  // namespace millstream::group
