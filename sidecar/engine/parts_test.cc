// The parts of the engine by themselves: overlays, scans over layers, attempts, metadata, outputs, record queue.
#include <map>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sidecar/engine/attempts.h"
#include "sidecar/engine/log_throttle.h"
#include "sidecar/engine/outputs.h"
#include "sidecar/engine/record_queue.h"
#include "sidecar/engine/scan_merge.h"
#include "sidecar/engine/task_overlays.h"
#include "sidecar/engine/testing/engine_driver.h"
#include "sidecar/engine/transaction.h"

namespace millstream::engine {
namespace {

using ::testing::ElementsAre;

// Of no item's time: the program chose it.
constexpr auto kChosen = [](int64_t) { return false; };

MaybeBytes Find(const TaskOverlays& overlays, std::string_view key,
                TaskOverlays::View view = TaskOverlays::View::kAll) {
  const OverlayValue* value = overlays.Find(0, key, BytesHash()(key), view);
  if (value == nullptr) return "?";
  return value->deleted ? MaybeBytes() : MaybeBytes(value->view());
}

TEST(TaskOverlaysTest, NewestLayerWins) {
  TaskOverlays overlays(1);
  overlays.Stage(1).Put(0, "a", "1", 0);
  overlays.Stage(1).Put(0, "b", "1", 0);
  overlays.Stage(2).Put(0, "a", std::nullopt, 0);
  EXPECT_EQ(Find(overlays, "a"), std::nullopt);
  EXPECT_EQ(Find(overlays, "b"), "1");
  EXPECT_EQ(Find(overlays, "c"), "?");
  EXPECT_EQ(Find(overlays, "b", TaskOverlays::View::kCommitted), "?");
  overlays.Commit(1);
  EXPECT_EQ(Find(overlays, "a", TaskOverlays::View::kCommitted), "1");
  overlays.Drop(2);
  EXPECT_EQ(Find(overlays, "a"), "1");
}

TEST(TaskOverlaysTest, CommittedLayersMergeAndApplyAsOne) {
  TaskOverlays overlays(1);
  overlays.Stage(1).Put(0, "a", "long value", 0);
  overlays.Commit(1);
  overlays.Stage(2).Put(0, "a", "x", 0);
  overlays.Stage(2).Put(0, "b", "y", 0);
  overlays.Commit(2);
  EXPECT_EQ(overlays.StartApply()->entries(), 2);
  overlays.Stage(3).Put(0, "b", "z", 0);
  overlays.Commit(3);
  EXPECT_EQ(Find(overlays, "b"), "z");
  overlays.ApplyFailed();
  EXPECT_EQ(overlays.StartApply()->entries(), 2);
  EXPECT_EQ(Find(overlays, "b"), "z");
  EXPECT_EQ(Find(overlays, "a"), "x");
}

TEST(TaskOverlaysTest, PinsKeepAppliedLayersAndTheNewestIsACache) {
  TaskOverlays overlays(1);
  auto commit_and_apply = [&](uint64_t tx, const char* key) {
    overlays.Stage(tx).Put(0, key, "v", 0);
    overlays.Commit(tx);
    overlays.StartApply();
    overlays.ApplyDone();
  };
  commit_and_apply(1, "a");
  EXPECT_EQ(Find(overlays, "a"), "v") << "a cache";
  const TaskOverlays::Pin pin = overlays.TakePin();  // may have seen the cached layer
  commit_and_apply(2, "b");
  overlays.FreeCache();
  EXPECT_EQ(Find(overlays, "a"), "v");
  EXPECT_EQ(Find(overlays, "b"), "v");
  overlays.ReleasePin(pin);
  EXPECT_EQ(Find(overlays, "a"), "?");
  EXPECT_EQ(Find(overlays, "b"), "v");
  overlays.FreeCache();
  EXPECT_EQ(Find(overlays, "b"), "?");
  EXPECT_EQ(overlays.bytes(), 0);
}

TEST(OverlayTest, AHotKeyTakesNoMoreMemory) {
  Overlay overlay(1);
  overlay.Put(0, "k", std::string(100, 'a'), 0);
  const int64_t bytes = overlay.bytes();
  for (int i = 0; i < 10'000; ++i) overlay.Put(0, "k", std::string(100, static_cast<char>('a' + i % 26)), 0);
  EXPECT_EQ(overlay.bytes(), bytes);
}

// Random layers over a random disk, read page by page: the same as the whole merged map.
TEST(ScanMergeTest, PagesAgreeWithTheModel) {
  for (uint32_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    auto key = [&] {
      std::string out(1 + random() % 2, 'x');
      out[0] = static_cast<char>('a' + random() % 12);
      return out;
    };
    std::map<Bytes, Bytes> disk, model;
    for (int i = static_cast<int>(random() % 12); i > 0; --i) disk[key()] = "d";
    model = disk;
    std::vector<std::unique_ptr<Overlay>> owned;
    std::vector<Overlay*> layers;  // newest first
    for (int layer = static_cast<int>(random() % 4); layer > 0; --layer) {
      auto overlay = std::make_unique<Overlay>(1);
      for (int i = static_cast<int>(random() % 8); i > 0; --i) {
        if (i == 3) overlay->Sorted(0);  // kept up from here on
        const std::string k = key(), value = std::to_string(random() % 100);
        if (random() % 3 == 0) {
          overlay->Put(0, k, std::nullopt, 0);
          model.erase(k);
        } else {
          overlay->Put(0, k, value, 0);
          model[k] = value;
        }
      }
      layers.insert(layers.begin(), overlay.get());
      owned.push_back(std::move(overlay));
    }
    store::ScanRequest request;
    if (random() % 2) request.from = key();
    if (random() % 2) request.to = key();
    request.reverse = random() % 2 != 0;
    request.max_rows = 1 + random() % 4;
    std::vector<std::pair<Bytes, Bytes>> expected, got;
    for (const auto& row : model) {
      if ((!request.from || row.first >= *request.from) && (!request.to || row.first < *request.to))
        expected.push_back(row);
    }
    if (request.reverse) std::reverse(expected.begin(), expected.end());
    for (int page_number = 0; page_number < 100; ++page_number) {
      store::ScanPage page;  // as the store answers
      std::vector<std::pair<Bytes, Bytes>> rows(disk.begin(), disk.end());
      if (request.reverse) std::reverse(rows.begin(), rows.end());
      for (const auto& row : rows) {
        if ((request.from && row.first < *request.from) || (request.to && row.first >= *request.to)) continue;
        if (request.after && (request.reverse ? row.first >= *request.after : row.first <= *request.after)) continue;
        if (page.rows.size() == request.max_rows) {
          page.more = true;
          break;
        }
        page.rows.push_back(row);
      }
      MergedPage merged = MergeScan(request, page, layers);
      EXPECT_LE(merged.rows.size(), request.max_rows);
      got.insert(got.end(), merged.rows.begin(), merged.rows.end());
      if (!merged.cursor) break;
      request.after = merged.cursor;
    }
    ASSERT_EQ(got, expected);
  }
}

TEST(AttemptsTest, CountsUntilTheOffsetIsCommitted) {
  spec::ErrorsSpec errors;
  errors.on_failure = spec::FailureAction::kSkip;
  Attempts attempts;
  EXPECT_EQ(VerdictFor(errors, attempts.Charge(errors, 0, Offset(5), {}, true)), Verdict::kRetry);
  EXPECT_EQ(attempts.Next(0, Offset(5)), 2);
  EXPECT_EQ(VerdictFor(errors, attempts.Charge(errors, 0, Offset(5), {}, true)), Verdict::kRetry);
  EXPECT_EQ(VerdictFor(errors, attempts.Charge(errors, 0, Offset(5), {}, true)), Verdict::kSkip);
  EXPECT_EQ(VerdictFor(errors, attempts.Charge(errors, 1, Offset(5), {}, false)), Verdict::kSkip);
  attempts.Committed(0, Offset(5));
  EXPECT_NE(attempts.Find(0, Offset(5)), nullptr);
  attempts.Committed(0, Offset(6));
  EXPECT_EQ(attempts.Find(0, Offset(5)), nullptr);
  EXPECT_NE(attempts.Find(1, Offset(5)), nullptr);
}

TEST(AttemptsTest, BackoffDoublesUpToItsBound) {
  const auto first = absl::Milliseconds(100), most = absl::Seconds(30);
  EXPECT_EQ(Backoff(first, most, 1), absl::Milliseconds(100));
  EXPECT_EQ(Backoff(first, most, 4), absl::Milliseconds(800));
  EXPECT_EQ(Backoff(first, most, 1'000'000), most);
}

TEST(LogThrottleTest, SomeLinesASecondAndACountOfTheRest) {
  LogThrottle throttle(2);
  EXPECT_TRUE(throttle.Allow(absl::Seconds(5)));
  EXPECT_TRUE(throttle.Allow(absl::Seconds(5)));
  EXPECT_FALSE(throttle.Allow(absl::Seconds(5.5)));
  EXPECT_FALSE(throttle.Allow(absl::Seconds(5.9)));
  EXPECT_TRUE(throttle.Allow(absl::Seconds(6)));
  EXPECT_EQ(throttle.TakeLeftOut(), 2u);
  EXPECT_EQ(throttle.TakeLeftOut(), 0u);
}

TEST(OffsetTagsTest, OneJsonObject) {
  EXPECT_EQ(OffsetTags("local/ns/na\"me", "g-1-0-a", "17\\x", "").Metadata(42),
            R"({"v":1,"owner":"local/ns/na\"me","tag":"g-1-0-a/17\\x/42"})");
  EXPECT_EQ(OffsetTags("local/ns/p", "g-1-0-b", "18", R"({"in":"x"})").Metadata(7),
            R"({"v":1,"owner":"local/ns/p","tag":"g-1-0-b/18/7","topics":{"in":"x"}})");
}

TEST(OutputRouterTest, PartitionAsGivenByKeyOrInTurn) {
  const EngineOptions options = testing::EngineDriver::Options();
  OutputRouter router(&options);
  protocol::OutputRecord record;
  record.value = "v";
  std::vector<int> turn;
  for (int i = 0; i < 5; ++i) turn.push_back(router.Route(record, 9).to.partition.value());
  EXPECT_THAT(turn, ElementsAre(0, 1, 2, 3, 0));
  record.key = "customer-1";
  EXPECT_EQ(router.Route(record, 9).to.partition, log::PartitionOfKey(log::KeyHash::kMurmur2, "customer-1", 4));
  record.partition = 3;
  EXPECT_EQ(router.Route(record, 9).to.partition, Partition(3));
  EXPECT_EQ(router.Route(record, 9).timestamp_ms, 9);
  record.timestamp_ms = -5;
  EXPECT_EQ(router.Route(record, 9).timestamp_ms, -5);
  record.timestamp_ms = INT64_MIN;
  EXPECT_FALSE(router.Check(record, 9, kChosen).ok());
}

TEST(OutputRouterTest, TimesThatTheTopicsBrokersWouldRefuse) {
  EngineOptions options = testing::EngineDriver::Options();
  options.output_timestamps = {{.ahead_ms = 100, .behind_ms = {}}};
  OutputRouter ahead(&options);
  protocol::OutputRecord record;
  record.timestamp_ms = 1100;
  EXPECT_TRUE(ahead.Check(record, 1000, kChosen).ok());
  record.timestamp_ms = 1101;
  const absl::Status refused = ahead.Check(record, 1000, kChosen);
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_NE(refused.message().find("101 ms ahead of the clock; its topic takes at most 100"), absl::string_view::npos);
  record.timestamp_ms = -1'000'000;
  EXPECT_TRUE(ahead.Check(record, 1000, kChosen).ok());
  record.timestamp_ms.reset();
  EXPECT_TRUE(ahead.Check(record, 1000, kChosen).ok());

  options.output_timestamps = {{.ahead_ms = {}, .behind_ms = 50}};
  OutputRouter behind(&options);
  record.timestamp_ms = 950;
  EXPECT_TRUE(behind.Check(record, 1000, kChosen).ok());
  record.timestamp_ms = 949;
  EXPECT_FALSE(behind.Check(record, 1000, kChosen).ok());
  record.timestamp_ms = 1'000'000;
  EXPECT_TRUE(behind.Check(record, 1000, kChosen).ok());
}

TEST(OutputRouterTest, ATimeThatNobodyChoseAndTheTopicRefusesBecomesTheTimeOfNow) {
  EngineOptions options = testing::EngineDriver::Options();
  options.output_timestamps = {{.ahead_ms = 100, .behind_ms = 50}};
  OutputRouter router(&options);
  const auto of_item = [](int64_t time) { return time == 5000 || time == 3 || time == INT64_MIN; };
  protocol::OutputRecord record;
  for (const int64_t time : {5000, 3}) {
    record.timestamp_ms = time;
    EXPECT_TRUE(router.Check(record, 1000, of_item).ok());
    EXPECT_EQ(router.Route(record, 1000).timestamp_ms, 1000);
  }
  record.timestamp_ms = 5001;
  EXPECT_FALSE(router.Check(record, 1000, of_item).ok());
  record.timestamp_ms = INT64_MIN;  // no topic takes it
  EXPECT_FALSE(router.Check(record, 1000, of_item).ok());
  record.timestamp_ms = 1100;
  EXPECT_EQ(router.Route(record, 1000).timestamp_ms, 1100);
}

TEST(RecordQueueTest, KeepsOrderAndPositions) {
  RecordQueue queue;
  queue.Append(0, {{Offset(3), 0, "a", "1", {}}, {Offset(7), 0, "b", "2", {}}}, Offset(2), Offset(9));
  queue.Append(1, {{Offset(0), 0, "c", "3", {}}}, Offset(0), Offset(1));
  Item first = queue.PopFront();
  EXPECT_EQ(first.from, Offset(2));
  EXPECT_EQ(first.next, Offset(4));
  EXPECT_EQ(queue.front().next, Offset(9));
  std::vector<Item> back;
  back.push_back(std::move(first));
  queue.PutBack(std::move(back));
  EXPECT_EQ(queue.size(), 3u);
  queue.Truncate([](const Item& item) { return item.next <= Offset(4); });
  EXPECT_EQ(queue.size(), 1u);
  EXPECT_EQ(queue.PopFront().record.key, "a");
  EXPECT_EQ(queue.bytes(), 0);
}

}  // namespace
}  // namespace millstream::engine
