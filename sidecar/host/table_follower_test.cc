#include "sidecar/host/table_follower.h"

#include <atomic>
#include <filesystem>
#include <functional>
#include <thread>
#include <variant>

#include "absl/strings/match.h"
#include "common/base/strings.h"
#include "common/log/embedded/embedded_log.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millstream::host {
namespace {

using ::testing::HasSubstr;

class Events : public EventSink {
 public:
  void Post(engine::Event event) override {
    absl::MutexLock lock(&mutex_);
    if (const auto* failed = std::get_if<engine::StateFailed>(&event)) failed_.push_back(*failed);
  }
  std::vector<engine::StateFailed> failed() const {
    absl::MutexLock lock(&mutex_);
    return failed_;
  }

 private:
  mutable absl::Mutex mutex_;
  std::vector<engine::StateFailed> failed_ ABSL_GUARDED_BY(mutex_);
};

// A processor with the join "people" (two partitions) and the lookup "rates" (three) on an embedded log.
class TableFollowerTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = "/tmp/ms-tables-XXXXXX";
    root_ = mkdtemp(pattern.data());
    auto log = log::EmbeddedLog::Open({.directory = root_ + "/log"});
    ASSERT_TRUE(log.ok()) << log.status();
    log_ = *std::move(log);
    spec_.name = "p";
    spec_.group = "g";
    spec_.joins = {{"people", "people"}};
    spec_.lookups = {{"rates", "rates"}};
    MakeTopics();
    environment_ = std::make_unique<store::StateEnvironment>(
        store::StateMemory{.block_cache_bytes = 8 << 20, .memtable_bytes = 16 << 20});
  }
  void TearDown() override {
    Stop();
    environment_.reset();
    log_.reset();
    std::filesystem::remove_all(root_);
  }

  void MakeTopics() {
    for (const auto& [topic, partitions] : {std::pair("people", 2), {"rates", 3}}) {
      ASSERT_TRUE(log_->admin()
                      .CreateTopic({.name = topic, .partitions = partitions, .config = {{"cleanup.policy", "compact"}}})
                      .ok());
    }
  }

  void Start() {
    metrics_ = NewMetricsRegistry();
    applier_ = std::make_unique<Applier>(ApplierOptions(), &tasks_, &SystemClock(), metrics_.get(), &events_);
    TableFollowerOptions options;
    options.log = log_.get();
    options.spec = &spec_;
    options.topics.join_ids = {log_->admin().DescribeTopic("people")->id};
    options.topics.lookup_ids = {log_->admin().DescribeTopic("rates")->id};
    options.topics.lookup_partitions = {3};
    options.directory = root_ + "/state";
    options.environment = environment_.get();
    follower_ = std::make_unique<TableFollower>(options, applier_.get(), metrics_.get(), &events_);
    ASSERT_TRUE(follower_->Start().ok());
  }
  void Stop() {
    if (follower_ != nullptr) follower_->Stop();
    if (applier_ != nullptr) applier_->Stop();
    follower_.reset();
    applier_.reset();
  }

  // Opens task 0 with the join as its only store, as its restore would have left it at `position`.
  std::shared_ptr<store::TaskStore> OpenTask(int64_t position) {
    store::StoreDefinition people{.name = "people",
                                  .backend = store::StoreDefinition::Backend::kDisk,
                                  .changelog_topic = "people",
                                  .changelog_topic_id = log_->admin().DescribeTopic("people")->id,
                                  .foreign = true};
    auto opened = store::TaskStore::Open(environment_.get(), root_ + "/state/0", {"g", TaskId(0), {people}});
    EXPECT_TRUE(opened.ok()) << opened.status();
    const std::shared_ptr<store::TaskStore> store = *std::move(opened);
    tasks_.Put(TaskId(0), store);
    store::Positions positions;
    positions.changelog[0] = Offset(position);
    follower_->Follow(TaskId(0), positions);
    return store;
  }

  void Put(const std::string& topic, int partition, const std::string& key, MaybeBytes value) {
    auto writer = log_->NewPlainWriter();
    ASSERT_TRUE(writer
                    ->Append({{.to = {topic, Partition(partition)},
                               .timestamp_ms = 1,
                               .key = key,
                               .value = std::move(value),
                               .headers = {}}})
                    .ok());
    ASSERT_TRUE(writer->Flush().ok());
  }

  std::string Rate(const std::string& key) {
    const auto table = follower_->Lookup(0);
    if (!table.ok()) return "not loaded";
    const auto value = (*table)->Get(0, key);
    EXPECT_TRUE(value.ok()) << value.status();
    return value->value_or("-");
  }
  static void WaitFor(const std::string& what, const std::function<bool()>& condition) {
    for (int i = 0; i < 6000; ++i) {
      if (condition()) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    FAIL() << what;
  }
  double RecordsRead() {
    return metrics_->GetCounter("millstream_table_records_total", "", {{"table", "rates"}})->Value();
  }

  std::string root_;
  std::unique_ptr<log::EmbeddedLog> log_;
  spec::StreamProcessorSpec spec_;
  std::unique_ptr<store::StateEnvironment> environment_;
  std::unique_ptr<MetricsRegistry> metrics_;
  TaskTable tasks_;
  Events events_;
  std::unique_ptr<Applier> applier_;
  std::unique_ptr<TableFollower> follower_;
};

TEST_F(TableFollowerTest, ALookupIsWholeBeforeAnybodyWaitsNoLonger) {
  for (int i = 0; i < 300; ++i) Put("rates", i % 3, StrCat("k", i), StrCat(i));
  Put("rates", 0, "k3", std::nullopt);
  Start();
  ASSERT_TRUE(follower_->WaitForLookups(nullptr).ok());
  EXPECT_EQ(Rate("k299"), "299");
  EXPECT_EQ(Rate("k3"), "-");
  EXPECT_EQ(Rate("nobody"), "-");
  EXPECT_TRUE(follower_->Conditions().empty());
}

TEST_F(TableFollowerTest, ALookupFollowsItsTopic) {
  Start();
  ASSERT_TRUE(follower_->WaitForLookups(nullptr).ok());
  Put("rates", 2, "usd", "1");
  WaitFor("usd never came", [&] { return Rate("usd") == "1"; });
  Put("rates", 2, "usd", "2");
  WaitFor("usd never changed", [&] { return Rate("usd") == "2"; });
  Put("rates", 2, "usd", std::nullopt);
  WaitFor("usd never went", [&] { return Rate("usd") == "-"; });
}

TEST_F(TableFollowerTest, WhatIsOnDiskIsNotReadAgain) {
  for (int i = 0; i < 100; ++i) Put("rates", i % 3, StrCat("k", i), StrCat(i));
  Start();
  ASSERT_TRUE(follower_->WaitForLookups(nullptr).ok());
  EXPECT_EQ(RecordsRead(), 100);
  Stop();
  Put("rates", 1, "new", "x");
  Start();
  ASSERT_TRUE(follower_->WaitForLookups(nullptr).ok());
  EXPECT_EQ(Rate("k99"), "99");
  EXPECT_EQ(Rate("new"), "x");
  EXPECT_EQ(RecordsRead(), 1);
}

TEST_F(TableFollowerTest, ATopicMadeAnewIsReadAnew) {
  Put("rates", 0, "old", "x");
  Start();
  ASSERT_TRUE(follower_->WaitForLookups(nullptr).ok());
  Stop();
  ASSERT_TRUE(log_->admin().DeleteTopic("rates").ok());
  ASSERT_TRUE(log_->admin().DeleteTopic("people").ok());
  MakeTopics();
  Put("rates", 0, "new", "y");
  Start();
  ASSERT_TRUE(follower_->WaitForLookups(nullptr).ok());
  EXPECT_EQ(Rate("old"), "-");
  EXPECT_EQ(Rate("new"), "y");
}

// A topic that is not compacted may have some.
TEST_F(TableFollowerTest, RecordsWithoutAKeySayNothing) {
  ASSERT_TRUE(log_->admin().DeleteTopic("rates").ok());
  ASSERT_TRUE(log_->admin().CreateTopic({.name = "rates", .partitions = 3, .config = {}}).ok());
  auto writer = log_->NewPlainWriter();
  ASSERT_TRUE(
      writer->Append({{.to = {"rates", Partition(0)}, .timestamp_ms = 1, .key = {}, .value = "x", .headers = {}}})
          .ok());
  ASSERT_TRUE(writer->Flush().ok());
  Put("rates", 0, "", "empty");
  Start();
  ASSERT_TRUE(follower_->WaitForLookups(nullptr).ok());
  EXPECT_EQ(Rate(""), "empty");
}

// What is not committed is in no table; what another transaction holds back is not waited for.
TEST_F(TableFollowerTest, OnlyCommittedRecordsCountAndNobodyWaitsForTheOthers) {
  Put("rates", 0, "usd", "1");
  auto writer = log_->NewTransactionalWriter({.transactional_id = "upstream"});
  ASSERT_TRUE(writer->Init().ok());
  ASSERT_TRUE(writer->Begin().ok());
  ASSERT_TRUE(
      writer->Append({{.to = {"rates", Partition(0)}, .timestamp_ms = 1, .key = "usd", .value = "2", .headers = {}}})
          .ok());
  ASSERT_TRUE(writer->Flush().ok());
  Start();
  ASSERT_TRUE(follower_->WaitForLookups(nullptr).ok());
  EXPECT_EQ(Rate("usd"), "1");
  ASSERT_TRUE(writer->Commit().ok());
  WaitFor("the commit was never seen", [&] { return Rate("usd") == "2"; });
}

TEST_F(TableFollowerTest, WaitingCanBeCancelled) {
  spec_.lookups.push_back({"missing", "missing"});
  metrics_ = NewMetricsRegistry();
  TableFollowerOptions options;
  options.log = log_.get();
  options.spec = &spec_;
  options.topics.lookup_ids = {"", ""};
  options.topics.lookup_partitions = {3, 1};
  options.directory = root_ + "/state";
  options.environment = environment_.get();
  follower_ = std::make_unique<TableFollower>(options, nullptr, metrics_.get(), &events_);
  ASSERT_TRUE(follower_->Start().ok());
  std::atomic<bool> cancelled{false};
  std::thread waiting([&] { EXPECT_TRUE(absl::IsCancelled(follower_->WaitForLookups(&cancelled))); });
  WaitFor("no condition", [&] {
    const auto conditions = follower_->Conditions();
    return !conditions.empty() && conditions[0].reason == "TableNotRead" &&
           absl::StrContains(conditions[0].message, "lookup missing cannot be read");
  });
  EXPECT_THAT(std::string(follower_->Lookup(1).status().message()), HasSubstr("still being read"));
  cancelled = true;
  waiting.join();
}

TEST_F(TableFollowerTest, AJoinFollowsItsPartitionFromWhereTheRestoreCame) {
  Put("people", 0, "restored", "not read again");
  Put("people", 0, "anna", "Anna");
  Put("people", 1, "bob", "of another task");
  Start();
  const std::shared_ptr<store::TaskStore> store = OpenTask(1);
  WaitFor("anna never came", [&] { return *store->Get(0, "anna") == MaybeBytes("Anna"); });
  EXPECT_EQ(*store->Get(0, "restored"), MaybeBytes());
  Put("people", 0, "anna", "Anne");
  WaitFor("anna never changed", [&] { return *store->Get(0, "anna") == MaybeBytes("Anne"); });
  EXPECT_EQ(*store->Get(0, "bob"), MaybeBytes());
  WaitFor("the position is not kept", [&] { return store->positions().changelog[0] == Offset(3); });
}

TEST_F(TableFollowerTest, AForgottenTaskIsNotWrittenToAnyMore) {
  Start();
  std::shared_ptr<store::TaskStore> store = OpenTask(0);
  Put("people", 0, "anna", "1");
  WaitFor("anna never came", [&] { return *store->Get(0, "anna") == MaybeBytes("1"); });
  follower_->Forget(TaskId(0));
  tasks_.Take(TaskId(0));
  Put("people", 0, "anna", "2");
  Put("rates", 0, "usd", "1");
  WaitFor("usd never came", [&] { return Rate("usd") == "1"; });  // it reads on, for others
  EXPECT_EQ(*store->Get(0, "anna"), MaybeBytes("1"));
  store.reset();
  store = OpenTask(1);
  WaitFor("anna never changed", [&] { return *store->Get(0, "anna") == MaybeBytes("2"); });
}

TEST_F(TableFollowerTest, AJoinWhoseRecordsAreGoneIsReadAnewByItsTask) {
  Start();
  OpenTask(7);  // beyond the end
  WaitFor("nobody was told", [&] { return !events_.failed().empty(); });
  EXPECT_EQ(events_.failed()[0].task, TaskId(0));
  EXPECT_TRUE(absl::IsOutOfRange(events_.failed()[0].status)) << events_.failed()[0].status;
}

}  // namespace
}  // namespace millstream::host
