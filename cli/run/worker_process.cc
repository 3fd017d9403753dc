#include "cli/run/worker_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>

#include "cli/run/spawn.h"
#include "common/base/clock.h"
#include "common/base/strings.h"

extern char** environ;

namespace millstream::cli {
namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(200);
constexpr absl::Duration kLongestPause = absl::Seconds(30);
constexpr absl::Duration kHealthyAfter = absl::Seconds(10);
constexpr absl::Duration kRestartGrace = absl::Milliseconds(300);
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

std::string Describe(int status) {
  if (WIFSIGNALED(status))
    return StrCat("was killed by signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)), ")");
  if (WEXITSTATUS(status) == 0)
    return "ended with exit code 0, though a worker runs until it is told to stop (is its last line app.run()?)";
  return StrCat("ended with exit code ", WEXITSTATUS(status));
}

}  // namespace

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
  return StartProcess();
}

absl::Status WorkerProcess::StartProcess() {
  int out[2], err[2];
  if (pipe2(out, O_CLOEXEC) != 0) return absl::ResourceExhaustedError(StrCat("worker: pipe: ", std::strerror(errno)));
  if (pipe2(err, O_CLOEXEC) != 0) {
    const int error = errno;
    for (const int descriptor : out) close(descriptor);
    return absl::ResourceExhaustedError(StrCat("worker: pipe: ", std::strerror(error)));
  }
  const absl::StatusOr<pid_t> pid = Spawn({.command = options_.command,
                                           .environment = MergedEnvironment(options_.environment),
                                           .working_directory = options_.working_directory,
                                           .standard_output = out[1],
                                           .standard_error = err[1]});
  close(out[1]);
  close(err[1]);
  if (!pid.ok()) {
    close(out[0]);
    close(err[0]);
    return pid.status();
  }
  for (int i = 0; i < 2; ++i) {
    if (output_[i].descriptor >= 0) close(output_[i].descriptor);
    output_[i] = {.descriptor = i == 0 ? out[0] : err[0], .pending = ""};
    fcntl(output_[i].descriptor, F_SETFL, O_NONBLOCK);
  }
  pid_ = *pid;
  ++starts_;
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
  if (const absl::Status started = StartProcess(); !started.ok()) {
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

bool WorkerProcess::Includes(pid_t pid) const { return running() && pid > 0 && getpgid(pid) == pid_; }

void WorkerProcess::ReplaceOne(pid_t pid) {
  if (pid == pid_) {
    Replace();
  } else if (Includes(pid)) {
    kill(pid, SIGKILL);
  }
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
