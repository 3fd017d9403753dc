// hostile_worker against the real worker server: each mode is cut with the reason it deserves, and the server serves
// on. What only the engine can see (a store or output that does not exist, more done than items) is tested with the
// engine.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "absl/synchronization/mutex.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sidecar/protocol/codec.h"
#include "sidecar/server/testing/raw_worker.h"
#include "sidecar/server/worker_server.h"

extern char** environ;

namespace millstream {
namespace {

using ::testing::HasSubstr;

// Gives every worker one batch at once.
class OneBatchEngine : public server::WorkerEvents {
 public:
  absl::StatusOr<protocol::Welcome> OnHello(const server::ConnectedWorker& worker) override {
    if (worker.hello.inputs.has_value()) return absl::InvalidArgumentError("there is no such input; inputs: in");
    protocol::Welcome welcome;
    welcome.deadline_ms = 60'000;
    return welcome;
  }
  void OnConnected(const server::ConnectedWorker& worker) override {
    protocol::Batch batch;
    batch.seq = ++seq_;
    batch.keys = {"k"};
    batch.items.resize(1);
    batch.items[0].key_index = 0;
    batch.items[0].value = "v";
    MS_CHECK_OK(server_->Send(worker.id, protocol::EncodeFrame(batch)));
  }
  void OnMessage(server::WorkerId, server::InboundMessage message) override {
    if (std::holds_alternative<protocol::Result>(message.message)) ++results_;
  }
  void OnDisconnected(server::WorkerId, const absl::Status& cause, bool) override {
    absl::MutexLock lock(&mutex_);
    causes_.push_back(std::string(cause.message()));
  }

  void set_server(server::WorkerServer* server) { server_ = server; }
  int results() const { return results_; }
  // The causes of all ends so far, once there are `count`.
  std::vector<std::string> WaitCauses(size_t count) {
    absl::MutexLock lock(&mutex_);
    const auto enough = [&] { return causes_.size() >= count; };
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&enough), absl::Seconds(20)));
    return causes_;
  }

 private:
  server::WorkerServer* server_ = nullptr;
  uint64_t seq_ = 0;
  std::atomic<int> results_{0};
  absl::Mutex mutex_;
  std::vector<std::string> causes_;
};

class HostileWorkerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/ms-hostile-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    server::WorkerServerOptions options;
    options.socket_path = folder_ + "/worker.sock";
    options.hello_timeout = absl::Milliseconds(500);
    options.max_queued_bytes = 1 << 20;
    server_ = std::make_unique<server::WorkerServer>(options, &engine_, &SystemClock(), metrics_.get());
    engine_.set_server(server_.get());
    ASSERT_EQ(server_->Start(), absl::OkStatus());
  }
  void TearDown() override {
    server_->Stop("the test ends", absl::ZeroDuration());
    rmdir(folder_.c_str());
  }
  pid_t Spawn(const std::string& mode, const std::string& more = "--times=1") {
    const std::string program = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "hostile_worker";
    setenv("MILLSTREAM_SOCKET", server_->socket_path().c_str(), 1);
    std::string mode_flag = "--mode=" + mode, more_flag = more;
    char* arguments[] = {const_cast<char*>(program.c_str()), mode_flag.data(), more_flag.data(), nullptr};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    pid_t pid = 0;
    MS_CHECK(posix_spawn(&pid, program.c_str(), &actions, nullptr, arguments, environ) == 0);
    posix_spawn_file_actions_destroy(&actions);
    return pid;
  }
  int Wait(pid_t pid) {
    int status = 0;
    const absl::Duration deadline = SystemClock().Monotonic() + absl::Seconds(20);
    while (waitpid(pid, &status, WNOHANG) == 0) {
      if (SystemClock().Monotonic() > deadline) {
        ADD_FAILURE() << "hostile_worker does not end";
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        break;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return status;
  }

  std::string folder_;
  OneBatchEngine engine_;
  std::unique_ptr<MetricsRegistry> metrics_ = NewMetricsRegistry();
  std::unique_ptr<server::WorkerServer> server_;
};

TEST_F(HostileWorkerTest, EachModeIsCutWithItsReason) {
  const std::vector<std::pair<std::string, std::string>> modes = {
      {"no-hello", "HelloTimeout"},
      {"slow-hello", "HelloTimeout"},
      {"old-version", "VersionMismatch"},
      {"new-version", "VersionMismatch"},
      {"result-first", "BadFrame"},
      {"unknown-input", "Refused"},
      {"exit-mid-batch", "without GOODBYE"},
      {"wrong-seq", "UnknownBatch"},
      {"twice", "UnknownBatch"},
      {"oversized", "FrameTooLarge"},
      {"beyond-cap", "FrameTooLarge"},
      {"empty-frame", "BadFrame"},
      {"truncated", "inside a frame"},
      {"random", "BadFrame"},
      {"flood-get", "Flood"},
      {"flood-extend", "Flood"},
      {"flood-ping", "NotReading"},
      {"half-open", "without GOODBYE"},
      {"error", "told to fail"},
  };
  for (const auto& [mode, reason] : modes) {
    SCOPED_TRACE(mode);
    server_->ClearFirstError();
    const int status = Wait(Spawn(mode));
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    // Told once the end is noticed.
    const absl::Duration deadline = SystemClock().Monotonic() + absl::Seconds(10);
    while (server_->FirstError().ok() && SystemClock().Monotonic() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_THAT(std::string(server_->FirstError().message()), HasSubstr(reason));
  }
  // A real worker is served as ever.
  auto worker = server::RawWorker::Connect(server_->socket_path());
  ASSERT_TRUE(worker.ok());
  EXPECT_EQ(worker->Greet().status(), absl::OkStatus());
}

TEST_F(HostileWorkerTest, AnOldSessionsResultsAreRefused) {
  EXPECT_EQ(Wait(Spawn("replay", "--times=1")), 0);
  const auto causes = engine_.WaitCauses(2);
  EXPECT_THAT(causes[0], HasSubstr("without GOODBYE"));
  EXPECT_THAT(causes[1], HasSubstr("UnknownBatch"));
  EXPECT_EQ(engine_.results(), 0);
}

TEST_F(HostileWorkerTest, ACrashIsSeenAtOnce) {
  const int status = Wait(Spawn("crash-key", "--key=k"));
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_THAT(engine_.WaitCauses(1)[0], HasSubstr("without GOODBYE"));
}

TEST_F(HostileWorkerTest, AHangingWorkerCanBeCut) {
  const pid_t pid = Spawn("hang");
  while (server_->connected_workers() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  server_->Close(server::WorkerId(1), "DeadlineExceeded", "too slow");  // as the engine does
  EXPECT_THAT(engine_.WaitCauses(1)[0], HasSubstr("DeadlineExceeded"));
  kill(pid, SIGKILL);
  Wait(pid);
}

}  // namespace
}  // namespace millstream
