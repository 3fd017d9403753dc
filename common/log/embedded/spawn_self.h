#ifndef MILLSTREAM_COMMON_LOG_EMBEDDED_SPAWN_SELF_H_
#define MILLSTREAM_COMMON_LOG_EMBEDDED_SPAWN_SELF_H_

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "common/base/status.h"

namespace millstream::log::embedded {

// This test program, run again as a child that executes one test, which does nothing elsewhere; it is told `argument`
// in the environment and writes to the pipe whose reading end is `output`. (A bare fork would lack RocksDB's threads.)
// Killed, if it still runs, and waited for at the end.
class SpawnedSelf {
 public:
  SpawnedSelf(const std::string& test, const std::string& argument) {
    int ends[2];
    MS_CHECK(pipe(ends) == 0);
    pid_ = fork();
    MS_CHECK(pid_ >= 0);
    if (pid_ == 0) {
      close(ends[0]);
      setenv("MILLSTREAM_TEST_ARGUMENT", argument.c_str(), 1);
      setenv("MILLSTREAM_TEST_OUTPUT", std::to_string(ends[1]).c_str(), 1);
      const std::string filter = "--gtest_filter=" + test;
      dup2(STDERR_FILENO, STDOUT_FILENO);
      execl("/proc/self/exe", "child", filter.c_str(), "--gtest_brief=1", nullptr);
      _exit(127);
    }
    close(ends[1]);
    output_ = ends[0];
  }
  ~SpawnedSelf() {
    Kill();
    close(output_);
  }
  SpawnedSelf(const SpawnedSelf&) = delete;
  SpawnedSelf& operator=(const SpawnedSelf&) = delete;

  pid_t pid() const { return pid_; }
  int output() const { return output_; }
  void Kill() {
    if (waited_) return;
    kill(pid_, SIGKILL);
    MS_CHECK(waitpid(pid_, nullptr, 0) == pid_);
    waited_ = true;
  }

  // In the child.
  static std::string Argument() {
    const char* argument = std::getenv("MILLSTREAM_TEST_ARGUMENT");
    return argument == nullptr ? "" : argument;
  }
  static void Tell(const std::string& line) {
    const char* output = std::getenv("MILLSTREAM_TEST_OUTPUT");
    MS_CHECK(output != nullptr);
    MS_CHECK(write(std::atoi(output), line.data(), line.size()) == static_cast<ssize_t>(line.size()));
  }

 private:
  pid_t pid_ = -1;
  int output_ = -1;
  bool waited_ = false;
};

}  // namespace millstream::log::embedded

#endif  // MILLSTREAM_COMMON_LOG_EMBEDDED_SPAWN_SELF_H_
