#include "sidecar/host/writer_threads.h"

#include <filesystem>
#include <thread>

#include "absl/synchronization/mutex.h"
#include "common/base/status.h"
#include "common/log/embedded/embedded_log.h"
#include "common/log/testing/faulty_log.h"
#include "gtest/gtest.h"

namespace millstream::host {
namespace {

using What = engine::WriterCall::What;
using engine::WriterName;

class Collector : public EventSink {
 public:
  void Post(engine::Event event) override {
    absl::MutexLock lock(&mutex_);
    answers_.push_back(std::move(std::get<engine::WriterCallDone>(event)));
  }
  // The answer to `call`; fails the test if it does not come.
  engine::WriterCallDone Wait(engine::CallId call) {
    const auto there = [&]() { return Find(call) != nullptr; };
    absl::MutexLock lock(&mutex_);
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&there), absl::Seconds(20))) << "no answer to call " << call;
    const engine::WriterCallDone* answer = Find(call);
    return answer == nullptr ? engine::WriterCallDone{} : *answer;
  }
  bool Has(engine::CallId call) {
    absl::MutexLock lock(&mutex_);
    return Find(call) != nullptr;
  }

 private:
  const engine::WriterCallDone* Find(engine::CallId call) const {
    for (const engine::WriterCallDone& answer : answers_) {
      if (answer.call == call) return &answer;
    }
    return nullptr;
  }
  absl::Mutex mutex_;
  std::vector<engine::WriterCallDone> answers_;
};

class WriterThreadsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/writers-XXXXXX";
    root_ = mkdtemp(pattern.data());
    auto log = log::EmbeddedLog::Open({.directory = root_});
    ASSERT_TRUE(log.ok()) << log.status();
    log_ = *std::move(log);
    ASSERT_TRUE(log_->admin().CreateTopic({.name = "t", .partitions = 1, .config = {}}).ok());
    faulty_ = std::make_unique<log::FaultyLog>(log_.get());
    WriterThreadsOptions options;
    options.transactional_id_a = "a";
    options.transactional_id_b = "b";
    options.abandon_after = absl::Seconds(5);
    writers_ = std::make_unique<WriterThreads>(options, faulty_.get(), &clock_, &collector_);
  }
  void TearDown() override {
    writers_.reset();
    faulty_.reset();
    log_.reset();
    std::filesystem::remove_all(root_);
  }

  engine::CallId Call(WriterName writer, What what) {
    engine::WriterCall call;
    call.writer = writer;
    call.call = next_++;
    call.what = what;
    if (what == What::kAppend)
      call.records.push_back({.to = {"t", Partition(0)}, .timestamp_ms = 1, .key = "k", .value = "v", .headers = {}});
    const engine::CallId id = call.call;
    writers_->Call(std::move(call));
    return id;
  }
  // A transaction up to a commit that hangs.
  int HangCommit(WriterName writer, const std::string& id, engine::CallId* commit) {
    const int fault =
        faulty_->Inject({.call = log::Call::kCommit, .of = id, .status = absl::OkStatus(), .delay = {}, .hold = true});
    Call(writer, What::kCreate);
    Call(writer, What::kBegin);
    Call(writer, What::kAppend);
    Call(writer, What::kFlush);
    *commit = Call(writer, What::kCommit);
    EXPECT_TRUE(faulty_->WaitUntilHeld(fault, absl::Seconds(20)));
    return fault;
  }

  std::string root_;
  FakeClock clock_;
  Collector collector_;
  std::unique_ptr<log::EmbeddedLog> log_;
  std::unique_ptr<log::FaultyLog> faulty_;
  std::unique_ptr<WriterThreads> writers_;
  engine::CallId next_ = 1;
};

TEST_F(WriterThreadsTest, CallsAreAnsweredInOrderWithWhatTheyFound) {
  for (const WriterName writer : {WriterName::kA, WriterName::kB}) {
    for (const What what : {What::kCreate, What::kBegin, What::kAppend}) {
      const absl::Status status = collector_.Wait(Call(writer, what)).status;
      EXPECT_TRUE(status.ok()) << status;
    }
    const engine::WriterCallDone flushed = collector_.Wait(Call(writer, What::kFlush));
    ASSERT_TRUE(flushed.status.ok()) << flushed.status;
    EXPECT_TRUE(flushed.acknowledged.contains(TopicPartition{"t", Partition(0)}));
    EXPECT_TRUE(collector_.Wait(Call(writer, What::kCommit)).status.ok());
  }
  // Two records and two markers.
  EXPECT_EQ(log_->admin().EndOffset({"t", Partition(0)}, log::Isolation::kReadCommitted)->value(), 4);
}

TEST_F(WriterThreadsTest, BeforeCreateEverythingAsksForCreate) {
  EXPECT_EQ(RecoveryOf(collector_.Wait(Call(WriterName::kA, What::kBegin)).status), Recovery::kRecreate);
}

TEST_F(WriterThreadsTest, ThePlainWriterAppendsAndFlushes) {
  EXPECT_TRUE(collector_.Wait(Call(WriterName::kPlain, What::kCreate)).status.ok());
  EXPECT_TRUE(collector_.Wait(Call(WriterName::kPlain, What::kAppend)).status.ok());
  EXPECT_TRUE(collector_.Wait(Call(WriterName::kPlain, What::kFlush)).status.ok());
  EXPECT_EQ(log_->admin().EndOffset({"t", Partition(0)}, log::Isolation::kReadCommitted)->value(), 1);
}

TEST_F(WriterThreadsTest, ACallPastItsDeadlineIsAbandonedWithAnUnknownOutcome) {
  engine::CallId commit;
  const int fault = HangCommit(WriterName::kA, "a", &commit);
  const engine::CallId behind = Call(WriterName::kA, What::kBegin);
  writers_->CheckDeadlines();
  EXPECT_FALSE(collector_.Has(commit));
  clock_.Advance(absl::Seconds(6));
  writers_->CheckDeadlines();
  EXPECT_TRUE(IsOutcomeUnknown(collector_.Wait(commit).status));
  EXPECT_EQ(RecoveryOf(collector_.Wait(behind).status), Recovery::kRecreate);
  EXPECT_EQ(writers_->stuck(), 1);
  // A new writer under the same id works on, and fences the one that hangs.
  EXPECT_TRUE(collector_.Wait(Call(WriterName::kA, What::kCreate)).status.ok());
  EXPECT_TRUE(collector_.Wait(Call(WriterName::kA, What::kBegin)).status.ok());
  faulty_->Release(fault);
  for (int i = 0; i < 2000 && writers_->stuck() > 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(writers_->stuck(), 0);
}

TEST_F(WriterThreadsTest, AfterTwoAbandonedCallsNoNewWriterIsMadeUntilOneIsBack) {
  engine::CallId commit_a, commit_b;
  const int fault_a = HangCommit(WriterName::kA, "a", &commit_a);
  const int fault_b = HangCommit(WriterName::kB, "b", &commit_b);
  clock_.Advance(absl::Seconds(6));
  writers_->CheckDeadlines();
  collector_.Wait(commit_a);
  collector_.Wait(commit_b);
  EXPECT_EQ(writers_->stuck(), 2);
  const engine::CallId create = Call(WriterName::kA, What::kCreate);
  writers_->CheckDeadlines();
  EXPECT_FALSE(collector_.Has(create));
  faulty_->Release(fault_a);
  for (int i = 0; i < 2000 && !collector_.Has(create); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    writers_->CheckDeadlines();
  }
  EXPECT_TRUE(collector_.Wait(create).status.ok());
  faulty_->Release(fault_b);
  for (int i = 0; i < 2000 && writers_->stuck() > 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

}  // namespace
}  // namespace millstream::host
