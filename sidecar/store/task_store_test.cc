#include "sidecar/store/task_store.h"

#include <atomic>
#include <filesystem>
#include <thread>

#include "common/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sidecar/store/positions_on_disk.h"
#include "sidecar/store/store_test_util.h"
#include "sidecar/store/timed_value.h"

namespace millstream::store {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;
using ::testing::Pair;
using RowMap = std::map<Bytes, Bytes>;

std::vector<Bytes> Keys(const absl::StatusOr<ScanPage>& page) {
  EXPECT_TRUE(page.ok()) << page.status();
  std::vector<Bytes> keys;
  if (page.ok()) {
    for (const auto& [key, value] : page->rows) keys.push_back(key);
  }
  return keys;
}

// Everything a store promises, on disk and in memory alike.
class EveryBackend : public ::testing::TestWithParam<StoreDefinition::Backend> {
 protected:
  EveryBackend() {
    StoreDefinition definition = DiskStore("totals");
    definition.backend = GetParam();
    store_ = OpenOrDie(&environment_, folder_.path(), Identity({definition, DiskStore("other")}));
  }
  void Apply(std::vector<StoreWrite> writes, int64_t position = 1) {
    ASSERT_TRUE(store_->Apply(writes, At(0, position)).ok());
  }

  TempFolder folder_;
  StateEnvironment environment_{StateMemory()};
  std::unique_ptr<TaskStore> store_;
};

INSTANTIATE_TEST_SUITE_P(Backends, EveryBackend,
                         ::testing::Values(StoreDefinition::Backend::kDisk, StoreDefinition::Backend::kMemory),
                         [](const auto& info) {
                           return info.param == StoreDefinition::Backend::kDisk ? "Disk" : "Memory";
                         });

TEST_P(EveryBackend, KeepsBytesAsTheyAre) {
  const Bytes zeros("a\0b\0", 4), high("\xff\xfe\x80", 3);
  Apply({Put(0, "", "value of the empty key"), Put(0, zeros, high), Put(0, high, ""), Put(0, "k", zeros)});
  EXPECT_THAT(*store_->Get(0, ""), Optional(Bytes("value of the empty key")));
  EXPECT_THAT(*store_->Get(0, zeros), Optional(high));
  EXPECT_THAT(*store_->Get(0, high), Optional(Bytes()));
  EXPECT_THAT(*store_->Get(0, "k"), Optional(zeros));
  EXPECT_EQ(*store_->Get(0, "a"), std::nullopt);
  EXPECT_THAT(Rows(*store_, 0), ElementsAre(Pair("", testing::_), Pair(zeros, high), Pair("k", zeros), Pair(high, "")));
}

TEST_P(EveryBackend, LaterWritesOfOneBatchWin) {
  Apply({Put(0, "a", "1"), Put(0, "a", "2"), Put(0, "b", "1"), Delete(0, "b"), Delete(0, "c"), Put(0, "c", "3")});
  EXPECT_EQ(Rows(*store_, 0), (RowMap{{"a", "2"}, {"c", "3"}}));
}

TEST_P(EveryBackend, StoresAreApart) {
  Apply({Put(0, "a", "of 0"), Put(1, "a", "of 1")});
  Apply({Delete(0, "a")});
  EXPECT_EQ(*store_->Get(0, "a"), std::nullopt);
  EXPECT_THAT(*store_->Get(1, "a"), Optional(Bytes("of 1")));
}

TEST_P(EveryBackend, MultiGetIsAlignedWithItsKeys) {
  Apply({Put(0, "a", "1"), Put(0, "b", "2"), Put(0, "d", "4")});
  const std::vector<std::string_view> keys{"d", "nothing", "a", "d", "", "b"};
  auto values = store_->MultiGet(0, keys);
  ASSERT_TRUE(values.ok());
  EXPECT_THAT(*values, ElementsAre(Optional(Bytes("4")), std::nullopt, Optional(Bytes("1")), Optional(Bytes("4")),
                                   std::nullopt, Optional(Bytes("2"))));
  EXPECT_TRUE(store_->MultiGet(0, {})->empty());
}

TEST_P(EveryBackend, MultiGetOfThousandsOfKeysAcrossFlushes) {
  std::vector<std::string> keys;
  for (int i = 0; i < 5000; ++i) keys.push_back(StrCat("key-", i * 7919 % 5000));
  std::vector<StoreWrite> writes;
  for (const std::string& key : keys) writes.push_back(Put(0, key, StrCat("value of ", key)));
  Apply(writes);
  ASSERT_TRUE(store_->Flush().ok());
  Apply({Put(0, "key-4999", "newer"), Delete(0, "key-0")});
  const std::vector<std::string_view> wanted(keys.begin(), keys.end());
  auto values = store_->MultiGet(0, wanted);
  ASSERT_TRUE(values.ok());
  for (size_t i = 0; i < keys.size(); ++i) {
    if (keys[i] == "key-0") {
      EXPECT_EQ((*values)[i], std::nullopt);
    } else {
      EXPECT_EQ((*values)[i], keys[i] == "key-4999" ? "newer" : StrCat("value of ", keys[i]));
    }
  }
}

TEST_P(EveryBackend, ScansRangesBothWays) {
  Apply({Put(0, "a", "1"), Put(0, "b", "2"), Put(0, "c", "3"), Put(0, "d", "4"), Put(0, "e", "5")});
  const auto scan = [&](std::optional<Bytes> from, std::optional<Bytes> to, bool reverse, std::optional<Bytes> after) {
    ScanRequest request;
    request.from = std::move(from);
    request.to = std::move(to);
    request.reverse = reverse;
    request.after = std::move(after);
    return Keys(store_->Scan(request));
  };
  const std::optional<Bytes> open;
  EXPECT_THAT(scan(open, open, false, open), ElementsAre("a", "b", "c", "d", "e"));
  EXPECT_THAT(scan(open, open, true, open), ElementsAre("e", "d", "c", "b", "a"));
  EXPECT_THAT(scan("b", "d", false, open), ElementsAre("b", "c"));
  EXPECT_THAT(scan("b", "d", true, open), ElementsAre("c", "b"));
  EXPECT_THAT(scan("bb", "zz", true, open), ElementsAre("e", "d", "c"));
  EXPECT_THAT(scan("d", "b", false, open), ElementsAre());
  EXPECT_THAT(scan("b", "b", true, open), ElementsAre());
  // `after` inside, at the edges and outside of the range
  EXPECT_THAT(scan("b", "e", false, "b"), ElementsAre("c", "d"));
  EXPECT_THAT(scan("b", "e", false, "bb"), ElementsAre("c", "d"));
  EXPECT_THAT(scan("b", "e", false, "a"), ElementsAre("b", "c", "d"));
  EXPECT_THAT(scan("b", "e", false, "d"), ElementsAre());
  EXPECT_THAT(scan("b", "e", false, "z"), ElementsAre());
  EXPECT_THAT(scan("b", "e", true, "d"), ElementsAre("c", "b"));
  EXPECT_THAT(scan("b", "e", true, "cc"), ElementsAre("c", "b"));
  EXPECT_THAT(scan("b", "e", true, "z"), ElementsAre("d", "c", "b"));
  EXPECT_THAT(scan("b", "e", true, "b"), ElementsAre());
  EXPECT_THAT(scan("b", "e", true, "a"), ElementsAre());
  EXPECT_THAT(scan(open, open, true, "c"), ElementsAre("b", "a"));
}

TEST_P(EveryBackend, PagesByRowsAndByBytes) {
  for (int i = 10; i < 40; ++i) Apply({Put(0, StrCat("k", i), std::string(100, 'v'))});
  ScanRequest request;
  request.max_rows = 4;
  auto page = store_->Scan(request);
  EXPECT_THAT(Keys(page), ElementsAre("k10", "k11", "k12", "k13"));
  EXPECT_TRUE(page->more);
  request.max_rows = 1000;
  request.max_bytes = 250;  // two rows of 103 bytes
  request.reverse = true;
  page = store_->Scan(request);
  EXPECT_THAT(Keys(page), ElementsAre("k39", "k38"));
  request.max_bytes = 1;  // one row always
  request.after = page->rows.back().first;
  page = store_->Scan(request);
  EXPECT_THAT(Keys(page), ElementsAre("k37"));
  EXPECT_TRUE(page->more);
  request.after = "k11";
  page = store_->Scan(request);
  EXPECT_THAT(Keys(page), ElementsAre("k10"));
  EXPECT_FALSE(page->more);
}

TEST_P(EveryBackend, RefusesUnknownStores) {
  EXPECT_TRUE(absl::IsInvalidArgument(store_->Get(2, "a").status()));
  const std::vector<StoreWrite> writes{Put(0, "a", "1"), Put(2, "a", "1")};
  EXPECT_TRUE(absl::IsInvalidArgument(store_->Apply(writes, At(0, 1))));
  EXPECT_EQ(*store_->Get(0, "a"), std::nullopt) << "the batch is refused as a whole";
}

TEST_P(EveryBackend, ReadsSeeABatchInWhole) {
  constexpr int kKeys = 50;
  std::vector<std::string> keys;
  for (int i = 0; i < kKeys; ++i) keys.push_back(StrCat("key-", 100 + i));
  const auto write_round = [&](int round) {
    std::vector<StoreWrite> writes;
    for (const std::string& key : keys) writes.push_back(Put(0, key, StrCat(round)));
    Apply(writes, round);
  };
  write_round(0);
  std::atomic<bool> done{false};
  std::atomic<int> torn{0}, reads{0};
  std::thread reader([&] {
    const std::vector<std::string_view> wanted(keys.begin(), keys.end());
    while (!done) {
      auto values = store_->MultiGet(0, wanted);
      auto page = store_->Scan({});
      if (!values.ok() || !page.ok() || page->rows.size() != kKeys) {
        ++torn;
        continue;
      }
      for (const MaybeBytes& value : *values) torn += value != values->front();
      for (const auto& [key, value] : page->rows) torn += value != page->rows.front().second;
      ++reads;
    }
  });
  for (int round = 1; round < 300 || (reads < 20 && round < 100000); ++round) write_round(round);
  done = true;
  reader.join();
  EXPECT_EQ(torn, 0);
  EXPECT_GT(reads, 0);
}

TEST_P(EveryBackend, WipeEmptiesStoresAndPositions) {
  Apply({Put(0, "a", "1"), Put(1, "b", "2")}, 17);
  ASSERT_TRUE(store_->Wipe().ok());
  EXPECT_TRUE(Rows(*store_, 0).empty());
  EXPECT_TRUE(Rows(*store_, 1).empty());
  EXPECT_TRUE(store_->positions().changelog.empty());
  EXPECT_TRUE(store_->positions().inputs.empty());
  Apply({Put(0, "a", "again")}, 1);
  EXPECT_THAT(*store_->Get(0, "a"), Optional(Bytes("again")));
}

// ---------------------------------------------------------------- opening again

class Reopening : public ::testing::Test {
 protected:
  void Open(const TaskIdentity& identity) {
    store_ = nullptr;
    store_ = OpenOrDie(&environment_, folder_.path(), identity);
  }

  TempFolder folder_;
  StateEnvironment environment_{StateMemory()};
  std::unique_ptr<TaskStore> store_;
  const TaskIdentity identity_ = Identity({DiskStore("totals")});
};

TEST_F(Reopening, KeepsStateAndPositions) {
  Open(identity_);
  EXPECT_EQ(store_->wiped_reason(), "");
  EXPECT_TRUE(store_->positions().changelog.empty());
  ASSERT_TRUE(store_->Apply(std::vector{Put(0, "a", "1")}, At(0, 5, 50, 1000)).ok());
  Positions others;
  others.inputs["returns"] = Offset(7);
  others.wall_ms = 2000;
  ASSERT_TRUE(store_->Apply({}, others).ok());
  ASSERT_TRUE(store_->Touch(3000).ok());
  Open(identity_);
  EXPECT_EQ(store_->wiped_reason(), "");
  EXPECT_THAT(*store_->Get(0, "a"), Optional(Bytes("1")));
  EXPECT_THAT(store_->positions().changelog, ElementsAre(Pair(0u, Offset(5))));
  EXPECT_THAT(store_->positions().inputs, ElementsAre(Pair("orders", Offset(50)), Pair("returns", Offset(7))));
  EXPECT_EQ(store_->positions().wall_ms, 3000);
}

TEST_F(Reopening, PositionsCanBeSeenWithoutOpening) {
  const TaskIdentity identity = Identity({DiskStore("totals")});
  EXPECT_TRUE(absl::IsNotFound(PositionsOnDisk(folder_.path(), identity).status()));
  auto store = OpenOrDie(&environment_, folder_.path(), identity);
  ASSERT_TRUE(store->Apply({Put(0, "a", "1")}, At(0, 7)).ok());
  ASSERT_TRUE(store->Flush().ok());
  store.reset();
  const absl::StatusOr<Positions> seen = PositionsOnDisk(folder_.path(), identity);
  ASSERT_TRUE(seen.ok()) << seen.status();
  EXPECT_EQ(seen->changelog.at(0), Offset(7));
  EXPECT_TRUE(absl::IsNotFound(PositionsOnDisk(folder_.path(), Identity({DiskStore("others")})).status()));
  // What was looked at can be opened as before.
  store = OpenOrDie(&environment_, folder_.path(), identity);
  EXPECT_EQ(store->wiped_reason(), "");
  EXPECT_EQ(Rows(*store, 0), (RowMap{{"a", "1"}}));
}

TEST_F(Reopening, MemoryStoresComeBackEmptyAndWithoutPosition) {
  const TaskIdentity identity = Identity({DiskStore("totals"), MemoryStoreDefinition("recent")});
  Open(identity);
  Positions positions = At(0, 5);
  positions.changelog[1] = Offset(9);
  ASSERT_TRUE(store_->Apply(std::vector{Put(0, "a", "1"), Put(1, "b", "2")}, positions).ok());
  EXPECT_THAT(store_->positions().changelog, ElementsAre(Pair(0u, Offset(5)), Pair(1u, Offset(9))));
  Open(identity);
  EXPECT_THAT(store_->positions().changelog, ElementsAre(Pair(0u, Offset(5))));
  EXPECT_EQ(Rows(*store_, 0).size(), 1u);
  EXPECT_TRUE(Rows(*store_, 1).empty());
}

TEST_F(Reopening, StoresWithoutChangelogAreEmptied) {
  StoreDefinition cache = DiskStore("cache");
  cache.changelog_topic = cache.changelog_topic_id = "";
  const TaskIdentity identity = Identity({DiskStore("totals"), cache});
  for (const bool flush : {true, false}) {
    Open(identity);
    EXPECT_TRUE(Rows(*store_, 1).empty());
    Positions positions = At(0, 5);
    positions.changelog[1] = Offset(9);
    ASSERT_TRUE(store_->Apply(std::vector{Put(0, "a", "1"), Put(1, "b", "2")}, positions).ok());
    if (flush) {
      ASSERT_TRUE(store_->Flush().ok());
    }
    EXPECT_EQ(Rows(*store_, 1).size(), 1u);
  }
  Open(identity);
  EXPECT_EQ(store_->wiped_reason(), "");
  EXPECT_THAT(store_->positions().changelog, ElementsAre(Pair(0u, Offset(5))));
  EXPECT_EQ(Rows(*store_, 0).size(), 1u);
  EXPECT_TRUE(Rows(*store_, 1).empty());
  ASSERT_TRUE(store_->Apply(std::vector{Put(1, "c", "3")}, At(0, 6)).ok());
  EXPECT_EQ(Rows(*store_, 1), (RowMap{{"c", "3"}}));
}

TEST_F(Reopening, OrderOfStoresDoesNotMatter) {
  Open(Identity({DiskStore("a"), DiskStore("b")}));
  ASSERT_TRUE(store_->Apply(std::vector{Put(0, "k", "of a"), Put(1, "k", "of b")}, At(1, 8)).ok());
  Open(Identity({DiskStore("b"), DiskStore("a")}));
  EXPECT_EQ(store_->wiped_reason(), "");
  EXPECT_THAT(*store_->Get(0, "k"), Optional(Bytes("of b")));
  EXPECT_THAT(*store_->Get(1, "k"), Optional(Bytes("of a")));
  EXPECT_THAT(store_->positions().changelog, ElementsAre(Pair(0u, Offset(8))));
}

TEST_F(Reopening, StateOfAnotherIdentityIsWipedWithAReason) {
  TaskIdentity other_group = identity_;
  other_group.group = "other";
  TaskIdentity new_topic = identity_;
  new_topic.stores[0].changelog_topic_id = "id-2";
  TaskIdentity other_topic = identity_;
  other_topic.stores[0].changelog_topic = "elsewhere";
  TaskIdentity timed = identity_;
  timed.stores[0].timed = true;
  const std::vector<std::pair<TaskIdentity, std::string>> cases{
      {timed, "'totals' have no times, which one with ttl needs"},
      {other_group, "group 'group', not 'other'"},
      {Identity({DiskStore("totals")}, 4), "task 3, not 4"},
      {new_topic, "'group-totals-changelog' of store 'totals' was created anew (id 'id-of-totals', now 'id-2')"},
      {other_topic, "another changelog topic"},
      {Identity({DiskStore("totals"), DiskStore("more")}), "no store 'more'"},
      {Identity({DiskStore("renamed")}), "no store 'renamed'"},
      {Identity({MemoryStoreDefinition("totals")}), "'totals' that the manifest does not name"},
      {Identity({}), "'totals' that the manifest does not name"},
  };
  for (const auto& [identity, reason] : cases) {
    SCOPED_TRACE(reason);
    Open(identity_);
    ASSERT_TRUE(store_->Apply(std::vector{Put(0, "a", "1")}, At(0, 5)).ok());
    Open(identity);
    EXPECT_THAT(store_->wiped_reason(), HasSubstr(reason));
    EXPECT_TRUE(store_->positions().changelog.empty());
    EXPECT_TRUE(store_->positions().inputs.empty());
    for (StoreIndex i = 0; i < identity.stores.size(); ++i) EXPECT_TRUE(Rows(*store_, i).empty());
    Open(identity);
    EXPECT_EQ(store_->wiped_reason(), "") << "only once";
  }
}

TEST_F(Reopening, StateWithTimesIsNotTakenForStateWithout) {
  TaskIdentity timed = identity_;
  timed.stores[0].timed = true;
  Open(timed);
  ASSERT_TRUE(store_->Apply(std::vector{Put(0, "a", TimedValue(7, "1"))}, At(0, 5)).ok());
  Open(timed);
  EXPECT_EQ(store_->wiped_reason(), "");
  Open(identity_);
  EXPECT_THAT(store_->wiped_reason(), HasSubstr("'totals' have times, which one without ttl has not"));
  EXPECT_TRUE(store_->positions().changelog.empty());
  EXPECT_TRUE(Rows(*store_, 0).empty());
}

TEST_F(Reopening, AFolderIsHeldByOneStoreAtATime) {
  Open(identity_);
  const auto second = TaskStore::Open(&environment_, folder_.path(), identity_);
  ASSERT_TRUE(absl::IsFailedPrecondition(second.status())) << second.status();
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(folder_.path()));
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(StrCat("process ", getpid())));
  EXPECT_EQ(store_->wiped_reason(), "");
}

TEST_F(Reopening, AnUnwritableFolderIsAnErrorNotAWipe) {
  const auto store = TaskStore::Open(&environment_, "/proc/nothing/here", identity_);
  EXPECT_FALSE(store.ok());
  EXPECT_FALSE(absl::IsDataLoss(store.status()));
  EXPECT_THAT(std::string(store.status().message()), HasSubstr("/proc/nothing/here"));
}

// ---------------------------------------------------------------- memory and flushing

TEST_F(Reopening, CountsUnflushedBytes) {
  Open(identity_);
  EXPECT_EQ(store_->UnflushedBytes(), 0);
  ASSERT_TRUE(store_->Apply(std::vector{Put(0, "key", std::string(100'000, 'v'))}, At(0, 1)).ok());
  EXPECT_GE(store_->UnflushedBytes(), 100'003);
  EXPECT_LT(store_->UnflushedBytes(), 101'000);
  ASSERT_TRUE(store_->Flush().ok());
  EXPECT_EQ(store_->UnflushedBytes(), 0);
}

TEST(StateEnvironment, ManyStoresStayWithinOneMemtableBudget) {
  constexpr int kTasks = 12, kRounds = 60;
  constexpr int64_t kBudget = 4 << 20;
  TempFolder folder;
  StateMemory memory;
  memory.memtable_bytes = kBudget;
  StateEnvironment environment(memory);
  std::vector<std::unique_ptr<TaskStore>> stores;
  for (int task = 0; task < kTasks; ++task) {
    stores.push_back(
        OpenOrDie(&environment, StrCat(folder.path(), "/", task), Identity({DiskStore("a"), DiskStore("b")}, task)));
  }
  int64_t highest = 0;
  for (int round = 0; round < kRounds; ++round) {
    // The first ones hold a little and are idle afterwards: their memory must not stop the others.
    for (int task = 0; task < kTasks; ++task) {
      if (task < 6 && round > 0) continue;
      const std::string value(task < 6 ? 300'000 : 50'000, 'v');
      const std::vector<StoreWrite> writes{Put(0, StrCat("k", round), value), Put(1, "k", "v")};
      ASSERT_TRUE(stores[task]->Apply(writes, At(0, round + 1)).ok());
      highest = std::max(highest, environment.MemtableUsage());
    }
  }
  EXPECT_LT(highest, kBudget + (1 << 20));
  int64_t unflushed = 0;
  for (const auto& store : stores) unflushed += store->UnflushedBytes();
  EXPECT_LE(unflushed, kBudget);
  EXPECT_EQ(Rows(*stores[11], 0).size(), static_cast<size_t>(kRounds));
}

}  // namespace
}  // namespace millstream::store
