#include "cli/run/spawn.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <string>
#include <thread>

#include "gtest/gtest.h"

namespace millstream::cli {
namespace {

std::string ReadToEnd(int descriptor) {
  std::string text;
  char buffer[4096];
  for (ssize_t got; (got = read(descriptor, buffer, sizeof(buffer))) > 0;)
    text.append(buffer, static_cast<size_t>(got));
  return text;
}

// Runs it to its end; what it wrote to standard output.
absl::StatusOr<std::string> RunToEnd(std::vector<std::string> command, std::string working_directory = "") {
  int out[2];
  EXPECT_EQ(pipe2(out, O_CLOEXEC), 0);
  const absl::StatusOr<pid_t> pid = Spawn({.command = std::move(command),
                                           .environment = {"PATH=/usr/bin:/bin", "WORD=hello"},
                                           .working_directory = std::move(working_directory),
                                           .standard_output = out[1],
                                           .standard_error = STDERR_FILENO});
  close(out[1]);
  const std::string text = ReadToEnd(out[0]);
  close(out[0]);
  if (!pid.ok()) return pid.status();
  EXPECT_EQ(waitpid(*pid, nullptr, 0), *pid);
  return text;
}

TEST(SpawnTest, GivesEnvironmentFolderAndOutput) {
  EXPECT_EQ(*RunToEnd({"sh", "-c", "echo $WORD $PWD"}, "/usr"), "hello /usr\n");
}

TEST(SpawnTest, WhatCannotBeRunIsNamed) {
  EXPECT_TRUE(absl::IsNotFound(RunToEnd({"no-such-program"}).status()));
  EXPECT_TRUE(absl::IsPermissionDenied(RunToEnd({"/dev/null"}).status()));
  EXPECT_TRUE(absl::IsNotFound(RunToEnd({"sh"}, "/no/such/folder").status()));
}

TEST(SpawnTest, NoOtherDescriptorIsInherited) {
  // As libraries do, without O_CLOEXEC; a number that the shell does not use itself.
  const int leaky = fcntl(STDIN_FILENO, F_DUPFD, 100);
  ASSERT_GE(leaky, 100);
  const auto listed = RunToEnd({"sh", "-c", "for f in /proc/self/fd/*; do echo ${f##*/}; done"});
  EXPECT_EQ(listed->find("\n" + std::to_string(leaky) + "\n"), std::string::npos) << *listed;
  close(leaky);
}

// With fork, the allocator's locks and those of stdio are taken in the wrong order, and the process hangs sooner or
// later.
TEST(SpawnTest, DoesNotHangWhileOtherThreadsUseStdioAndTheAllocator) {
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&done] {
      while (!done) {
        if (FILE* file = std::fopen("/dev/null", "w")) {
          std::fputs(std::string(1000, 'x').c_str(), file);
          std::fclose(file);
        }
      }
    });
  }
  for (int i = 0; i < 300; ++i) ASSERT_TRUE(RunToEnd({"true"}).ok());
  done = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace millstream::cli
