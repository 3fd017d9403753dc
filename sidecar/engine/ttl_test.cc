// Time to live: what is hidden when, in every way of reading; the walk that deletes it. How it holds under crashes is
// shown by the simulation (Timed...).
#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sidecar/engine/expiry.h"
#include "sidecar/engine/internal_rows.h"
#include "sidecar/engine/scan_merge.h"
#include "sidecar/engine/testing/engine_driver.h"
#include "sidecar/engine/testing/memory_disk.h"
#include "sidecar/protocol/codec.h"
#include "sidecar/protocol/frame.h"
#include "sidecar/store/timed_value.h"

namespace millstream::engine::testing {
namespace {

using store::TimedValue;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr int64_t kMin = std::numeric_limits<int64_t>::min(), kMax = std::numeric_limits<int64_t>::max();
constexpr uint32_t kRecent = 0, kOther = 1;  // with a ttl, and without

// ---------------------------------------------------------------- as arithmetic

TEST(ExpiryTest, HidesFromTheTtlOnAndNeverBefore) {
  const Expiry exact(100, 1, 1000);
  EXPECT_FALSE(exact.Hides(901));
  EXPECT_TRUE(exact.Hides(900));
  for (int64_t now = -500; now < 500; ++now) {
    for (int64_t written = -300; written < 300; written += 7) {
      const Expiry expiry(100, 8, now);
      if (expiry.Hides(written)) {
        EXPECT_GE(now - written, 100) << now << " " << written;
      } else {
        EXPECT_LT(now - written, 100 + 2 * 8) << now << " " << written;
      }
    }
  }
}

TEST(ExpiryTest, TheEndsOfTimeAreKept) {
  for (const int64_t now : {kMin + 1, kMin + 9, int64_t{-1}, int64_t{0}, kMax - 1, kMax}) {
    EXPECT_FALSE(Expiry(100, 8, now).Hides(kMax)) << now;
    EXPECT_EQ(Expiry(100, 8, now).Hides(kMin), now > kMin + 200) << now;
  }
  EXPECT_FALSE(Expiry(100, 8, kNoTime).Hides(kMin)) << "no stream time yet";
  EXPECT_FALSE(Expiry().Hides(kMin)) << "no ttl";
}

TEST(ExpiryTest, RowsOnDiskBeginWithTheirTime) {
  const Bytes row = TimedValue(-2, "value");
  EXPECT_EQ(row, std::string("\xff\xff\xff\xff\xff\xff\xff\xfevalue"));
  EXPECT_EQ(store::ParseTimedValue(row).written_ms, -2);
  MaybeBytes read = row;
  Expiry(100, 1, 97).Settle(&read);
  EXPECT_EQ(read, "value");
  read = row;
  Expiry(100, 1, 98).Settle(&read);
  EXPECT_EQ(read, std::nullopt);
  read = "as it is";
  Expiry().Settle(&read);
  EXPECT_EQ(read, "as it is");
}

TEST(ExpiryTest, AScanTellsRowsFromHiddenOnes) {
  Overlay layer(1), scratch(1);
  layer.Put(0, "b", "new", 950);       // refreshed
  layer.Put(0, "c", "old", 900);       // written long ago, over a row
  layer.Put(0, "d", std::nullopt, 0);  // deleted
  scratch.Put(0, "e", "mine", kEndOfTime);
  const store::ScanPage disk{{{"a", TimedValue(900, "hidden")},
                              {"b", TimedValue(800, "hidden")},
                              {"c", TimedValue(999, "seen")},
                              {"d", TimedValue(800, "hidden")},
                              {"e", TimedValue(100, "hidden")},
                              {"f", TimedValue(901, "seen")}},
                             false};
  store::ScanRequest request;
  for (const bool reverse : {false, true}) {
    request.reverse = reverse;
    store::ScanPage page = disk;
    if (reverse) std::reverse(page.rows.begin(), page.rows.end());
    MergedPage merged = MergeScan(request, page, {&scratch, &layer}, Expiry(100, 1, 1000));
    if (reverse) {
      std::reverse(merged.rows.begin(), merged.rows.end());
      std::reverse(merged.hidden.begin(), merged.hidden.end());
    }
    EXPECT_THAT(merged.rows, ElementsAre(Pair("b", "new"), Pair("e", "mine"), Pair("f", "seen")));
    EXPECT_THAT(merged.hidden, ElementsAre("a", "c"));
    EXPECT_EQ(merged.cursor, std::nullopt);
  }
}

// ---------------------------------------------------------------- in the engine

class TtlTest : public ::testing::Test {
 protected:
  static EngineOptions Options(absl::Duration ttl = absl::Seconds(10)) {
    EngineOptions options = EngineDriver::Options();
    options.spec.stores[kRecent].ttl = ttl;
    options.spec.stores.push_back({.name = "timers", .changelog = {true, "g-timers-changelog", {}}, .internal = true});
    options.spec.max_ahead = absl::Hours(1);
    return options;
  }
  explicit TtlTest(EngineOptions options = Options()) : engine_(std::move(options)) {
    engine_.Start();
    Serve();
  }

  // Answers reads, writes and calls until there are none, from what was applied.
  void Serve() {
    while (engine_.Has<ReadKeys>() || engine_.Has<ScanRange>() || engine_.Has<ApplyState>() || engine_.HasCall()) {
      while (engine_.Has<ReadKeys>()) engine_.Do(disk_.Read(engine_.Take<ReadKeys>()));
      while (engine_.Has<ScanRange>()) engine_.Do(disk_.Scan(engine_.Take<ScanRange>()));
      AnswerCalls();
      while (engine_.Has<ApplyState>()) engine_.Do(disk_.Apply(engine_.Take<ApplyState>()));
    }
  }
  void AnswerCalls() {
    log::AcknowledgedOffsets acknowledged;
    while (engine_.HasCall()) {
      const WriterCall call = engine_.Take<WriterCall>();
      for (const log::OutgoingRecord& record : call.records) {
        written_.push_back(record);
        acknowledged[record.to] = Offset(static_cast<int64_t>(written_.size()));
      }
      const bool flush = call.what == WriterCall::What::kFlush;
      engine_.Answer(call, absl::OkStatus(), flush ? std::exchange(acknowledged, {}) : log::AcknowledgedOffsets());
    }
  }
  // Until what is handled is committed.
  void Commit() {
    for (int i = 0; i < 3; ++i) {
      Serve();
      engine_.Pass(absl::Milliseconds(50));
    }
    Serve();
  }
  // The next page that the walk asks for; looks for what is due are answered.
  ScanRange Walk() {
    while (engine_.Has<ScanRange>()) {
      ScanRange scan = engine_.Take<ScanRange>();
      if (scan.range.store == kRecent) return scan;
      engine_.Do(disk_.Scan(scan));
    }
    ADD_FAILURE() << "nothing is swept";
    return {};
  }
  // Everything that is under way ends: committed, applied, swept.
  void Rest() {
    for (int i = 0; i < 10; ++i) {
      engine_.Pass(absl::Seconds(2));
      Serve();
    }
  }

  void Record(int64_t timestamp_ms, const std::string& key) {
    engine_.Records(0, {{Offset(next_), timestamp_ms, key, "v", {}}}, next_ + 1);
    ++next_;
  }
  SentBatch Handled(int64_t timestamp_ms, const std::string& key, std::vector<Op> ops = {}) {
    Record(timestamp_ms, key);
    Serve();
    SentBatch batch = engine_.NeedBatch();
    engine_.Result(batch, {.ops = std::move(ops)});
    Commit();
    return batch;
  }
  static Op Set(const std::string& key, const std::string& value) { return {kRecent, key, value}; }
  // The value of the batch's only key.
  static std::string Prefetched(const SentBatch& batch) { return batch.state.at(0).at(0); }

  MaybeBytes Asked(const std::string& key) {
    engine_.Do(QueryKey{++query_, TaskId(0), kRecent, key});
    Serve();
    const QueryAnswered answer = engine_.Take<QueryAnswered>();
    EXPECT_TRUE(answer.status.ok()) << answer.status;
    return answer.value;
  }
  std::vector<std::pair<Bytes, Bytes>> AskedForAll() {
    store::ScanRequest all;
    all.store = kRecent;
    engine_.Do(QueryRange{++query_, TaskId(0), all});
    Serve();
    return engine_.Take<QueryAnswered>().page.rows;
  }

  EngineDriver engine_;
  MemoryDisk disk_;
  std::vector<log::OutgoingRecord> written_;
  int64_t next_ = 0;
  QueryId query_ = 0;
};

constexpr int64_t kT = 1'000'000;

TEST_F(TtlTest, ARowIsHiddenFromTheWorkerOnceStreamTimeHasPassedIt) {
  Handled(kT, "k", {Set("k", "1"), {kOther, "k", "stays"}});
  EXPECT_EQ(Prefetched(Handled(kT + 9'900, "k")), "1") << "from a layer";
  Rest();
  EXPECT_EQ(disk_.rows(kRecent)["k"], TimedValue(kT, "1"));
  EXPECT_EQ(disk_.rows(kOther)["k"], "stays") << "a store without ttl has no times";
  Handled(kT + 10'000, "other");
  EXPECT_EQ(Prefetched(Handled(kT + 10'000, "k")), "-");
}

TEST_F(TtlTest, ARowOnDiskIsHiddenBeforeItIsDeleted) {
  disk_.rows(kRecent) = {{"k", TimedValue(kT, "1")}, {"l", TimedValue(kT + 5'000, "2")}};
  EXPECT_EQ(Prefetched(Handled(kT + 9'999, "k")), "1");
  Record(kT + 10'000, "k");
  while (engine_.Has<ReadKeys>()) engine_.Do(disk_.Read(engine_.Take<ReadKeys>()));
  EXPECT_EQ(Prefetched(engine_.NeedBatch()), "-");
  EXPECT_EQ(disk_.rows(kRecent).size(), 2u);
}

TEST_F(TtlTest, WritingAgainKeepsIt) {
  for (int i = 0; i < 10; ++i) {
    const SentBatch batch = Handled(kT + i * 9'000, "k", {Set("k", StrCat(i))});
    EXPECT_EQ(Prefetched(batch), i == 0 ? "-" : StrCat(i - 1));
    if (i % 3 == 0) Rest();
  }
}

TEST_F(TtlTest, TheTimeIsTheRecordsAndNotTheClocks) {
  Handled(kT, "k", {Set("k", "1")});
  engine_.Pass(absl::Hours(48));
  Serve();
  EXPECT_EQ(Asked("k"), "1") << "no record, no time";
  Handled(kT - 3'000, "k", {Set("k", "2")});  // out of order: what was written last is of an earlier time
  Handled(kT + 6'999, "other");
  EXPECT_EQ(Asked("k"), "2");
  Handled(kT + 7'100, "other");
  EXPECT_EQ(Asked("k"), std::nullopt);
}

TEST_F(TtlTest, ARecordFromTheFarFutureNeitherHidesNorStaysForEver) {
  const int64_t wall = engine_.clock().WallMillis();
  Handled(wall, "k", {Set("k", "1")});
  Handled(wall + 400LL * 24 * 3'600'000, "far", {Set("far", "2")});  // more than maxAhead
  EXPECT_EQ(Asked("k"), "1");
  EXPECT_EQ(Asked("far"), "2");
  engine_.clock().Advance(absl::Hours(2));
  Handled(wall + 2 * 3'600'000, "other");
  EXPECT_EQ(Asked("far"), std::nullopt) << "as if it had been written maxAhead from then";
}

TEST_F(TtlTest, QueriesSeeWhatIsCommitted) {
  Handled(kT, "k", {Set("k", "1")});
  Handled(kT + 5'000, "l", {Set("l", "2")});
  Rest();
  EXPECT_THAT(AskedForAll(), ElementsAre(Pair("k", "1"), Pair("l", "2")));
  Record(kT + 10'000, "other");
  while (engine_.Has<ReadKeys>()) engine_.Do(disk_.Read(engine_.Take<ReadKeys>()));
  const SentBatch batch = engine_.NeedBatch();
  engine_.Result(batch, {});
  engine_.Do(QueryKey{++query_, TaskId(0), kRecent, "k"});
  if (engine_.Has<ReadKeys>()) engine_.Do(disk_.Read(engine_.Take<ReadKeys>()));
  EXPECT_EQ(engine_.Take<QueryAnswered>().value, "1") << "stream time has come there, and may go back";
  Serve();
  EXPECT_EQ(Asked("k"), std::nullopt);
  EXPECT_THAT(AskedForAll(), ElementsAre(Pair("l", "2")));
}

// ---------------------------------------------------------------- cutting

TEST_F(TtlTest, ABatchSeesOneStepOfTime) {
  engine_.Records(0,
                  {{Offset(0), kT, "a", "v", {}},
                   {Offset(1), kT + 50, "b", "v", {}},
                   {Offset(2), kT + 20, "c", "v", {}},
                   {Offset(3), kT + 150, "d", "v", {}}},  // a step is a hundredth of ten seconds
                  4);
  Serve();
  const SentBatch first = engine_.NeedBatch();
  EXPECT_THAT(first.offsets, ElementsAre(0, 1, 2));
  engine_.Result(first, {});
  Serve();
  EXPECT_THAT(engine_.NeedBatch().offsets, ElementsAre(3));
}

TEST_F(TtlTest, WhichRecordOfAKeyWroteDoesNotMatter) {
  engine_.Records(0,
                  {{Offset(0), kT, "a", "v", {}},
                   {Offset(1), kT - 10, "b", "v", {}},
                   {Offset(2), kT - 3'000, "b", "v", {}}},  // the write would get another time
                  3);
  Serve();
  EXPECT_THAT(engine_.NeedBatch().offsets, ElementsAre(0, 1));
}

TEST_F(TtlTest, WhatIsHiddenAtOnceIsNotSeenByTheNextRecord) {
  engine_.Records(0,
                  {{Offset(0), kT, "a", "v", {}},
                   {Offset(1), kT - 10'100, "old", "v", {}},
                   {Offset(2), kT - 10'100, "old", "v", {}}},
                  3);
  Serve();
  const SentBatch batch = engine_.NeedBatch();
  EXPECT_THAT(batch.offsets, ElementsAre(0, 1));
  engine_.Result(batch, {.ops = {Set("old", "1")}});
  Serve();
  EXPECT_EQ(Prefetched(engine_.NeedBatch()), "-");
}

// ---------------------------------------------------------------- the walk

class SweepTest : public TtlTest {};

TEST_F(SweepTest, DeletesWhatIsHiddenInTheChangelogToo) {
  for (int i = 0; i < 2'500; ++i) disk_.rows(kRecent)[StrCat("old", i)] = TimedValue(kT, "1");
  disk_.rows(kRecent)["young"] = TimedValue(kT + 9'000, "2");
  disk_.rows(kOther)["k"] = "stays";
  Handled(kT + 10'000, "any");
  Rest();
  EXPECT_THAT(disk_.rows(kRecent), ElementsAre(Pair("young", TimedValue(kT + 9'000, "2"))));
  EXPECT_EQ(disk_.rows(kOther).size(), 1u);
  std::set<std::string> tombstones;
  for (const log::OutgoingRecord& record : written_) {
    if (record.to.topic != "g-totals-changelog") continue;
    EXPECT_EQ(record.value, std::nullopt);
    EXPECT_TRUE(tombstones.insert(*record.key).second) << "once is enough";
  }
  EXPECT_EQ(tombstones.size(), 2'500u);
}

// The walk reads a row, a batch writes it again, and only then the walk goes on.
TEST_F(SweepTest, ARefreshWhileItReadsWins) {
  disk_.rows(kRecent)["k"] = TimedValue(kT, "1");
  Record(kT + 10'000, "any");
  while (engine_.Has<ReadKeys>()) engine_.Do(disk_.Read(engine_.Take<ReadKeys>()));
  engine_.Result(engine_.NeedBatch(), {});
  const ScanRange walk = Walk();
  Record(kT + 10'010, "k");
  while (engine_.Has<ReadKeys>()) engine_.Do(disk_.Read(engine_.Take<ReadKeys>()));
  const SentBatch batch = engine_.NeedBatch();
  EXPECT_EQ(Prefetched(batch), "-");
  engine_.Result(batch, {.ops = {Set("k", "again")}});
  engine_.Do(disk_.Scan(walk));
  Rest();
  EXPECT_EQ(disk_.rows(kRecent)["k"], TimedValue(kT + 10'010, "again"));
}

// The other way round: the walk deletes a row while the batch that writes it is out.
TEST_F(SweepTest, ARefreshByABatchThatIsOutWins) {
  disk_.rows(kRecent)["k"] = TimedValue(kT, "1");
  Record(kT + 10'000, "any");
  while (engine_.Has<ReadKeys>()) engine_.Do(disk_.Read(engine_.Take<ReadKeys>()));
  engine_.Result(engine_.NeedBatch(), {});
  const ScanRange walk = Walk();
  Record(kT + 10'010, "k");
  while (engine_.Has<ReadKeys>()) engine_.Do(disk_.Read(engine_.Take<ReadKeys>()));
  const SentBatch batch = engine_.NeedBatch();
  engine_.Do(disk_.Scan(walk));
  engine_.Result(batch, {.ops = {Set("k", "again")}});
  Rest();
  EXPECT_EQ(disk_.rows(kRecent)["k"], TimedValue(kT + 10'010, "again"));
  EXPECT_EQ(Asked("k"), "again");
}

TEST_F(SweepTest, WhatWasRolledBackIsDeletedAgain) {
  disk_.rows(kRecent)["k"] = TimedValue(kT, "1");
  Record(kT + 10'000, "any");
  while (engine_.Has<ReadKeys>()) engine_.Do(disk_.Read(engine_.Take<ReadKeys>()));
  engine_.Result(engine_.NeedBatch(), {});
  engine_.Do(disk_.Scan(Walk()));
  engine_.AnswerCall(WriterCall::What::kBegin, WithRecovery(absl::AbortedError("scripted"), Recovery::kAbort));
  for (int i = 0; i < 20 && engine_.HasCall(); ++i) engine_.Answer(engine_.Take<WriterCall>());
  EXPECT_EQ(Asked("k"), "1") << "the record that made it old is to be handled again";
  next_ = 0;
  engine_.Pass(absl::Seconds(1));
  Handled(kT + 10'000, "any");
  Rest();
  EXPECT_THAT(disk_.rows(kRecent), IsEmpty());
}

}  // namespace
}  // namespace millstream::engine::testing
