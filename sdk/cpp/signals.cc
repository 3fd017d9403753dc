#include "sdk/cpp/signals.h"

#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>

namespace millstream::worker {
namespace {

volatile std::sig_atomic_t signalled = 0;
// Monotonic milliseconds of the first SIGINT; 0: none yet.
std::atomic<int64_t> first_interrupt_ms{0};
// Workers of one process that a signal wakes at once; others notice with their next look (5 s).
// Each is a file descriptor plus 1; 0: none.
std::array<std::atomic<int>, 256> wake_fds_of_all{};
// A second Ctrl-C sooner than this is the same one seen twice: the terminal signals the whole process group.
constexpr int64_t kSameInterruptMs = 500;

// Only what may be called in a signal handler.
void OnSignal(int number) {
  const int saved_errno = errno;
  signalled = 1;
  if (number == SIGINT) {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const int64_t now_ms = now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
    int64_t first = 0;
    if (!first_interrupt_ms.compare_exchange_strong(first, now_ms) && now_ms - first > kSameInterruptMs) _exit(130);
  }
  const uint64_t one = 1;
  for (const std::atomic<int>& fd : wake_fds_of_all) {
    const int wake = fd - 1;
    if (wake >= 0 && write(wake, &one, sizeof(one)) < 0) signalled = 1;  // nothing else can be done here
  }
  errno = saved_errno;
}

}  // namespace

void TakeSignals(const std::vector<int>& wake_fds) {
  for (const int wake : wake_fds) {
    for (std::atomic<int>& fd : wake_fds_of_all) {
      int none = 0;
      if (fd.compare_exchange_strong(none, wake + 1)) break;
    }
  }
  struct sigaction action {};
  action.sa_handler = OnSignal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

void ForgetWakeFds(const std::vector<int>& wake_fds) {
  for (const int wake : wake_fds) {
    for (std::atomic<int>& fd : wake_fds_of_all) {
      int mine = wake + 1;
      fd.compare_exchange_strong(mine, 0);
    }
  }
}

bool Signalled() { return signalled != 0; }

}  // namespace millstream::worker
