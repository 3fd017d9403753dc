#include "sidecar/store/restore.h"

#include <filesystem>
#include <fstream>
#include <thread>

#include "common/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sidecar/store/fake_changelog.h"
#include "sidecar/store/store_test_util.h"
#include "sidecar/store/timed_value.h"

namespace millstream::store {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using RowMap = std::map<Bytes, Bytes>;
using Transaction = FakeChangelog::Transaction;

constexpr int64_t kHourMs = 3'600'000;

class Restore : public ::testing::Test {
 protected:
  Restore() {
    identity_ = Identity({DiskStore("totals")});
    for (const std::string name : {"totals", "recent"}) log_.CreateTopic(TopicOf(name), "id-of-" + name, 8);
    options_.clock = &clock_;
    options_.on_progress = [this](const RestoreProgress& progress) { progress_.push_back(progress); };
  }

  static std::string TopicOf(const std::string& store) { return "group-" + store + "-changelog"; }
  const std::string topic_ = TopicOf("totals");

  void Open() {
    store_ = nullptr;
    store_ = OpenOrDie(&environment_, folder_.path(), identity_);
  }
  absl::Status Run() { return RestoreTask(&log_, store_.get(), identity_, options_); }
  int64_t PositionOf(StoreIndex store) {
    const Positions positions = store_->positions();
    const auto found = positions.changelog.find(store);
    return found == positions.changelog.end() ? -1 : found->second.value();
  }
  // Restores what is in the log, then lets `age` pass with the task closed.
  void RestoreAndAge(absl::Duration age) {
    Open();
    ASSERT_TRUE(Run().ok());
    store_ = nullptr;
    clock_.Advance(age);
  }

  TempFolder folder_;
  StateEnvironment environment_{StateMemory()};
  FakeClock clock_;
  FakeChangelog log_;
  TaskIdentity identity_;
  RestoreOptions options_;
  std::vector<RestoreProgress> progress_;
  std::unique_ptr<TaskStore> store_;
};

TEST_F(Restore, ReadsTheWholeChangelog) {
  log_.Append(topic_, "a", "1");
  log_.Append(topic_, "b", "2");
  log_.Append(topic_, "", "of the empty key");
  log_.Append(topic_, "a", "3");
  log_.Append(topic_, "b", std::nullopt);
  log_.Append(topic_, "c", "");
  log_.Append(topic_, std::nullopt, "a null key is not state");
  Open();
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(Rows(*store_, 0), (RowMap{{"", "of the empty key"}, {"a", "3"}, {"c", ""}}));
  EXPECT_EQ(PositionOf(0), 7);
  EXPECT_EQ(store_->positions().wall_ms, clock_.WallMillis());
  EXPECT_EQ(store_->UnflushedBytes(), 0) << "flushed at the end";
  ASSERT_FALSE(progress_.empty());
  EXPECT_EQ(progress_.back().position, Offset(7));
  EXPECT_EQ(progress_.back().end, Offset(7));
  EXPECT_EQ(progress_.back().records, 6);
}

TEST_F(Restore, RowsOfATimedStoreGetTheTimesOfTheirRecords) {
  log_.Append(topic_, "a", "1");
  log_.Append(topic_, "b", "2");
  log_.Append(topic_, "a", "");
  log_.Append(topic_, "b", std::nullopt);
  for (const auto backend : {StoreDefinition::Backend::kDisk, StoreDefinition::Backend::kMemory}) {
    identity_.stores[0].backend = backend;
    identity_.stores[0].timed = true;
    Open();
    ASSERT_TRUE(Run().ok());
    EXPECT_EQ(Rows(*store_, 0), (RowMap{{"a", TimedValue(FakeChangelog::TimeOf(2), "")}}));
  }
}

// What was written without times gets them from the changelog.
TEST_F(Restore, AStoreThatBecomesTimedIsReadAnew) {
  log_.Append(topic_, "a", "1");
  RestoreAndAge(absl::ZeroDuration());
  identity_.stores[0].timed = true;
  Open();
  EXPECT_NE(store_->wiped_reason(), "");
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(Rows(*store_, 0), (RowMap{{"a", TimedValue(FakeChangelog::TimeOf(0), "1")}}));
}

TEST_F(Restore, EmptyChangelog) {
  Open();
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(PositionOf(0), 0);
  // Nothing left of it but offsets.
  log_.SkipTo(topic_, 50);
  log_.SetStart(topic_, 50);
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(PositionOf(0), 50);
  EXPECT_TRUE(Rows(*store_, 0).empty());
}

TEST_F(Restore, ContinuesFromThePositionOnDisk) {
  for (int i = 0; i < 500; ++i) log_.Append(topic_, StrCat("k", i), "old");
  RestoreAndAge(absl::Hours(1));
  const int64_t read_before = log_.records_read();
  for (int i = 0; i < 10; ++i) log_.Append(topic_, StrCat("k", i), i == 5 ? std::nullopt : MaybeBytes("new"));
  Open();
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(log_.records_read() - read_before, 10) << "only the tail is read";
  EXPECT_EQ(Rows(*store_, 0).size(), 499u);
  EXPECT_EQ(*store_->Get(0, "k3"), "new");
  EXPECT_EQ(*store_->Get(0, "k400"), "old");
}

TEST_F(Restore, HolesMarkersAndAbortedRecords) {
  log_.Append(topic_, "a", "1");
  log_.Append(topic_, "a", "aborted", Transaction::kAborted);
  log_.AppendMarker(topic_);
  log_.Append(topic_, "compacted", "away");
  log_.Append(topic_, "b", "2");
  log_.Append(topic_, "b", "aborted", Transaction::kAborted);
  log_.AppendMarker(topic_);
  log_.AppendMarker(topic_);
  log_.Compact(topic_, {3});
  log_.SkipTo(topic_, 100);
  log_.Append(topic_, "c", "3");
  log_.AppendMarker(topic_);  // the end is a marker: no record ever shows that position
  Open();
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(Rows(*store_, 0), (RowMap{{"a", "1"}, {"b", "2"}, {"c", "3"}}));
  EXPECT_EQ(PositionOf(0), 102);
}

TEST_F(Restore, OnlyMarkersBehindThePosition) {
  log_.Append(topic_, "a", "1");
  RestoreAndAge(absl::Minutes(1));
  log_.Append(topic_, "a", "aborted", Transaction::kAborted);
  log_.AppendMarker(topic_);
  Open();
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(PositionOf(0), 3);
  EXPECT_EQ(*store_->Get(0, "a"), "1");
}

TEST_F(Restore, WaitsForATransactionOpenAtTheTail) {
  log_.Append(topic_, "a", "1");
  log_.Append(topic_, "b", "2", Transaction::kOpen);
  log_.Append(topic_, "c", "3", Transaction::kOpen);
  Open();
  std::atomic<bool> finished{false};
  absl::Status status;
  std::thread restoring([&] {
    status = Run();
    finished = true;
  });
  const absl::Time deadline = absl::Now() + absl::Seconds(10);
  while (log_.records_read() < 1 && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(1));
  absl::SleepFor(absl::Milliseconds(120));  // time to make the mistake of ending at the last stable offset
  EXPECT_FALSE(finished);
  log_.EndOpen(topic_, Transaction::kCommitted);
  restoring.join();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(Rows(*store_, 0), (RowMap{{"a", "1"}, {"b", "2"}, {"c", "3"}}));
  EXPECT_GE(PositionOf(0), 3);
}

TEST_F(Restore, AnAbortEndsTheWaitAsWell) {
  log_.Append(topic_, "a", "1");
  log_.Append(topic_, "a", "2", Transaction::kOpen);
  Open();
  std::thread restoring([&] { EXPECT_TRUE(Run().ok()); });
  log_.EndOpen(topic_, Transaction::kAborted);
  restoring.join();
  EXPECT_EQ(Rows(*store_, 0), (RowMap{{"a", "1"}}));
}

TEST_F(Restore, AStallNamesTopicPartitionAndOffsets) {
  log_.Append(topic_, "a", "1");
  log_.Append(topic_, "b", "2", Transaction::kOpen);
  log_.Append(topic_, "b", "3", Transaction::kOpen);
  Open();
  std::atomic<bool> finished{false};
  absl::Status status;
  std::thread restoring([&] {
    status = Run();
    finished = true;
  });
  while (log_.records_read() < 1) absl::SleepFor(absl::Milliseconds(1));
  while (!finished) {  // a minute goes by, in seconds
    clock_.Advance(absl::Seconds(1));
    absl::SleepFor(absl::Milliseconds(2));
  }
  restoring.join();
  ASSERT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  const std::string message(status.message());
  EXPECT_THAT(message, HasSubstr("totals-changelog-3"));
  EXPECT_THAT(message, HasSubstr("at offset 1 of 3"));
  EXPECT_THAT(message, HasSubstr("last stable offset at 1"));
  EXPECT_EQ(*store_->Get(0, "a"), "1") << "what was read stays";
  EXPECT_EQ(PositionOf(0), 1);
}

TEST_F(Restore, ARebuildWhenThePositionIsBeforeTheLogStart) {
  log_.Append(topic_, "gone", "1");
  RestoreAndAge(absl::Minutes(1));
  log_.Append(topic_, "gone", std::nullopt);
  log_.Append(topic_, "a", "2");
  log_.Compact(topic_, {0, 1});
  log_.SetStart(topic_, 2);
  Open();
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(Rows(*store_, 0), (RowMap{{"a", "2"}}));
}

TEST_F(Restore, ARebuildWhenThePositionIsBeyondTheEnd) {
  for (int i = 0; i < 10; ++i) log_.Append(topic_, StrCat("old", i), "1");
  RestoreAndAge(absl::Minutes(1));
  log_.CreateTopic(topic_, "id-of-totals", 8);  // the log lost its tail
  log_.Append(topic_, "a", "2");
  Open();
  EXPECT_EQ(store_->wiped_reason(), "");
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(Rows(*store_, 0), (RowMap{{"a", "2"}}));
  EXPECT_EQ(PositionOf(0), 1);
}

TEST_F(Restore, ARebuildWhenTombstonesMayHaveGone) {
  log_.SetConfig(topic_, "delete.retention.ms", StrCat(kHourMs));
  const int64_t deleted = log_.Append(topic_, "deleted", "1");
  RestoreAndAge(absl::Hours(1) + absl::Seconds(1));
  const int64_t tombstone = log_.Append(topic_, "deleted", std::nullopt);
  log_.Append(topic_, "a", "2");
  log_.Compact(topic_, {deleted, tombstone});
  Open();
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(Rows(*store_, 0), (RowMap{{"a", "2"}})) << "the deleted key came back to life";
}

TEST_F(Restore, NoRebuildJustInsideOfTheRetention) {
  log_.SetConfig(topic_, "delete.retention.ms", StrCat(kHourMs));
  for (int i = 0; i < 20; ++i) log_.Append(topic_, StrCat("k", i), "1");
  RestoreAndAge(absl::Hours(1));
  log_.Append(topic_, "k1", "2");
  Open();
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(log_.records_read(), 21);
}

TEST_F(Restore, AnOldStampAtTheEndOfTheLogIsStillGood) {
  for (int i = 0; i < 20; ++i) log_.Append(topic_, StrCat("k", i), "1");
  RestoreAndAge(absl::Hours(24 * 365));
  Open();
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(log_.records_read(), 20) << "nothing was written since: nothing is read again";
  EXPECT_EQ(store_->positions().wall_ms, clock_.WallMillis());
}

TEST_F(Restore, ARebuildWhenTheStampIsFromTheFuture) {
  const int64_t deleted = log_.Append(topic_, "deleted", "1");
  RestoreAndAge(absl::ZeroDuration());
  clock_.SetWallTime(clock_.WallTime() - absl::Hours(48));
  const int64_t tombstone = log_.Append(topic_, "deleted", std::nullopt);
  log_.Append(topic_, "a", "2");
  log_.Compact(topic_, {deleted, tombstone});
  Open();
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(Rows(*store_, 0), (RowMap{{"a", "2"}}));
}

// The stamp of a restore cut short must not be younger than its beginning, or the next one trusts tombstones that are
// gone.
TEST_F(Restore, AnInterruptedRestoreKeepsItsAge) {
  log_.SetConfig(topic_, "delete.retention.ms", StrCat(kHourMs));
  log_.set_read_records(1);
  const int64_t deleted = log_.Append(topic_, "deleted", "1");
  for (int i = 0; i < 50; ++i) log_.Append(topic_, StrCat("k", i), "1");
  const int64_t tombstone = log_.Append(topic_, "deleted", std::nullopt);
  log_.Append(topic_, "last", "1");
  std::atomic<bool> cancelled{false};
  options_.cancelled = &cancelled;
  options_.batch_bytes = 1;
  log_.set_on_read([&](int64_t records) {
    clock_.Advance(absl::Minutes(1));
    cancelled = records == 20;
  });
  Open();
  const int64_t begun_ms = clock_.WallMillis();
  const absl::Status status = Run();
  ASSERT_TRUE(absl::IsCancelled(status)) << status;
  const int64_t position = PositionOf(0);
  ASSERT_GE(position, 20);
  ASSERT_LT(position, tombstone);
  EXPECT_EQ(store_->positions().wall_ms, begun_ms);
  EXPECT_EQ(*store_->Get(0, "deleted"), "1");

  store_ = nullptr;
  clock_.Advance(absl::Minutes(50));  // more than an hour after the beginning, less than one after the end
  log_.Compact(topic_, {deleted, tombstone});
  log_.set_on_read(nullptr);
  options_.cancelled = nullptr;
  Open();
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(*store_->Get(0, "deleted"), std::nullopt) << "the deleted key came back to life";
  EXPECT_EQ(Rows(*store_, 0).size(), 51u);
}

TEST_F(Restore, InterruptedAndResumed) {
  constexpr int kRecords = 2000;
  RowMap model;
  for (int i = 0; i < kRecords; ++i) {
    const std::string key = StrCat("k", i % 700);
    log_.Append(topic_, key, StrCat(i));
    model[key] = StrCat(i);
  }
  log_.set_read_records(50);
  options_.batch_bytes = 500;
  int rounds = 0;
  int64_t position = -1;
  while (true) {
    ++rounds;
    ASSERT_LT(rounds, 100);
    Open();
    EXPECT_EQ(store_->wiped_reason(), "");
    EXPECT_EQ(PositionOf(0), position);
    std::atomic<bool> cancelled{false};
    options_.cancelled = &cancelled;
    const int64_t target = log_.records_read() + 300;
    log_.set_on_read([&](int64_t records) { cancelled = records >= target; });
    const absl::Status status = Run();
    position = PositionOf(0);
    if (status.ok()) break;
    ASSERT_TRUE(absl::IsCancelled(status)) << status;
  }
  EXPECT_EQ(rounds, 7);
  EXPECT_EQ(Rows(*store_, 0), model);
  EXPECT_EQ(position, kRecords);
  EXPECT_EQ(log_.records_read(), kRecords) << "nothing is read twice";
}

TEST_F(Restore, ManyStoresAtOnceOnDiskAndInMemory) {
  identity_ = Identity({DiskStore("totals"), MemoryStoreDefinition("recent"), DiskStore("cache")});
  identity_.stores[2].changelog_topic = "";
  for (int i = 0; i < 300; ++i) {
    log_.Append(topic_, StrCat("k", i), "disk");
    log_.Append(TopicOf("recent"), StrCat("k", i % 30), StrCat(i));
  }
  log_.Append(TopicOf("recent"), "k5", std::nullopt);
  Open();
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(Rows(*store_, 0).size(), 300u);
  EXPECT_EQ(Rows(*store_, 1).size(), 29u);
  EXPECT_EQ(*store_->Get(1, "k7"), "277");
  EXPECT_TRUE(Rows(*store_, 2).empty());
  EXPECT_THAT(store_->positions().changelog, ElementsAre(Pair(0u, Offset(300)), Pair(1u, Offset(301))));

  const int64_t before = log_.records_read();
  Open();
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(log_.records_read() - before, 301) << "the memory store again, the disk store not";
  EXPECT_EQ(Rows(*store_, 1).size(), 29u);
}

TEST_F(Restore, WithoutChangelogsThereIsNothingToDo) {
  identity_.stores[0].changelog_topic = "";
  Open();
  EXPECT_TRUE(Run().ok());
}

TEST_F(Restore, ValuesOfAMegabyte) {
  RowMap model;
  for (int i = 0; i < 12; ++i) {
    const std::string key = StrCat("k", i % 8);
    model[key] = std::string(1 << 20, static_cast<char>('a' + i));
    log_.Append(topic_, key, model[key]);
  }
  options_.batch_bytes = 1 << 20;
  Open();
  ASSERT_TRUE(Run().ok());
  EXPECT_TRUE(Rows(*store_, 0) == model);
}

TEST_F(Restore, MissingTopicsAndPartitionsAreNamed) {
  Open();
  log_.DeleteTopic(topic_);
  absl::Status status = Run();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(topic_));
  log_.CreateTopic(topic_, "id-of-totals", 2);
  status = Run();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("has 2 partitions"));
}

TEST_F(Restore, ATopicCreatedAnewIsNotMixedWithOldState) {
  log_.Append(topic_, "old", "1");
  RestoreAndAge(absl::Minutes(1));
  log_.CreateTopic(topic_, "id-2", 8);
  log_.Append(topic_, "new", "1");
  // The caller that knows of it
  TaskIdentity now = identity_;
  now.stores[0].changelog_topic_id = "id-2";
  Open();
  const absl::Status status = Run();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("created anew"));
  identity_ = now;
  Open();
  EXPECT_THAT(store_->wiped_reason(), HasSubstr("created anew"));
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(Rows(*store_, 0), (RowMap{{"new", "1"}}));
}

TEST_F(Restore, ALogStartThatKeepsMovingGivesUp) {
  log_.Append(topic_, "a", "1");
  log_.Fail(topic_, absl::OutOfRangeError("offset 0 is before the log start"));
  Open();
  const absl::Status status = Run();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
}

TEST_F(Restore, ADamagedLogIsNotTakenForDamagedState) {
  log_.Append(topic_, "a", "1");
  log_.Fail(topic_, absl::DataLossError("checksum"));
  Open();
  const absl::Status status = Run();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("the log itself is damaged"));
}

}  // namespace
}  // namespace millstream::store
