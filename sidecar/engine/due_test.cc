// Finding what is due: how often the disk is asked.
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "sidecar/engine/testing/engine_driver.h"
#include "sidecar/engine/testing/memory_disk.h"

namespace millstream::engine {
namespace {

using testing::EngineDriver;
using testing::MemoryDisk;
using testing::Op;
using testing::Reply;
using testing::SentBatch;

constexpr int64_t kMinute = 60'000;
constexpr int kKeys = 5'000, kPage = 500;
constexpr store::StoreIndex kWindows = 0, kInternal = 2;

class DueTest : public ::testing::Test {
 protected:
  static EngineOptions Options() {
    EngineOptions options = EngineDriver::Options();
    spec::StoreSpec& windows = options.spec.stores[kWindows];
    windows.type = spec::StoreType::kWindow;
    windows.window = {.size = absl::Minutes(1), .advance = absl::Minutes(1), .retention = absl::Minutes(1)};
    options.spec.stores.push_back(
        {.name = std::string(spec::kTimersName), .changelog = {true, "g-timers-changelog", {}}, .internal = true});
    options.spec.max_ahead = absl::Hours(1);
    options.spec.batch.max_records = kPage;
    return options;
  }
  explicit DueTest(EngineOptions options = Options()) : engine_(std::move(options)) {
    engine_.Start();
    Rest();
  }

  // Answers everything and lets time pass until the engine wants nothing more.
  void Rest() {
    for (int i = 0; i < 20; ++i) {
      Serve();
      engine_.Pass(absl::Milliseconds(200));
    }
  }
  void Serve() {
    bool busy = true;
    while (busy) {
      busy = engine_.HasCall();
      engine_.Commit();
      while (engine_.Has<ReadKeys>()) engine_.Do(disk_.Read(engine_.Take<ReadKeys>())), busy = true;
      for (; engine_.Has<ScanRange>(); busy = true) {
        ++scans_;
        RangeScanned page = disk_.Scan(engine_.Take<ScanRange>());
        scanned_ += page.page.rows.size();
        engine_.Do(std::move(page));
      }
      while (engine_.Has<ApplyState>()) engine_.Do(disk_.Apply(engine_.Take<ApplyState>())), busy = true;
      while (std::optional<SentBatch> batch = engine_.Batch()) Handle(*batch), busy = true;
    }
  }
  // A value for the window of the minute of each key.
  void Handle(const SentBatch& batch) {
    if (std::exchange(lose_next_, false)) {
      engine_.Do(WorkerDisconnected{1, absl::UnavailableError("crash"), false});
      return engine_.Connect(2);
    }
    Reply reply;
    for (const std::string& key : batch.keys) {
      Bytes row = key;
      AppendBigEndian64(static_cast<uint64_t>(minute_), &row);
      reply.ops.push_back({kWindows, std::move(row), "1"});
    }
    engine_.Result(batch, reply);
  }
  void Records(int64_t minute, int first, int count) {
    minute_ = minute;
    std::vector<log::Record> records;
    for (int i = 0; i < count; ++i) {
      records.push_back({Offset(next_++), minute, "key-" + std::to_string(first + i), "v", {}});
    }
    engine_.Records(0, std::move(records), next_);
    Rest();
  }

  EngineDriver engine_;
  MemoryDisk disk_;
  int64_t minute_ = 0, next_ = 0;
  size_t scans_ = 0, scanned_ = 0;
  bool lose_next_ = false;  // the worker ends with the next batch
};

// All windows of a minute end at one time. Those that were taken are not walked over again for each page, though the
// disk still has them while they are being committed.
TEST_F(DueTest, WindowsThatEndAtOneTimeAreReadOnce) {
  for (int first = 0; first < kKeys; first += kPage) Records(kMinute, first, kPage);
  ASSERT_EQ(disk_.rows(kWindows).size(), kKeys);
  scans_ = scanned_ = 0;
  Records(3 * kMinute, kKeys, 1);
  EXPECT_EQ(disk_.rows(kWindows).size(), 1);
  EXPECT_EQ(disk_.rows(kInternal).size(), 2) << "the new window's end, and stream time";
  EXPECT_LE(scans_, kKeys / kPage + 5);
  EXPECT_LE(scanned_, kKeys + 5 * kPage);
}

class AtMostOnceDueTest : public DueTest {
 protected:
  static EngineOptions Claiming() {
    EngineOptions options = Options();
    options.spec.guarantee = spec::Guarantee::kAtMostOnce;
    return options;
  }
  AtMostOnceDueTest() : DueTest(Claiming()) {}
};

TEST_F(AtMostOnceDueTest, ARecordThatIsLostDoesNotMoveStreamTime) {
  lose_next_ = true;
  Records(5 * kMinute, 0, 1);
  EXPECT_FALSE(lose_next_);
  EXPECT_EQ(disk_.rows(kWindows).size(), 0) << "it had its one try";
  Records(kMinute, 1, 1);
  EXPECT_EQ(disk_.rows(kWindows).size(), 1) << "its window would have closed";
}

}  // namespace
}  // namespace millstream::engine
