#include "sdk/cpp/app.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <thread>

#include "absl/strings/numbers.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "sdk/cpp/link.h"
#include "sdk/cpp/signals.h"

namespace millstream::worker {
namespace {

constexpr absl::Duration kFirstBackoff = absl::Milliseconds(50);
constexpr absl::Duration kLongestBackoff = absl::Seconds(5);
constexpr absl::Duration kStopTimeout = absl::Seconds(30);

std::string SocketPath(const AppOptions& options) {
  if (!options.socket_path.empty()) return options.socket_path;
  const char* path = std::getenv("MILLSTREAM_SOCKET");
  return path != nullptr && *path != '\0' ? path : "/run/millstream/worker.sock";
}

absl::Duration StopTimeout(absl::Duration option) {
  if (option >= absl::ZeroDuration()) return option;
  const char* text = std::getenv("MILLSTREAM_STOP_TIMEOUT");
  double seconds = 0;
  if (text == nullptr || !absl::SimpleAtod(text, &seconds) || seconds < 0) return kStopTimeout;
  return absl::Seconds(seconds);
}

// Until then, or until woken.
void Wait(int wake_fd, absl::Duration time) {
  pollfd waiting{wake_fd, POLLIN, 0};
  poll(&waiting, 1, static_cast<int>(absl::ToInt64Milliseconds(time)));
}

}  // namespace

App::Impl::Impl(AppOptions options) : options_(std::move(options)) {
  options_.workers = std::max(options_.workers, 1);
  options_.parallel = std::max(options_.parallel, 1);
  options_.stop_timeout = StopTimeout(options_.stop_timeout);
  if (!options_.logger) options_.logger = TextLogger();
  stop_.signalled = [listening = options_.handle_signals] { return listening && Signalled(); };
  for (int i = 0; i < options_.workers; ++i) {
    wake_fds_.push_back(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    MS_CHECK(wake_fds_.back() >= 0);
  }
}

App::Impl::~Impl() {
  ForgetWakeFds(wake_fds_);
  for (const int fd : wake_fds_) close(fd);
}

void App::Impl::Wake() {
  const uint64_t one = 1;
  for (const int fd : wake_fds_) {
    if (write(fd, &one, sizeof(one)) < 0) MS_CHECK(errno == EAGAIN);
  }
}

void App::Impl::Stop() {
  stop_.leave = true;
  Wake();
}

absl::Status App::Impl::Run() {
  if (options_.handle_signals) TakeSignals(wake_fds_);
  // One that finds no point in going on ends the others: the program starts anew as a whole.
  std::vector<absl::Status> ends(wake_fds_.size());
  const auto serve = [&](size_t worker) {
    ends[worker] = Serve(wake_fds_[worker]);
    if (!ends[worker].ok()) Stop();
  };
  std::vector<std::thread> threads;
  for (size_t worker = 1; worker < wake_fds_.size(); ++worker) threads.emplace_back(serve, worker);
  serve(0);
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& end : ends) {
    if (!end.ok()) return end;
  }
  return absl::OkStatus();
}

absl::Status App::Impl::Serve(int wake_fd) {
  const std::string path = SocketPath(options_);
  absl::Duration backoff = kFirstBackoff;
  absl::Duration alone_since = SystemClock().Monotonic();
  bool told = false;
  while (!Over()) {
    bool welcomed = false;
    const absl::Status status = ServeOnce(path, wake_fd, &welcomed);
    if (status.ok() || absl::IsFailedPrecondition(status) || absl::IsInvalidArgument(status)) return status;
    if (welcomed) {
      backoff = kFirstBackoff;
      alone_since = SystemClock().Monotonic();
      told = false;
    }
    if (!told && !Over()) {
      options_.logger(LogSeverity::kWarning, "waiting for the sidecar", {{"reason", std::string(status.message())}});
    }
    told = true;
    if (SystemClock().Monotonic() - alone_since >= options_.connect_timeout) {
      return absl::UnavailableError(StrCat(std::string(status.message()), " (gave up after ",
                                           absl::FormatDuration(options_.connect_timeout), ")"));
    }
    Wait(wake_fd, backoff);
    backoff = std::min(2 * backoff, kLongestBackoff);
  }
  return absl::OkStatus();
}

absl::Status App::Impl::ServeOnce(const std::string& path, int wake_fd, bool* welcomed) {
  MS_ASSIGN_OR_RETURN(std::unique_ptr<Link> link, Link::Connect(path, wake_fd));
  Session session(std::move(link), program_, options_, stop_);
  const absl::Status status = session.Run();
  *welcomed = session.welcomed();
  if (status.ok()) {
    options_.logger(LogSeverity::kInfo, "the session ended in good order",
                    {{"processor", session.welcome().processor}});
  }
  return status;
}

App::App(AppOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
App::~App() = default;
App& App::On(std::string input, Handler handler) {
  impl_->program().inputs[std::move(input)] = std::move(handler);
  return *this;
}
App& App::OnTimer(std::string name, Handler handler) {
  impl_->program().timers[std::move(name)] = std::move(handler);
  return *this;
}
App& App::OnClose(std::string store, Handler handler) {
  impl_->program().closings[std::move(store)] = std::move(handler);
  return *this;
}
App& App::OnVisit(std::string name, Handler handler) {
  impl_->program().visits[std::move(name)] = std::move(handler);
  return *this;
}
App& App::OnVisitEnd(std::string name, Handler handler) {
  impl_->program().visit_ends[std::move(name)] = std::move(handler);
  return *this;
}
App& App::MergeSessions(std::string store, SessionMerge merge) {
  impl_->program().merges[std::move(store)] = std::move(merge);
  return *this;
}
App& App::OnBegin(Handler hook) {
  impl_->program().begin = std::move(hook);
  return *this;
}
App& App::OnFinalize(Handler hook) {
  impl_->program().finalize = std::move(hook);
  return *this;
}
App& App::OnCommitted(std::function<void(int32_t task)> hook) {
  impl_->program().committed = std::move(hook);
  return *this;
}
absl::Status App::Run() { return impl_->Run(); }
int App::Main() {
  const absl::Status status = Run();
  if (!status.ok()) impl_->logger()(LogSeverity::kError, ToStd(status.message()), {});
  return status.ok() ? 0 : 1;
}
void App::Stop() { impl_->Stop(); }

}  // namespace millstream::worker
