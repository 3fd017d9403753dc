// Random operations on disk and memory stores against std::map, with flushes and reopening in between.
#include <random>

#include "common/base/strings.h"
#include "gtest/gtest.h"
#include "sidecar/store/store_test_util.h"

namespace millstream::store {
namespace {

class Property : public ::testing::Test {
 protected:
  static constexpr StoreIndex kStores = 3;  // two on disk, one in memory

  Property() : random_(TestSeed()) { Open(); }

  void Open() {
    store_ = nullptr;
    store_ = OpenOrDie(&environment_, folder_.path(), identity_);
    EXPECT_EQ(store_->wiped_reason(), "");
    model_[2].clear();
    positions_.changelog.erase(2);
    CheckPositions();
  }

  uint64_t Below(uint64_t bound) { return random_() % bound; }

  // Few different keys, short, with shared prefixes, zero and high bytes: neighbours in order are likely.
  Bytes RandomKey() {
    static constexpr char kLetters[] = {'\0', 'a', 'b', '\x7f', '\xff'};
    Bytes key;
    for (uint64_t n = Below(5); n > 0; --n) key.push_back(kLetters[Below(sizeof(kLetters))]);
    return key;
  }

  void ApplyRandomBatch() {
    std::vector<StoreWrite> writes;
    for (uint64_t n = Below(20); n > 0; --n) {
      StoreWrite write{static_cast<StoreIndex>(Below(kStores)), RandomKey(), std::nullopt};
      if (Below(3) != 0) write.value = std::string(Below(4) == 0 ? 0 : Below(2000), static_cast<char>(random_()));
      writes.push_back(write);
    }
    Positions positions;
    positions.wall_ms = static_cast<int64_t>(Below(1'000'000));
    if (Below(2) == 0)
      positions.changelog[static_cast<StoreIndex>(Below(kStores))] = Offset(static_cast<int64_t>(Below(100)));
    if (Below(2) == 0) positions.inputs[StrCat("input-", Below(3))] = Offset(static_cast<int64_t>(Below(100)));
    ASSERT_TRUE(store_->Apply(writes, positions).ok());
    for (const StoreWrite& write : writes) {
      if (write.value) {
        model_[write.store][write.key] = *write.value;
      } else {
        model_[write.store].erase(write.key);
      }
    }
    for (const auto& [store, offset] : positions.changelog) positions_.changelog[store] = offset;
    for (const auto& [topic, offset] : positions.inputs) positions_.inputs[topic] = offset;
    positions_.wall_ms = positions.wall_ms;
  }

  void CheckReads() {
    const StoreIndex store = static_cast<StoreIndex>(Below(kStores));
    std::vector<Bytes> keys(Below(40));
    for (Bytes& key : keys) key = RandomKey();
    auto values = store_->MultiGet(store, std::vector<std::string_view>(keys.begin(), keys.end()));
    ASSERT_TRUE(values.ok());
    for (size_t i = 0; i < keys.size(); ++i) {
      const auto row = model_[store].find(keys[i]);
      ASSERT_EQ((*values)[i], row == model_[store].end() ? std::nullopt : MaybeBytes(row->second)) << Readable(keys[i]);
      ASSERT_EQ(*store_->Get(store, keys[i]), (*values)[i]);
    }
  }

  // What a scan has to return, written down the plain way.
  std::vector<std::pair<Bytes, Bytes>> ExpectedRows(const ScanRequest& request) {
    std::vector<std::pair<Bytes, Bytes>> rows;
    for (const auto& [key, value] : model_[request.store]) {
      if (request.from && key < *request.from) continue;
      if (request.to && key >= *request.to) continue;
      if (request.after && (request.reverse ? key >= *request.after : key <= *request.after)) continue;
      rows.emplace_back(key, value);
    }
    if (request.reverse) std::reverse(rows.begin(), rows.end());
    return rows;
  }

  void CheckScan() {
    ScanRequest request;
    request.store = static_cast<StoreIndex>(Below(kStores));
    if (Below(2) == 0) request.from = RandomKey();
    if (Below(2) == 0) request.to = RandomKey();
    if (Below(2) == 0) request.after = RandomKey();
    request.reverse = Below(2) == 0;
    request.max_rows = 1 + Below(30);
    request.max_bytes = Below(2) == 0 ? 1 << 20 : Below(3000);
    const auto expected = ExpectedRows(request);
    std::vector<std::pair<Bytes, Bytes>> rows;
    while (true) {
      auto page = store_->Scan(request);
      ASSERT_TRUE(page.ok());
      ASSERT_LE(page->rows.size(), request.max_rows);
      rows.insert(rows.end(), page->rows.begin(), page->rows.end());
      if (!page->more) break;
      ASSERT_FALSE(page->rows.empty());
      request.after = page->rows.back().first;
    }
    ASSERT_EQ(rows, expected);
  }

  void CheckPositions() {
    const Positions found = store_->positions();
    EXPECT_EQ(found.changelog, positions_.changelog);
    EXPECT_EQ(found.inputs, positions_.inputs);
    EXPECT_EQ(found.wall_ms, positions_.wall_ms);
  }

  TempFolder folder_;
  StateEnvironment environment_{StateMemory{1 << 20, 1 << 20}};
  const TaskIdentity identity_ = Identity({DiskStore("a"), DiskStore("b"), MemoryStoreDefinition("m")});
  std::mt19937_64 random_;
  std::map<Bytes, Bytes> model_[kStores];
  Positions positions_;
  std::unique_ptr<TaskStore> store_;
};

TEST_F(Property, BehavesLikeMaps) {
  for (int step = 0; step < 4000 && !HasFatalFailure(); ++step) {
    const uint64_t dice = Below(1000);
    if (dice < 500) {
      ApplyRandomBatch();
    } else if (dice < 700) {
      CheckReads();
    } else if (dice < 950) {
      CheckScan();
    } else if (dice < 990) {
      ASSERT_TRUE(store_->Flush().ok());
      EXPECT_EQ(store_->UnflushedBytes(), 0);
    } else if (dice < 997) {
      Open();
    } else if (dice == 999) {
      ASSERT_TRUE(store_->Wipe().ok());
      for (auto& rows : model_) rows.clear();
      positions_ = Positions();
      CheckPositions();
    }
  }
  for (StoreIndex i = 0; i < kStores; ++i) EXPECT_EQ(Rows(*store_, i), model_[i]);
  CheckPositions();
}

}  // namespace
}  // namespace millstream::store
