#include "sidecar/host/fetcher.h"

#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "common/base/clock.h"
#include "common/base/strings.h"
#include "common/log/embedded/embedded_log.h"
#include "common/log/testing/faulty_log.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millstream::host {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class Collector : public EventSink {
 public:
  void Post(engine::Event event) override {
    absl::MutexLock lock(&mutex_);
    if (const auto* failed = std::get_if<engine::InputFailed>(&event)) failed_.push_back(*failed);
    if (const auto* read = std::get_if<engine::RecordsRead>(&event)) {
      for (const log::Record& record : read->records) values_.push_back(StrCat(read->task.value(), ":", *record.value));
    }
  }
  std::vector<engine::InputFailed> failed() const {
    absl::MutexLock lock(&mutex_);
    return failed_;
  }
  std::vector<std::string> values() const {
    absl::MutexLock lock(&mutex_);
    return values_;
  }

 private:
  mutable absl::Mutex mutex_;
  std::vector<engine::InputFailed> failed_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> values_ ABSL_GUARDED_BY(mutex_);
};

template <typename Condition>
bool Eventually(const Condition& condition) {
  const absl::Duration deadline = SystemClock().Monotonic() + absl::Seconds(60);
  while (!condition()) {
    if (SystemClock().Monotonic() > deadline) return false;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return true;
}

// Two partitions of "in" with one record each, named after it.
class FetcherTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/fetcher-XXXXXX";
    root_ = mkdtemp(pattern.data());
    auto log = log::EmbeddedLog::Open({.directory = root_ + "/log"});
    ASSERT_TRUE(log.ok()) << log.status();
    log_ = *std::move(log);
    ASSERT_TRUE(log_->admin().CreateTopic({.name = "in", .partitions = 2, .config = {}}).ok());
    const auto writer = log_->NewPlainWriter();
    for (const int p : {0, 1}) {
      ASSERT_TRUE(
          writer
              ->Append({{.to = {"in", Partition(p)}, .timestamp_ms = 1, .key = "k", .value = StrCat(p), .headers = {}}})
              .ok());
    }
    ASSERT_TRUE(writer->Flush().ok());
    faulty_.emplace(log_.get());
    keys_.emplace(std::vector<spec::InputSpec>(1), 2);
    fetcher_.emplace(&*faulty_, std::vector<std::string>{"in"}, 1 << 20, &*keys_, &events_);
  }
  void TearDown() override {
    fetcher_.reset();
    faulty_.reset();
    log_.reset();
    std::filesystem::remove_all(root_);
  }
  void Fail(absl::Status status, int times) {
    fault_ = faulty_->Inject({.call = log::Call::kAdd, .times = times, .status = std::move(status)});
  }
  void Begin(int task) {
    fetcher_->Do(engine::StartFetch{.task = TaskId(task), .input = 0, .from = Offset(0), .fetch = ++fetches_});
  }

  std::string root_;
  std::unique_ptr<log::EmbeddedLog> log_;
  std::optional<log::FaultyLog> faulty_;
  std::optional<KeyCheck> keys_;
  Collector events_;
  std::optional<Fetcher> fetcher_;
  int fault_ = 0;
  uint64_t fetches_ = 0;
};

TEST_F(FetcherTest, WhatNoBrokerAnswersAboutIsBegunLater) {
  Fail(absl::DeadlineExceededError("describe topic in: no controller"), 3);
  Begin(0);
  Begin(1);
  EXPECT_TRUE(Eventually([&] { return events_.values().size() == 2; }));
  EXPECT_THAT(events_.values(), ::testing::UnorderedElementsAre("0:0", "1:1"));
  EXPECT_THAT(events_.failed(), IsEmpty());
  EXPECT_EQ(faulty_->Strikes(fault_), 3);
}

TEST_F(FetcherTest, ATopicThatIsNotThereIsAFailure) {
  Fail(absl::NotFoundError("there is no topic in"), 1);
  Begin(0);
  EXPECT_TRUE(Eventually([&] { return !events_.failed().empty(); }));
  ASSERT_THAT(events_.failed(), SizeIs(1));
  EXPECT_TRUE(absl::IsNotFound(events_.failed()[0].status));
  EXPECT_EQ(events_.failed()[0].fetch, 1u);
}

TEST_F(FetcherTest, WhatIsStoppedMeanwhileIsNotBegun) {
  Fail(absl::UnauthenticatedError("the password is void"), 1);
  Begin(0);
  EXPECT_TRUE(Eventually([&] { return faulty_->Strikes(fault_) == 1; }));
  fetcher_->Do(engine::StopFetch{.task = TaskId(0), .input = 0});
  Fail(absl::UnavailableError("no broker"), 2);
  Begin(1);  // two attempts, a second each: time for the other
  EXPECT_TRUE(Eventually([&] { return !events_.values().empty(); }));
  EXPECT_THAT(events_.values(), ElementsAre("1:1"));
  EXPECT_EQ(faulty_->Strikes(fault_), 2);
}

}  // namespace
}  // namespace millstream::host
