#include "cli/run/spawn.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/base/strings.h"

namespace millstream::cli {
namespace {

constexpr size_t kStackBytes = 256 << 10;  // execvpe puts paths and argument lists on it

struct Child {
  pid_t parent;
  char* const* arguments;
  char* const* variables;
  const char* working_directory;  // nullptr: ours
  int standard_output, standard_error;
  int error = 0;  // why it could not be done; the parent reads it, the memory is shared
};

// Everything above standard error closes with exec, also what libraries opened without saying so.
void CloseOthersOnExec() {
#ifdef SYS_close_range
  constexpr unsigned kCloseRangeCloexec = 4;
  if (syscall(SYS_close_range, 3u, ~0u, kCloseRangeCloexec) == 0) return;
#endif
  for (int descriptor = 3; descriptor < 4096; ++descriptor) fcntl(descriptor, F_SETFD, FD_CLOEXEC);
}

// In the child, on a stack of its own, with all signals blocked.
int RunChild(void* argument) {
  Child* child = static_cast<Child*>(argument);
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != child->parent) _exit(1);  // the parent died before that took hold
  for (const int number : {SIGINT, SIGTERM, SIGPIPE}) signal(number, SIG_DFL);
  dup2(child->standard_output, STDOUT_FILENO);
  dup2(child->standard_error, STDERR_FILENO);
  CloseOthersOnExec();
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (child->working_directory == nullptr || chdir(child->working_directory) == 0) {
    execvpe(child->arguments[0], child->arguments, child->variables);
  }
  child->error = errno;
  _exit(127);
}

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& text : strings) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

absl::StatusOr<pid_t> Spawn(const SpawnRequest& request) {
  const std::vector<char*> arguments = Pointers(request.command), variables = Pointers(request.environment);
  Child child{.parent = getpid(),
              .arguments = arguments.data(),
              .variables = variables.data(),
              .working_directory = request.working_directory.empty() ? nullptr : request.working_directory.c_str(),
              .standard_output = request.standard_output,
              .standard_error = request.standard_error};
  void* stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (stack == MAP_FAILED) return absl::ResourceExhaustedError(StrCat("worker: stack: ", std::strerror(errno)));
  // No handler of ours may run in the child, where it would write to our memory.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = clone(RunChild, static_cast<char*>(stack) + kStackBytes, CLONE_VM | CLONE_VFORK | SIGCHLD, &child);
  const int clone_error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  munmap(stack, kStackBytes);
  if (pid < 0) return absl::ResourceExhaustedError(StrCat("worker: clone: ", std::strerror(clone_error)));
  if (child.error == 0) return pid;
  waitpid(pid, nullptr, 0);
  const std::string message =
      StrCat("the worker cannot be started: ", request.command[0], ": ", std::strerror(child.error));
  return child.error == ENOENT ? absl::NotFoundError(message) : absl::PermissionDeniedError(message);
}

}  // namespace millstream::cli
