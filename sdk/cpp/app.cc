#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <thread>
#include <utility>

#include "common/base/clock.h"
#include "common/base/log_line.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "sdk/cpp/session.h"
#include "sdk/cpp/worker.h"

namespace millstream::worker {
namespace {

constexpr absl::Duration kFirstBackoff = absl::Milliseconds(50);
constexpr absl::Duration kLongestBackoff = absl::Seconds(5);

// Signals are one per process, so this is too.
volatile std::sig_atomic_t signalled = 0;
std::atomic<int> signal_wake_fd{-1};

void OnSignal(int) {
  const int saved_errno = errno;
  signalled = 1;
  const uint64_t one = 1;
  const int fd = signal_wake_fd;
  if (fd >= 0 && write(fd, &one, sizeof(one)) < 0) signalled = 1;  // nothing else can be done here
  errno = saved_errno;
}

std::string SocketPath(const AppOptions& options) {
  if (!options.socket_path.empty()) return options.socket_path;
  const char* path = std::getenv("MILLSTREAM_SOCKET");
  return path != nullptr && *path != '\0' ? path : "/run/millstream/worker.sock";
}

}  // namespace

class App::Impl {
 public:
  explicit Impl(AppOptions options) : options_(std::move(options)), wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    MS_CHECK(wake_fd_ >= 0);
  }
  ~Impl() {
    if (signal_wake_fd == wake_fd_) signal_wake_fd = -1;
    close(wake_fd_);
  }

  void On(std::string input, Handler handler) { handlers_[std::move(input)] = std::move(handler); }

  void Stop() {
    stop_ = true;
    const uint64_t one = 1;
    if (write(wake_fd_, &one, sizeof(one)) < 0) MS_CHECK(errno == EAGAIN);
  }

  absl::Status Run() {
    if (options_.handle_signals) TakeSignals();
    const std::string path = SocketPath(options_);
    absl::Duration backoff = kFirstBackoff;
    absl::Duration alone_since = SystemClock().Monotonic();
    bool told = false;
    while (!Over()) {
      absl::Status status;
      absl::StatusOr<std::unique_ptr<Link>> link = Link::Connect(path, wake_fd_);
      if (link.ok()) {
        Session session(*std::move(link), handlers_, options_, stop_);
        status = session.Run();
        if (status.ok() || absl::IsFailedPrecondition(status)) return status;
        if (session.welcomed()) {
          backoff = kFirstBackoff;
          alone_since = SystemClock().Monotonic();
          told = false;
        }
      } else {
        status = link.status();
        if (absl::IsInvalidArgument(status)) return status;
      }
      if (!told && !Over()) LogWarning("waiting for the sidecar", {{"reason", std::string(status.message())}});
      told = true;
      if (SystemClock().Monotonic() - alone_since >= options_.connect_timeout) {
        return absl::UnavailableError(StrCat(std::string(status.message()), " (gave up after ",
                                             absl::FormatDuration(options_.connect_timeout), ")"));
      }
      Wait(backoff);
      backoff = std::min(2 * backoff, kLongestBackoff);
    }
    return absl::OkStatus();
  }

 private:
  bool Over() const { return stop_ || (options_.handle_signals && signalled != 0); }

  void TakeSignals() {
    signal_wake_fd = wake_fd_;
    struct sigaction action {};
    action.sa_handler = OnSignal;
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART;
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
  }

  // Until then, or until woken.
  void Wait(absl::Duration time) const {
    pollfd waiting{wake_fd_, POLLIN, 0};
    poll(&waiting, 1, static_cast<int>(absl::ToInt64Milliseconds(time)));
  }

  const AppOptions options_;
  const int wake_fd_;
  HandlerMap handlers_;
  std::atomic<bool> stop_{false};
};

App::App(AppOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
App::~App() = default;
App& App::On(std::string input, Handler handler) {
  impl_->On(std::move(input), std::move(handler));
  return *this;
}
absl::Status App::Run() { return impl_->Run(); }
void App::Stop() { impl_->Stop(); }

}  // namespace millstream::worker
