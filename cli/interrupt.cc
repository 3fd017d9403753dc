#include "cli/interrupt.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "common/base/status.h"

namespace millstream::cli {
namespace {

std::atomic<int> interrupts{0};
int wake_pipe[2] = {-1, -1};

void OnSignal(int) {
  const int saved = errno;
  interrupts.fetch_add(1);
  (void)!write(wake_pipe[1], "i", 1);
  errno = saved;
}

}  // namespace

void CatchInterrupts() {
  if (wake_pipe[0] >= 0) return;
  MS_CHECK(pipe2(wake_pipe, O_CLOEXEC | O_NONBLOCK) == 0);
  struct sigaction action {};
  action.sa_handler = OnSignal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

int Interrupts() { return interrupts.load(); }
int InterruptDescriptor() { return wake_pipe[0]; }

void ClearInterruptDescriptor() {
  char bytes[16];
  while (read(wake_pipe[0], bytes, sizeof(bytes)) > 0) {
  }
}

}  // namespace millstream::cli
