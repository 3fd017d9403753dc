#include "common/base/lock_file.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace millstream {
namespace {

class LockFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/lock-XXXXXX";
    root_ = mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  int Open() const { return open((root_ + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644); }

  std::string root_;
};

TEST_F(LockFileTest, AHolderThatLivesIsNotWaitedFor) {
  const int held = Open(), other = Open();
  ASSERT_TRUE(LockFile(held, 0).ok());
  EXPECT_TRUE(absl::IsUnavailable(LockFile(other, getpid())));
  EXPECT_TRUE(absl::IsUnavailable(LockFile(other, 0)));
  close(held);
  EXPECT_TRUE(LockFile(other, getpid()).ok());
  close(other);
}

TEST_F(LockFileTest, WhatADeadHolderLeftToAChildIsWaitedFor) {
  int release[2], held[2];
  ASSERT_EQ(pipe(release), 0);
  ASSERT_EQ(pipe(held), 0);
  const pid_t holder = fork();
  if (holder == 0) {  // locks, begets, ends
    const bool locked = LockFile(Open(), 0).ok();
    if (fork() == 0) {
      close(release[1]);
      char none;
      const bool kept = write(held[1], locked ? "y" : "n", 1) == 1 && read(release[0], &none, 1) == 0;
      _exit(kept ? 0 : 1);
    }
    _exit(0);
  }
  waitpid(holder, nullptr, 0);
  char locked = 0;
  ASSERT_EQ(read(held[0], &locked, 1), 1);
  ASSERT_EQ(locked, 'y');
  const int fd = Open();
  EXPECT_TRUE(absl::IsUnavailable(LockFile(fd, getpid())));
  std::thread later([&release] {
    absl::SleepFor(absl::Milliseconds(100));
    close(release[1]);
  });
  EXPECT_TRUE(LockFile(fd, holder).ok());
  later.join();
  for (const int each : {fd, release[0], held[0], held[1]}) close(each);
}

TEST(HolderInTest, FindsWhatLocksSay) {
  EXPECT_EQ(HolderIn("millstream run (pid 4711)"), 4711);
  EXPECT_EQ(HolderIn("12\n"), 12);
  EXPECT_EQ(HolderIn("7"), 7);
  EXPECT_EQ(HolderIn(""), 0);
  EXPECT_EQ(HolderIn("nobody"), 0);
  EXPECT_EQ(HolderIn("99999999999999999999"), 0);
}

}  // namespace
}  // namespace millstream
