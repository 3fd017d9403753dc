#include "cli/conform/worker_program.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>

#include "cli/run/spawn.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/strings.h"

extern char** environ;

namespace millstream::cli::conform {
namespace {

constexpr absl::Duration kLook = absl::Milliseconds(5);
constexpr off_t kShownOutput = 4 << 10;

std::vector<std::string> Environment(const std::string& socket_path, std::vector<std::string> environment) {
  environment.push_back(StrCat("MILLSTREAM_SOCKET=", socket_path));
  environment.push_back("PYTHONUNBUFFERED=1");
  const size_t ours = environment.size();
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('=') + 1);
    if (std::none_of(environment.begin(), environment.begin() + static_cast<ptrdiff_t>(ours),
                     [&](const std::string& own) { return own.starts_with(name); }))
      environment.emplace_back(text);
  }
  return environment;
}

}  // namespace

WorkerProgram::~WorkerProgram() {
  if (running()) {
    Signal(SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (output_ >= 0) close(output_);
}

absl::Status WorkerProgram::Start(const std::string& socket_path) {
  MS_CHECK(!running());
  if (output_ < 0) output_ = memfd_create("millstream-conform", MFD_CLOEXEC);
  if (output_ < 0) return absl::ErrnoToStatus(errno, "memfd_create");
  // Opened for appending, so that output and errors do not write over each other.
  fcntl(output_, F_SETFL, O_APPEND);
  exit_code_.reset();
  MS_ASSIGN_OR_RETURN(pid_, Spawn({.command = command_,
                                   .environment = Environment(socket_path, variables_),
                                   .working_directory = "",
                                   .standard_output = output_,
                                   .standard_error = output_}));
  return absl::OkStatus();
}

bool WorkerProgram::running() {
  if (pid_ <= 0 || exit_code_.has_value()) return false;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return true;
  exit_code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  kill(-pid_, SIGKILL);  // what it left behind
  return false;
}

void WorkerProgram::Signal(int number) {
  if (pid_ <= 0 || exit_code_.has_value()) return;
  kill(number == SIGKILL ? -pid_ : pid_, number);
}

std::optional<int> WorkerProgram::WaitForExit(absl::Duration timeout) {
  const absl::Duration deadline = SystemClock().Monotonic() + timeout;
  while (running() && SystemClock().Monotonic() < deadline) absl::SleepFor(kLook);
  return exit_code_;
}

std::string WorkerProgram::Output() const {
  if (output_ < 0) return "";
  const off_t size = lseek(output_, 0, SEEK_END);
  std::string text(static_cast<size_t>(std::min(size, kShownOutput)), '\0');
  const ssize_t got = pread(output_, text.data(), text.size(), size - static_cast<off_t>(text.size()));
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return text;
}

}  // namespace millstream::cli::conform
