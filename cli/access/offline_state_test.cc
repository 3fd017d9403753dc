// State asked for while nothing runs: lookups, which belong to no task's database.
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/access/state_answers.h"
#include "common/base/strings.h"
#include "common/log/embedded/test_folder.h"
#include "common/spec/manifest.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millstream::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kManifest[] = R"({"apiVersion": "millstream.dev/v1alpha1", "kind": "StreamProcessor",
  "metadata": {"name": "totals"},
  "spec": {"inputs": [{"topic": "orders"}], "lookups": [{"name": "rates", "topic": "currencies"}]}})";

class OfflineStateTest : public testing::Test {
 protected:
  void SetUp() override {
    auto folder = host::DataFolder::Acquire(folder_.path() + "/data", "test", true);
    ASSERT_TRUE(folder.ok()) << folder.status();
    data_ = *std::move(folder);
    log::EmbeddedLogOptions options;
    options.directory = data_->LogDirectory();
    log_ = *log::EmbeddedLog::Open(options);
    for (const char* topic : {"orders", "currencies"})
      ASSERT_TRUE(log_->admin().CreateTopic({.name = topic, .partitions = 3, .config = {}}).ok());
    const spec::ParseResult parsed = spec::ParseManifests(kManifest, "totals.json");
    ASSERT_EQ(parsed.manifests.size(), 1u);
    ASSERT_TRUE(data_->RememberProcessor(parsed.manifests[0]).ok());
    state_ = NewOfflineState(data_.get(), log_.get());
  }
  void Put(int partition, const std::string& key, MaybeBytes value) {
    const auto writer = log_->NewPlainWriter();
    ASSERT_TRUE(writer
                    ->Append({{.to = {"currencies", Partition(partition)},
                               .timestamp_ms = 1,
                               .key = key,
                               .value = std::move(value),
                               .headers = {}}})
                    .ok());
    ASSERT_TRUE(writer->Flush().ok());
  }
  static StateQuery Query(const std::string& key = "") {
    StateQuery query;
    query.store = "rates";
    query.key = key;
    return query;
  }
  std::vector<std::string> Scanned(const StateQuery& query) {
    std::vector<std::string> rows;
    const auto scanned = state_->ScanState(query);
    EXPECT_TRUE(scanned.ok()) << scanned.status();
    if (!scanned.ok()) return rows;
    for (const StateRow& row : *scanned) rows.push_back(row.key + "=" + row.value);
    return rows;
  }

  log::embedded::TestFolder folder_;
  std::unique_ptr<host::DataFolder> data_;
  std::unique_ptr<log::EmbeddedLog> log_;
  std::unique_ptr<ProcessorBackend> state_;
};

TEST_F(OfflineStateTest, ALookupIsReadFromItsTopicWhereverItsKeysLie) {
  Put(2, "eur", "1.0");
  Put(0, "usd", "0.9");
  Put(0, "usd", "0.8");
  Put(1, "dem", "0.5");
  Put(1, "dem", std::nullopt);
  ASSERT_TRUE(state_->GetState(Query("usd")).ok());
  EXPECT_EQ(state_->GetState(Query("usd"))->front().value, "0.8");
  EXPECT_EQ(state_->GetState(Query("eur"))->front().value, "1.0");
  EXPECT_TRUE(absl::IsNotFound(state_->GetState(Query("dem")).status()));
  EXPECT_THAT(Scanned(Query()), ElementsAre("eur=1.0", "usd=0.8"));
}

TEST_F(OfflineStateTest, RangesOrderAndLimitsOfALookup) {
  for (const char* key : {"d", "a", "c", "b"}) Put(key[0] % 3, key, "1");
  StateQuery query = Query();
  query.from = "b";
  EXPECT_THAT(Scanned(query), ElementsAre("b=1", "c=1", "d=1"));
  query.to = "d";
  query.reverse = true;
  EXPECT_THAT(Scanned(query), ElementsAre("c=1", "b=1"));
  query.limit = 1;
  EXPECT_THAT(Scanned(query), ElementsAre("c=1"));
}

TEST_F(OfflineStateTest, WhatIsNotThereIsToldWithWhatIs) {
  StateQuery query = Query("k");
  query.store = "rate";
  EXPECT_THAT(std::string(state_->GetState(query).status().message()), HasSubstr("no store rate; there are: rates"));
  ASSERT_TRUE(log_->admin().DeleteTopic("currencies").ok());
  EXPECT_FALSE(state_->GetState(Query("k")).ok());
}

}  // namespace
}  // namespace millstream::cli
