#include "cli/access/changelog_state.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "common/base/strings.h"
#include "common/log/embedded/embedded_log.h"
#include "common/log/embedded/test_folder.h"
#include "common/log/partitioner.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sidecar/engine/windows.h"

namespace millstream::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ChangelogStateTest : public testing::Test {
 protected:
  void SetUp() override {
    log::EmbeddedLogOptions options;
    options.directory = folder_.path();
    log_ = *log::EmbeddedLog::Open(options);
    ASSERT_TRUE(log_->admin().CreateTopic({.name = "changes", .partitions = 3, .config = {}}).ok());
    spec_.name = "totals";
    spec_.inputs.emplace_back();
    spec_.stores = {{.name = "totals", .changelog = {.enabled = true, .topic = "changes", .config = {}}},
                    {.name = "minutes",
                     .changelog = {.enabled = true, .topic = "changes", .config = {}},
                     .type = spec::StoreType::kWindow,
                     .window = spec::WindowSpec{.size = absl::Minutes(1), .advance = absl::Minutes(1)}},
                    {.name = "cache", .changelog = {.enabled = false, .topic = "", .config = {}}}};
    spec_.joins = {{.name = "customers", .topic = "changes"}};
    spec_.lookups = {{.name = "rates", .topic = "changes"}};
    state_ = NewChangelogState(log_.get(), spec_);
  }
  void Put(const std::string& key, MaybeBytes value) {
    PutIn(log::PartitionOfKey(log::KeyHash::kMurmur2, key, 3), key, value);
  }
  void PutIn(Partition partition, const std::string& key, MaybeBytes value) {
    const auto writer = log_->NewPlainWriter();
    ASSERT_TRUE(
        writer->Append({{.to = {"changes", partition}, .timestamp_ms = 1, .key = key, .value = value, .headers = {}}})
            .ok());
    ASSERT_TRUE(writer->Flush().ok());
  }
  StateQuery Query(const std::string& key = "") {
    StateQuery query;
    query.store = "totals";
    query.key = key;
    return query;
  }
  std::vector<std::string> Scanned(const StateQuery& query) {
    std::vector<std::string> rows;
    const auto scanned = state_->ScanState(query);
    EXPECT_TRUE(scanned.ok()) << scanned.status();
    for (const StateRow& row : *scanned) rows.push_back(row.key + "=" + row.value);
    return rows;
  }

  log::embedded::TestFolder folder_;
  std::unique_ptr<log::EmbeddedLog> log_;
  spec::StreamProcessorSpec spec_;
  std::unique_ptr<ProcessorBackend> state_;
};

TEST_F(ChangelogStateTest, TheLastCommittedValueCounts) {
  Put("a", "1");
  Put("a", "2");
  Put("b", "1");
  Put("b", std::nullopt);
  const auto open = log_->NewTransactionalWriter({.transactional_id = "w"});
  ASSERT_TRUE(open->Init().ok());
  ASSERT_TRUE(open->Begin().ok());
  const Partition partition = log::PartitionOfKey(log::KeyHash::kMurmur2, "a", 3);
  ASSERT_TRUE(
      open->Append({{.to = {"changes", partition}, .timestamp_ms = 1, .key = "a", .value = "3", .headers = {}}}).ok());
  ASSERT_TRUE(open->Flush().ok());
  EXPECT_EQ(state_->GetState(Query("a"))->front().value, "2");
  EXPECT_TRUE(absl::IsNotFound(state_->GetState(Query("b")).status()));
  ASSERT_TRUE(open->Commit().ok());
  EXPECT_EQ(state_->GetState(Query("a"))->front().value, "3");
}

TEST_F(ChangelogStateTest, AScanGoesTaskByTaskInOrderOfKeys) {
  for (const char* key : {"d", "c", "b", "a"}) Put(key, key);
  StateQuery query = Query();
  std::vector<std::string> all = Scanned(query);
  std::sort(all.begin(), all.end());
  EXPECT_THAT(all, ElementsAre("a=a", "b=b", "c=c", "d=d"));
  query.from = "b";
  query.to = "d";
  all = Scanned(query);
  std::sort(all.begin(), all.end());
  EXPECT_THAT(all, ElementsAre("b=b", "c=c"));
  query.limit = 1;
  EXPECT_EQ(Scanned(query).size(), 1u);
}

TEST_F(ChangelogStateTest, WindowsAreFoundByTheirKey) {
  const spec::StoreSpec& minutes = spec_.stores[1];
  const auto put = [&](const std::string& key, int64_t start, MaybeBytes value) {
    PutIn(log::PartitionOfKey(log::KeyHash::kMurmur2, key, 3),
          engine::RowKey(minutes, key, engine::WindowAt(*minutes.window, start)), std::move(value));
  };
  put("a", 120'000, "2");
  put("a", -60'000, "1");
  put("a", 60'000, "gone");
  put("a", 60'000, std::nullopt);
  put("a" + std::string(8, '\0'), 0, "of a longer key");
  StateQuery query = Query("a");
  query.store = "minutes";
  const auto windows = state_->GetState(query);
  ASSERT_TRUE(windows.ok()) << windows.status();
  std::vector<std::string> shown;
  for (const StateRow& row : *windows)
    shown.push_back(StrCat(row.key, " ", row.window->start_ms, " to ", row.window->end_ms, "=", row.value));
  EXPECT_THAT(shown, ElementsAre("a -60000 to 0=1", "a 120000 to 180000=2"));
  const auto all = state_->ScanState(query);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->size(), 3u);
  query.key = "b";
  EXPECT_TRUE(absl::IsNotFound(state_->GetState(query).status()));
}

TEST_F(ChangelogStateTest, JoinsAndLookupsAreReadFromTheirTopics) {
  Put("a", "1");
  const Partition of_a = log::PartitionOfKey(log::KeyHash::kMurmur2, "a", 3);
  PutIn(Partition((of_a.value() + 1) % 3), "elsewhere", "2");
  StateQuery query = Query("a");
  query.store = "customers";
  EXPECT_EQ(state_->GetState(query)->front().value, "1");
  query.store = "rates";
  EXPECT_EQ(state_->GetState(query)->front().value, "1");
  query.key = "elsewhere";
  EXPECT_EQ(state_->GetState(query)->front().value, "2") << "wherever its writer put it";
  EXPECT_THAT(Scanned(query), ElementsAre("a=1", "elsewhere=2"));
}

TEST_F(ChangelogStateTest, WhatCannotBeAnsweredIsExplained) {
  StateQuery query = Query("a");
  query.store = "nothing";
  EXPECT_THAT(std::string(state_->GetState(query).status().message()),
              HasSubstr("totals, minutes, cache, customers, rates"));
  query.store = "cache";
  EXPECT_THAT(std::string(state_->GetState(query).status().message()), HasSubstr("no changelog"));
  EXPECT_THAT(std::string(NewChangelogState(log_.get(), std::nullopt)->GetState(query).status().message()),
              HasSubstr("--manifest"));
  ASSERT_TRUE(log_->admin().DeleteTopic("changes").ok());
  EXPECT_THAT(std::string(state_->GetState(Query("a")).status().message()), HasSubstr("never run"));
}

}  // namespace
}  // namespace millstream::cli
