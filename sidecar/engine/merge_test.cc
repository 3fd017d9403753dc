// mergeBy: Timestamp, errors.byClass, pausing.
#include <algorithm>
#include <random>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sidecar/engine/testing/engine_driver.h"

namespace millstream::engine::testing {
namespace {

using What = WriterCall::What;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

EngineOptions Merging() {
  EngineOptions options = EngineDriver::Options();
  options.spec.merge_by = spec::MergeBy::kTimestamp;
  options.spec.inputs[0].idle_after = absl::Seconds(10);
  options.spec.inputs.push_back(options.spec.inputs[0]);
  options.spec.inputs[1].name = options.spec.inputs[1].topic = "other";
  return options;
}

void Start(EngineDriver& engine) {
  engine.Token(1);
  while (engine.HasCall()) engine.AnswerCall(What::kCreate);
  engine.Connect(1);
  engine.Do(TaskAssigned{TaskId(0)});
  engine.Take<OpenTask>();
  engine.Do(TaskOpened{TaskId(0), absl::OkStatus(), {{0, Offset(0), true, "x"}, {1, Offset(0), true, "x"}}, {}});
  engine.Take<StartFetch>();
  engine.Take<StartFetch>();
}

// Records of an input with these times, from offset `first` on.
void Feed(EngineDriver& engine, uint32_t input, int64_t first, const std::vector<int64_t>& times) {
  std::vector<log::Record> records;
  for (const int64_t time : times) {
    const Offset offset(first + static_cast<int64_t>(records.size()));
    records.push_back({offset, time, StrCat(input == 0 ? "a" : "b", offset.value()), "v", {}});
  }
  const Offset next(first + static_cast<int64_t>(times.size()));
  engine.Do(RecordsRead{TaskId(0), input, std::move(records), next, 0});
}

void End(EngineDriver& engine, uint32_t input, int64_t position) {
  engine.Do(EndOfInput{TaskId(0), input, Offset(position), 0});
}

// Handles batches as long as there are any; the keys of all of them.
std::vector<std::string> Handled(EngineDriver& engine) {
  std::vector<std::string> keys;
  while (const std::optional<SentBatch> batch = engine.Batch()) {
    keys.insert(keys.end(), batch->keys.begin(), batch->keys.end());
    engine.Result(*batch, {});
  }
  return keys;
}

TEST(MergeTest, TheLowestTimestampFirstAsLongAsBothHaveRecords) {
  EngineDriver engine(Merging());
  Start(engine);
  Feed(engine, 0, 0, {1, 5, 9});
  EXPECT_THAT(Handled(engine), IsEmpty()) << "the other input may have something older";
  Feed(engine, 1, 0, {2, 5, 6});
  EXPECT_THAT(Handled(engine), ElementsAre("a0", "b0", "a1", "b1", "b2"));
  Feed(engine, 1, 3, {7, 20});
  EXPECT_THAT(Handled(engine), ElementsAre("b3", "a2"));
}

TEST(MergeTest, OrderWithinAnInputIsThatOfItsOffsets) {
  EngineDriver engine(Merging());
  Start(engine);
  Feed(engine, 0, 0, {10, 1, 2});
  Feed(engine, 1, 0, {5, 11});
  EXPECT_THAT(Handled(engine), ElementsAre("b0", "a0", "a1", "a2"));
}

TEST(MergeTest, AnInputReadToItsEndAndSilentDoesNotHoldTheOthersBack) {
  EngineDriver engine(Merging());
  Start(engine);
  End(engine, 1, 0);
  Feed(engine, 0, 0, {1, 2});
  EXPECT_THAT(Handled(engine), ElementsAre("a0", "a1")) << "it never had anything";
  Feed(engine, 1, 0, {3});
  Feed(engine, 0, 2, {4, 5});
  EXPECT_THAT(Handled(engine), ElementsAre("b0"));
  End(engine, 1, 1);
  engine.Pass(absl::Seconds(10) - absl::Milliseconds(1));
  EXPECT_THAT(Handled(engine), IsEmpty()) << "it brought a record lately";
  engine.Pass(absl::Milliseconds(2));
  EXPECT_THAT(Handled(engine), ElementsAre("a2", "a3"));
  Feed(engine, 0, 4, {6});
  EXPECT_THAT(Handled(engine), ElementsAre("a4"));
  Feed(engine, 1, 1, {7});
  EXPECT_THAT(Handled(engine), IsEmpty()) << "now the first one is waited for, which brought something just now";
}

TEST(MergeTest, AnInputThatSaysNothingAtAllIsWaitedForOnlySoLong) {
  EngineDriver engine(Merging());
  Start(engine);
  Feed(engine, 0, 0, {1});
  engine.Pass(absl::Seconds(9));
  EXPECT_THAT(Handled(engine), IsEmpty());
  engine.Pass(absl::Seconds(2));
  EXPECT_THAT(Handled(engine), ElementsAre("a0"));
}

// However much is held of one, the other is read: else each would wait for the other.
TEST(MergeTest, TheInputThatIsWaitedForIsNeverPaused) {
  EngineOptions options = Merging();
  options.fetched_bytes = 1000;
  EngineDriver engine(options);
  Start(engine);
  std::vector<log::Record> records;
  for (int i = 0; i < 40; ++i) records.push_back({Offset(i), i, "k", std::string(40'000, 'x'), {}});
  engine.Do(RecordsRead{TaskId(0), 0, std::move(records), Offset(40), 0});
  const PauseFetch pause = engine.Take<PauseFetch>();
  EXPECT_EQ(pause.input, 0u);
  EXPECT_TRUE(pause.paused);
  EXPECT_FALSE(engine.Has<PauseFetch>());
  Feed(engine, 1, 0, {1000});
  EXPECT_FALSE(Handled(engine).empty());
}

TEST(MergeTest, AFailedRecordIsTriedAgainInItsPlace) {
  EngineDriver engine(Merging());
  Start(engine);
  Feed(engine, 0, 0, {1, 3});
  Feed(engine, 1, 0, {2, 4});
  const SentBatch batch = engine.NeedBatch();
  EXPECT_THAT(batch.keys, ElementsAre("a0", "b0", "a1"));
  engine.Result(batch, {.done = 1, .failure = protocol::Failure{"Handler", "E", "once", true}});
  engine.Pass(absl::Milliseconds(200));
  const SentBatch again = engine.NeedBatch();
  EXPECT_THAT(again.keys, ElementsAre("b0", "a1"));
  EXPECT_THAT(again.attempts, ElementsAre(2, 1));
}

TEST(MergeTest, ByArrivalNobodyWaits) {
  EngineOptions options = Merging();
  options.spec.merge_by = spec::MergeBy::kArrival;
  EngineDriver engine(options);
  Start(engine);
  Feed(engine, 0, 0, {5});
  Feed(engine, 1, 0, {1});
  EXPECT_THAT(Handled(engine), ElementsAre("a0", "b0"));
}

// Whatever the chunks and the order they come in: the result is the merge of the two, as sorting would make it.
TEST(MergeTest, AnyArrivalGivesTheSameOrder) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    std::vector<std::vector<int64_t>> times(2);
    std::vector<std::pair<int64_t, std::string>> sorted;
    for (uint32_t input = 0; input < 2; ++input) {
      int64_t time = 0;
      for (int i = 0; i < 40; ++i) {
        times[input].push_back(time += static_cast<int64_t>(random() % 4));
        sorted.emplace_back(time, StrCat(input == 0 ? "a" : "b", i));
      }
    }
    std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<std::string> expected;
    for (const auto& entry : sorted) expected.push_back(entry.second);

    EngineDriver engine(Merging());
    Start(engine);
    std::vector<std::string> handled;
    size_t fed[2] = {0, 0};
    while (fed[0] < 40 || fed[1] < 40) {
      const uint32_t input = random() % 2;
      const size_t some = std::min<size_t>(1 + random() % 7, 40 - fed[input]);
      if (some == 0) continue;
      const auto begin = times[input].begin() + static_cast<ptrdiff_t>(fed[input]);
      Feed(engine, input, static_cast<int64_t>(fed[input]), {begin, begin + static_cast<ptrdiff_t>(some)});
      fed[input] += some;
      for (std::string& key : Handled(engine)) handled.push_back(std::move(key));
    }
    End(engine, 0, 40);
    End(engine, 1, 40);
    engine.Pass(absl::Seconds(11));
    for (std::string& key : Handled(engine)) handled.push_back(std::move(key));
    EXPECT_EQ(handled, expected);
  }
}

TEST(ByClassTest, EachClassHasItsAction) {
  for (const auto& [failure_class, skipped, dead] :
       {std::tuple("Decode", 0u, 1u), {"Output", 1u, 0u}, {"Handler", 0u, 0u}}) {
    EngineOptions options = EngineDriver::Options();
    options.spec.errors.on_failure = spec::FailureAction::kStop;
    options.spec.errors.by_class = {{"Decode", spec::FailureAction::kDeadLetter},
                                    {"Output", spec::FailureAction::kSkip}};
    EngineDriver engine(options);
    engine.Start();
    engine.Records(0, 0, 1);
    engine.Result(engine.NeedBatch(), {.done = 0, .failure = protocol::Failure{failure_class, "E", "bad", false}});
    EXPECT_EQ(engine.engine().Status().skipped, skipped) << failure_class;
    EXPECT_EQ(engine.engine().Status().dead_letters, dead) << failure_class;
    EXPECT_EQ(engine.engine().Status().tasks[0].state == TaskStatus::State::kStopped, skipped + dead == 0);
  }
}

TEST(PauseTest, WhatIsOutIsCommittedAndNothingNewIsSent) {
  EngineDriver engine;
  engine.Start();
  engine.Records(0, 0, 2);
  const SentBatch batch = engine.NeedBatch();
  engine.Records(0, 2, 2);
  engine.Do(SetPaused{true});
  engine.Result(batch, {.outputs = {{"k", "v"}}});
  engine.Pass(absl::Seconds(1));
  engine.Commit();
  engine.Commit();
  EXPECT_FALSE(engine.Batch().has_value());
  EXPECT_EQ(engine.engine().Status().records_committed, 2u);
  EXPECT_TRUE(engine.engine().Status().paused);
  engine.Records(0, 4, 3);  // what comes is counted
  EXPECT_EQ(engine.engine().Status().tasks[0].inputs[0].end, Offset(7));
  EXPECT_FALSE(engine.Batch().has_value());
  engine.Do(QueryKey{1, TaskId(0), 0, "k0"});
  engine.AnswerReads();
  EXPECT_TRUE(engine.Take<QueryAnswered>().status.ok());
  engine.Do(SetPaused{false});
  EXPECT_THAT(engine.NeedBatch().offsets, ElementsAre(2, 3, 4, 5, 6));
}

TEST(PauseTest, AProcessorCanStartPausedAndBeDrained) {
  EngineOptions options = EngineDriver::Options();
  options.spec.desired_state = spec::DesiredState::kPaused;
  EngineDriver engine(options);
  engine.Start();
  EXPECT_EQ(engine.engine().Status().tasks[0].state, TaskStatus::State::kRunning);
  engine.Records(0, 0, 2);
  EXPECT_FALSE(engine.Batch().has_value());
  engine.Do(Drain{absl::Seconds(10)});
  engine.Take<CloseTask>();
  engine.Do(TaskClosed{TaskId(0)});
  engine.Do(WorkerDisconnected{1, absl::OkStatus(), true});
  EXPECT_TRUE(engine.Has<Drained>());
}

}  // namespace
}  // namespace millstream::engine::testing
