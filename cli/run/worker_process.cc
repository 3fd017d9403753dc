#include "cli/run/worker_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>

#include "common/base/clock.h"
#include "common/base/strings.h"

extern char** environ;

namespace millstream::cli {
namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(200);
constexpr absl::Duration kLongestPause = absl::Seconds(30);
constexpr absl::Duration kHealthyAfter = absl::Seconds(10);
constexpr absl::Duration kRestartGrace = absl::Seconds(5);
constexpr size_t kLongestLine = 64 << 10;  // of output; longer ones are cut into pieces

std::vector<std::string> MergedEnvironment(const std::vector<std::pair<std::string, std::string>>& extra) {
  std::map<std::string, std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos) merged[std::string(text.substr(0, equals))] = text.substr(equals + 1);
  }
  // Output goes to a pipe, where Python would keep it back for kilobytes.
  merged.try_emplace("PYTHONUNBUFFERED", "1");
  for (const auto& [name, value] : extra) merged[name] = value;
  std::vector<std::string> result;
  for (const auto& [name, value] : merged) result.push_back(StrCat(name, "=", value));
  return result;
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& text : strings) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::string Describe(int status) {
  if (WIFSIGNALED(status))
    return StrCat("was killed by signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)), ")");
  if (WEXITSTATUS(status) == 0)
    return "ended with exit code 0, though a worker runs until it is told to stop (is its last line app.run()?)";
  return StrCat("ended with exit code ", WEXITSTATUS(status));
}

}  // namespace

void CloseOthersOnExec() {
#ifdef SYS_close_range
  constexpr unsigned kCloseRangeCloexec = 4;
  if (syscall(SYS_close_range, 3u, ~0u, kCloseRangeCloexec) == 0) return;
#endif
  for (int descriptor = 3; descriptor < 4096; ++descriptor) fcntl(descriptor, F_SETFD, FD_CLOEXEC);
}

WorkerProcess::WorkerProcess(WorkerProcessOptions options, Print print)
    : options_(std::move(options)), print_(std::move(print)) {}

WorkerProcess::~WorkerProcess() {
  Kill();
  if (pid_ > 0) waitpid(pid_, nullptr, 0);
  for (Stream& stream : output_) {
    if (stream.descriptor >= 0) close(stream.descriptor);
  }
}

absl::Status WorkerProcess::Start() {
  wanted_ = true;
  return Spawn();
}

absl::Status WorkerProcess::Spawn() {
  // Everything that allocates happens before fork: the child of a process with threads may only make system calls.
  std::vector<std::string> command = options_.command;
  std::vector<std::string> environment = MergedEnvironment(options_.environment);
  const std::vector<char*> arguments = Pointers(command), variables = Pointers(environment);
  int out[2], err[2], failure[2];
  if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0 || pipe2(failure, O_CLOEXEC) != 0) {
    return absl::ResourceExhaustedError(StrCat("worker: pipe: ", std::strerror(errno)));
  }
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);  // the parent died before that took hold
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    dup2(out[1], STDOUT_FILENO);
    dup2(err[1], STDERR_FILENO);
    CloseOthersOnExec();
    if (options_.working_directory.empty() || chdir(options_.working_directory.c_str()) == 0) {
      execvpe(arguments[0], arguments.data(), variables.data());
    }
    const int error = errno;
    (void)!write(failure[1], &error, sizeof(error));
    _exit(127);
  }
  const int fork_error = errno;
  for (const int descriptor : {out[1], err[1], failure[1]}) close(descriptor);
  int error = 0;
  const bool failed = child > 0 && read(failure[0], &error, sizeof(error)) == sizeof(error);
  close(failure[0]);
  if (child < 0 || failed) {
    close(out[0]);
    close(err[0]);
    if (child < 0) return absl::ResourceExhaustedError(StrCat("worker: fork: ", std::strerror(fork_error)));
    waitpid(child, nullptr, 0);
    const std::string message =
        StrCat("the worker cannot be started: ", options_.command[0], ": ", std::strerror(error));
    return error == ENOENT ? absl::NotFoundError(message) : absl::PermissionDeniedError(message);
  }
  setpgid(child, child);  // the child does so as well; whoever is first
  for (int i = 0; i < 2; ++i) {
    if (output_[i].descriptor >= 0) close(output_[i].descriptor);
    output_[i] = {.descriptor = i == 0 ? out[0] : err[0], .pending = ""};
    fcntl(output_[i].descriptor, F_SETFL, O_NONBLOCK);
  }
  pid_ = child;
  started_at_ = SystemClock().Monotonic();
  kill_at_.reset();
  start_at_.reset();
  restarting_ = false;
  return absl::OkStatus();
}

std::vector<int> WorkerProcess::Descriptors() const {
  std::vector<int> descriptors;
  for (const Stream& stream : output_) {
    if (stream.descriptor >= 0) descriptors.push_back(stream.descriptor);
  }
  return descriptors;
}

void WorkerProcess::ReadFrom(Stream* stream, bool all) {
  if (stream->descriptor < 0) return;
  char buffer[16 << 10];
  // Not more than this at a time, so that a program that prints without end cannot hold up everything else.
  for (int reads = 0; all || reads < 16; ++reads) {
    const ssize_t got = read(stream->descriptor, buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      if (got == 0) {
        close(stream->descriptor);
        stream->descriptor = -1;
      }
      break;
    }
    stream->pending.append(buffer, static_cast<size_t>(got));
    size_t begin = 0;
    for (size_t end; (end = stream->pending.find('\n', begin)) != std::string::npos; begin = end + 1) {
      print_(std::string_view(stream->pending).substr(begin, end - begin));
    }
    stream->pending.erase(0, begin);
    if (stream->pending.size() > kLongestLine) {
      print_(stream->pending);
      stream->pending.clear();
    }
  }
  if (stream->descriptor < 0 && !stream->pending.empty()) {
    print_(stream->pending);
    stream->pending.clear();
  }
}

void WorkerProcess::Service(absl::Duration now) {
  for (Stream& stream : output_) ReadFrom(&stream, false);
  if (running() && kill_at_.has_value() && now >= *kill_at_) {
    Signal(SIGKILL);
    kill_at_.reset();
  }
  Reap(now);
  if (running() || !wanted_ || !start_at_.has_value() || now < *start_at_) return;
  if (const absl::Status started = Spawn(); !started.ok()) {
    print_(std::string(started.message()));
    pause_ = std::min(std::max(pause_ * 2, kFirstPause), kLongestPause);
    start_at_ = now + pause_;
  }
}

void WorkerProcess::Reap(absl::Duration now) {
  int status = 0;
  if (!running() || waitpid(pid_, &status, WNOHANG) != pid_) return;
  // Its children, if it left any behind.
  kill(-pid_, SIGKILL);
  for (Stream& stream : output_) ReadFrom(&stream, true);
  pid_ = -1;
  kill_at_.reset();
  if (!wanted_) return;
  if (restarting_) {
    start_at_ = now;
    return;
  }
  pause_ =
      now - started_at_ >= kHealthyAfter ? kFirstPause : std::min(std::max(pause_ * 2, kFirstPause), kLongestPause);
  start_at_ = now + pause_;
  print_(StrCat("the worker ", Describe(status), "; started again in ", absl::FormatDuration(pause_)));
}

void WorkerProcess::Signal(int number) {
  if (running()) kill(-pid_, number);
}

void WorkerProcess::Restart(absl::Duration now) {
  restarting_ = true;
  pause_ = absl::ZeroDuration();
  if (!running()) {
    start_at_ = now;
    return;
  }
  Signal(SIGTERM);
  kill_at_ = now + kRestartGrace;
}

void WorkerProcess::Stop(absl::Duration now, absl::Duration grace) {
  wanted_ = false;
  Signal(SIGTERM);
  kill_at_ = now + grace;
}

void WorkerProcess::Kill() {
  wanted_ = false;
  Signal(SIGKILL);
}

}  // namespace millstream::cli
