// kill -9 at random times and at the worst ones: what is on disk afterwards is one earlier batch in whole.
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <thread>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "gtest/gtest.h"
#include "sidecar/store/numbered_batches.h"
#include "sidecar/store/store_test_util.h"

namespace millstream::store {
namespace {

// The writer program, running. What it prints ends up in Finish.
class Writer {
 public:
  Writer(const std::string& folder, uint64_t seed, const std::string& crash_at) {
    const std::string program =
        (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "store_crash_writer").string();
    const std::string seed_text = StrCat(seed);
    int ends[2];
    MS_CHECK(pipe2(ends, O_CLOEXEC) == 0);
    pid_ = fork();
    MS_CHECK(pid_ >= 0);
    if (pid_ == 0) {
      dup2(ends[1], STDOUT_FILENO);
      if (!crash_at.empty()) setenv("MILLSTREAM_CRASH_AT", crash_at.c_str(), 1);
      execl(program.c_str(), program.c_str(), folder.c_str(), seed_text.c_str(), static_cast<char*>(nullptr));
      _exit(127);
    }
    close(ends[1]);
    output_ = ends[0];
  }

  // Until it has flushed something for the first time.
  void AwaitFirstFlush() {
    pollfd waiting{output_, POLLIN, 0};
    EXPECT_EQ(poll(&waiting, 1, 30'000), 1) << "the writer does not get to its first flush";
  }

  // Kills it after `patience`, unless it dies by itself, and returns the last batch it knew to be flushed.
  int64_t Finish(std::chrono::milliseconds patience) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    int status = 0;
    while (waitpid(pid_, &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() >= deadline) {
        kill(pid_, SIGKILL);
        waitpid(pid_, &status, 0);
        break;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "the writer failed by itself, status " << status;
    std::string text;
    char buffer[4096];
    for (ssize_t n; (n = read(output_, buffer, sizeof(buffer))) > 0;) text.append(buffer, static_cast<size_t>(n));
    close(output_);
    while (!text.empty() && text.back() != '\n') text.pop_back();  // a line cut by the kill
    if (text.empty()) return 0;
    text.pop_back();
    return strtoll(text.substr(text.find_last_of('\n') + 1).c_str(), nullptr, 10);
  }

 private:
  pid_t pid_ = 0;
  int output_ = -1;
};

class Crash : public ::testing::Test {
 protected:
  Crash() { plan_.seed = TestSeed(); }

  // Opens what the writer left and compares it with the model; returns the batch it stands at.
  int64_t CheckPrefix() {
    StateEnvironment environment{StateMemory()};
    const auto store = OpenOrDie(&environment, folder_.path(), BatchIdentity());
    EXPECT_EQ(store->wiped_reason(), "");
    const int64_t number = BatchNumber(store->positions());
    EXPECT_GE(number, 0) << "positions contradict each other";
    const auto model = BatchModel(plan_, std::max<int64_t>(number, 0));
    EXPECT_EQ(Rows(*store, 0), model[0]) << "at batch " << number;
    EXPECT_EQ(Rows(*store, 1), model[1]) << "at batch " << number;
    return number;
  }

  TempFolder folder_;
  BatchPlan plan_;
};

TEST_F(Crash, KilledAtRandomTimes) {
  std::mt19937_64 random(plan_.seed);
  int64_t last = 0;
  // On a busy machine 30 writers may all be killed before their first batch: then more of them.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  const auto enough = [&](int round) {
    return round >= 30 && (last > 100 || std::chrono::steady_clock::now() >= deadline);
  };
  for (int round = 0; !enough(round) && !HasFailure(); ++round) {
    Writer writer(folder_.path(), plan_.seed, "");
    // Mostly some time after the first sign of work, sometimes while it still opens the store.
    if (random() % 4 != 0) writer.AwaitFirstFlush();
    const int64_t flushed = writer.Finish(std::chrono::milliseconds(10 + random() % (120 + 10 * round)));
    const int64_t number = CheckPrefix();
    EXPECT_GE(number, flushed) << "a flushed batch was lost in round " << round;
    EXPECT_GE(number, last);
    last = number;
  }
  EXPECT_GT(last, 100) << "the writer got nowhere: the test shows nothing";
}

TEST_F(Crash, KilledWithHalfAFlushOnDisk) {
  int64_t last = 0;
  for (int nth = 1; nth <= 12 && !HasFailure(); ++nth) {
    Writer writer(folder_.path(), plan_.seed, StrCat("store-flush-half-done:", nth));
    const int64_t flushed = writer.Finish(std::chrono::seconds(30));
    const int64_t number = CheckPrefix();
    EXPECT_GE(number, flushed);
    EXPECT_GE(number, last);
    last = number;
  }
  EXPECT_GT(last, 0);
}

}  // namespace
}  // namespace millstream::store
