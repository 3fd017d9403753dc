// The failure policy: attempts, backoff, Stop / Skip / DeadLetter, poison records, misbehaving workers.
#include "common/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sidecar/engine/testing/engine_driver.h"
#include "sidecar/protocol/codec.h"
#include "sidecar/protocol/error_codes.h"

namespace millstream::engine::testing {
namespace {

using What = WriterCall::What;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

protocol::Failure Fails(bool retriable = true) { return {"Handler", "ValueError", "bad amount", retriable}; }

EngineOptions With(spec::FailureAction action) {
  EngineOptions options = EngineDriver::Options();
  options.spec.errors.on_failure = action;
  return options;
}

// Fails the first record of each batch until the engine does something else than trying again.
void FailToTheEnd(EngineDriver& engine) {
  while (std::optional<SentBatch> batch = engine.Batch()) {
    if (batch->offsets[0] != 0) {
      engine.Result(*batch, {});
      return;
    }
    engine.Result(*batch, {.done = 0, .failure = Fails()});
    engine.Pass(absl::Milliseconds(500));
  }
}

TEST(FailurePolicyTest, PrefixRuleTheItemsBeforeTheFailureCount) {
  EngineDriver engine;
  engine.Start();
  engine.Records(0, 0, 4);
  engine.Result(engine.NeedBatch(), {.done = 2, .outputs = {{"k", "a", 0}, {"k", "b", 0}}, .failure = Fails()});
  engine.AnswerCall(What::kBegin);
  EXPECT_EQ(engine.Call(What::kAppend).records.size(), 2u);
  engine.Pass(absl::Milliseconds(100));
  const SentBatch retry = engine.NeedBatch();
  EXPECT_THAT(retry.offsets, ElementsAre(2, 3));
  EXPECT_THAT(retry.attempts, ElementsAre(2, 1));
}

TEST(FailurePolicyTest, BackoffDoublesAndOtherTasksGoOn) {
  EngineDriver engine;
  engine.Start({0, 1});
  engine.Records(0, 0, 1);
  engine.Result(engine.NeedBatch(), {.done = 0, .failure = Fails()});
  EXPECT_FALSE(engine.Batch().has_value());
  engine.Records(1, 0, 1);
  EXPECT_EQ(engine.NeedBatch().task, TaskId(1));
  engine.Wait(absl::Milliseconds(99));
  EXPECT_FALSE(engine.Batch().has_value());
  EXPECT_EQ(engine.engine().NextDeadline(), engine.clock().Monotonic() + absl::Milliseconds(1));
  engine.Wait(absl::Milliseconds(1));
  engine.Result(engine.NeedBatch(), {.done = 0, .failure = Fails()});
  engine.Wait(absl::Milliseconds(199));
  EXPECT_FALSE(engine.Batch().has_value());
  engine.Wait(absl::Milliseconds(1));
  EXPECT_THAT(engine.NeedBatch().attempts, ElementsAre(3));
}

TEST(FailurePolicyTest, StopStopsThisTaskOnlyUntilItIsRestarted) {
  EngineDriver engine(With(spec::FailureAction::kStop));
  engine.Start({0, 1});
  engine.Records(0, 0, 2);
  FailToTheEnd(engine);
  const EngineStatus status = engine.engine().Status();
  EXPECT_EQ(status.tasks[0].state, TaskStatus::State::kStopped);
  EXPECT_THAT(status.tasks[0].error, HasSubstr("in-0 offset 0 (input 'in') failed 3 times"));
  EXPECT_THAT(status.tasks[0].error, HasSubstr("ValueError: bad amount"));
  EXPECT_EQ(status.tasks[1].state, TaskStatus::State::kRunning);
  EXPECT_TRUE(engine.Take<PauseFetch>().paused);
  engine.Records(1, 0, 1);
  EXPECT_EQ(engine.NeedBatch().task, TaskId(1));
  engine.Do(RestartTask{TaskId(0)});
  EXPECT_EQ(engine.Take<SeekFetch>().to, Offset(0)) << "it kept no records";
  engine.Records(0, 0, 2);
  const SentBatch again = engine.NeedBatch();
  EXPECT_THAT(again.offsets, ElementsAre(0, 1));
  EXPECT_THAT(again.attempts, ElementsAre(1, 1));
  EXPECT_FALSE(engine.Take<PauseFetch>().paused);
}

TEST(FailurePolicyTest, WhatIsNotRetriableIsNotRetried) {
  EngineDriver engine(With(spec::FailureAction::kStop));
  engine.Start();
  engine.Records(0, 0, 1);
  engine.Result(engine.NeedBatch(), {.done = 0, .failure = Fails(/*retriable=*/false)});
  EXPECT_EQ(engine.engine().Status().tasks[0].state, TaskStatus::State::kStopped);
}

TEST(FailurePolicyTest, SkipMovesTheOffsetInTheTransaction) {
  EngineDriver engine(With(spec::FailureAction::kSkip));
  engine.Start();
  engine.Records(0, 0, 2);
  FailToTheEnd(engine);
  EXPECT_EQ(engine.engine().Status().skipped, 1u);
  engine.AnswerCall(What::kBegin);
  EXPECT_EQ(engine.Call(What::kSendOffsets).offsets[0].second.next, Offset(1));
}

TEST(FailurePolicyTest, DeadLetterKeepsTheRecordAndSaysWhy) {
  EngineDriver engine(With(spec::FailureAction::kDeadLetter));
  engine.Start({3});
  engine.Records(3, {{Offset(0), 1234, Bytes("k\0y", 3), std::nullopt, {{"h", "1"}, {"h", std::nullopt}}}}, 1);
  FailToTheEnd(engine);
  EXPECT_EQ(engine.engine().Status().dead_letters, 1u);
  engine.AnswerCall(What::kBegin);
  const WriterCall append = engine.Call(What::kAppend);
  ASSERT_EQ(append.records.size(), 1u);
  const log::OutgoingRecord& letter = append.records[0];
  EXPECT_EQ(letter.to, (TopicPartition{"g-dead-letter", Partition(3)}));
  EXPECT_EQ(letter.key, Bytes("k\0y", 3));
  EXPECT_EQ(letter.value, std::nullopt);
  EXPECT_EQ(letter.timestamp_ms, 1234);
  auto header = [](const char* name, const char* value) {
    return Header{std::string("millstream.error.") + name, value};
  };
  EXPECT_THAT(letter.headers, ElementsAre(Header{"h", "1"}, Header{"h", std::nullopt}, header("class", "Handler"),
                                          header("message", "ValueError: bad amount"), header("topic", "in"),
                                          header("partition", "3"), header("offset", "0"), header("timestamp", "1234"),
                                          header("attempts", "3"), header("processor", "default/p")));
  engine.Answer(append);
  engine.AnswerCall(What::kFlush);
  EXPECT_EQ(engine.Call(What::kSendOffsets).offsets[0].second.next, Offset(1));
}

TEST(FailurePolicyTest, ATransactionThatAbortsAfterADeadLetterGivesItAgain) {
  EngineDriver engine(With(spec::FailureAction::kDeadLetter));
  engine.Start();
  engine.Records(0, 0, 1);
  FailToTheEnd(engine);
  engine.AnswerCall(What::kBegin);
  const WriterCall append = engine.Call(What::kAppend), flush = engine.Call(What::kFlush);
  engine.Answer(append, WithRecovery(absl::AbortedError("no"), Recovery::kAbort));
  engine.Answer(flush);
  engine.AnswerCall(What::kAbort);
  engine.Records(0, 0, 1);
  engine.Pass(absl::Milliseconds(20));
  EXPECT_FALSE(engine.Batch().has_value()) << "it had its attempts";
  engine.AnswerCall(What::kBegin);
  EXPECT_EQ(engine.Call(What::kAppend).records[0].to.topic, "g-dead-letter");
}

TEST(FailurePolicyTest, ARecordLargerThanAFrameFails) {
  EngineOptions options = With(spec::FailureAction::kSkip);
  options.frame_cap = 4096;
  options.spec.batch.max_bytes = 1000;
  EngineDriver engine(options);
  engine.Start();
  engine.Records(0, 0, 1, "k", 5000);
  engine.Records(0, 1, 1, "k", 3000);  // larger than a batch: alone
  engine.Records(0, 2, 1, "k", 10);
  EXPECT_EQ(engine.engine().Status().skipped, 1u);
  const SentBatch batch = engine.NeedBatch();
  EXPECT_THAT(batch.offsets, ElementsAre(1));
}

// ---------------------------------------------------------------- limits

TEST(LimitsTest, WhatExceedsThemFailsItsItemWhichIsFoundOneByOne) {
  EngineDriver engine(With(spec::FailureAction::kSkip));
  engine.Start();
  engine.Records(0, 0, 3);
  const std::string large(2000, 'x');
  engine.Result(engine.NeedBatch(), {.ops = {{0, "k", "v"}}, .outputs = {{"k", "fine", 0}, {"k", large, 0}}});
  EXPECT_FALSE(engine.HasCall()) << "nothing of it counts";
  SentBatch single = engine.NeedBatch();
  EXPECT_THAT(single.offsets, ElementsAre(0));
  EXPECT_THAT(single.attempts, ElementsAre(1)) << "nobody is charged before it is known whom";
  engine.Result(single, {.outputs = {{"k", "fine", 0}}});
  for (int attempt = 1; attempt <= 3; ++attempt) {
    single = engine.NeedBatch();
    EXPECT_THAT(single.offsets, ElementsAre(1));
    EXPECT_THAT(single.attempts, ElementsAre(attempt));
    engine.Result(single, {.outputs = {{"k", large, 0}}});
    engine.Pass(absl::Seconds(1));
    engine.Commit();
  }
  EXPECT_EQ(engine.engine().Status().skipped, 1u);
  EXPECT_THAT(engine.engine().Status().last_error,
              HasSubstr("Output OverLimit: a record of 2001 bytes for output 'out', which takes at most 1000"));
  EXPECT_THAT(engine.NeedBatch().offsets, ElementsAre(2));
}

TEST(LimitsTest, PartitionsAndValuesAreChecked) {
  EngineDriver engine(With(spec::FailureAction::kStop));
  engine.Start({0, 1});
  engine.Records(0, 0, 1);
  engine.Result(engine.NeedBatch(), {.outputs = {{"k", "v", 4}}});
  EXPECT_THAT(engine.engine().Status().last_error,
              HasSubstr("partition 4 of output 'out', which has the partitions 0 to 3"));
  engine.Records(1, 0, 1);
  engine.Result(engine.NeedBatch(), {.ops = {{1, "key", std::string(998, 'x')}}});
  EXPECT_THAT(engine.engine().Status().last_error,
              HasSubstr("key and value of 1001 bytes for key 'key' of store 'index', which takes at most 1000"));
  EXPECT_FALSE(engine.Has<DropWorker>());
}

TEST(LimitsTest, ATimeTheTopicRefusesFailsItsItemOnlyIfTheProgramChoseIt) {
  EngineOptions options = With(spec::FailureAction::kStop);
  options.output_timestamps = {{.ahead_ms = {}, .behind_ms = 60'000}};
  EngineDriver engine(options);
  engine.Start();
  engine.Records(0, 0, 1);  // of the time 1000
  const int64_t now_ms = engine.clock().WallMillis();
  engine.Result(engine.NeedBatch(), {.outputs = {{.key = "k", .value = "v", .timestamp_ms = 1000}}});
  engine.Pass(absl::Seconds(1));
  std::vector<int64_t> times;
  while (engine.HasCall()) {
    const WriterCall call = engine.Take<WriterCall>();
    for (const log::OutgoingRecord& record : call.records) times.push_back(record.timestamp_ms);
    engine.Answer(call);
  }
  EXPECT_THAT(times, ElementsAre(now_ms));
  EXPECT_EQ(engine.engine().Status().last_error, "");
  engine.Records(0, 1, 1);
  engine.Result(engine.NeedBatch(), {.outputs = {{.key = "k", .value = "v", .timestamp_ms = 999}}});
  EXPECT_THAT(engine.engine().Status().last_error, HasSubstr("behind the clock; its topic takes at most 60000"));
}

// ---------------------------------------------------------------- poison

class PoisonTest : public ::testing::Test {
 protected:
  void Crash(WorkerId worker) {
    engine_.Do(WorkerDisconnected{worker, absl::UnavailableError("connection reset"), false});
  }
  void Extend(const SentBatch& batch, uint32_t done) {
    engine_.Say(batch.worker, protocol::EncodeFrame(protocol::Extend{batch.seq, done}));
  }

  EngineDriver engine_{With(spec::FailureAction::kSkip)};
};

TEST_F(PoisonTest, AFirstCrashChargesNobodyAndTheRecordsAreTraced) {
  engine_.Start();
  engine_.Records(0, 0, 3);
  EXPECT_FALSE(engine_.NeedBatch().trace);
  Crash(1);
  engine_.Connect(2);
  const SentBatch again = engine_.NeedBatch();
  EXPECT_TRUE(again.trace);
  EXPECT_THAT(again.attempts, ElementsAre(1, 1, 1));
  engine_.Result(again, {});
  engine_.Records(0, 3, 1);
  EXPECT_FALSE(engine_.NeedBatch().trace) << "behind the suspects nothing is traced";
}

TEST_F(PoisonTest, OnlyTheNamedItemIsChargedAndAfterItsAttemptsSkipped) {
  engine_.Start();
  engine_.Records(0, 0, 3);
  engine_.NeedBatch();
  Crash(1);
  for (WorkerId worker = 2; worker <= 4; ++worker) {
    engine_.Connect(worker);
    engine_.Pass(absl::Seconds(1));
    SentBatch batch = engine_.NeedBatch();
    EXPECT_TRUE(batch.trace);
    Extend(batch, 0);
    if (batch.offsets.size() == 1 && batch.offsets[0] == 0) {  // one at a time since the second crash
      engine_.Result(batch, {});
      batch = engine_.NeedBatch();
      Extend(batch, 0);
    }
    const uint32_t poison = batch.offsets[0] == 1 ? 0 : 1;
    Extend(batch, poison);
    EXPECT_EQ(batch.attempts[poison], static_cast<int>(worker) - 1);
    Crash(worker);
  }
  engine_.Connect(9);
  EXPECT_EQ(engine_.engine().Status().skipped, 1u);
  EXPECT_THAT(engine_.NeedBatch().offsets, ElementsAre(2));
}

TEST_F(PoisonTest, ATracedBatchHasItsWorkerForItself) {
  engine_.Start({0, 1});
  engine_.Records(0, 0, 1);
  engine_.NeedBatch();
  Crash(1);
  engine_.Connect(2, 4);
  const SentBatch traced = engine_.NeedBatch();
  EXPECT_TRUE(traced.trace);
  engine_.Records(1, 0, 1);
  EXPECT_FALSE(engine_.Batch().has_value());
  engine_.Result(traced, {});
  EXPECT_EQ(engine_.NeedBatch().task, TaskId(1));
}

TEST_F(PoisonTest, GoodbyeChargesNobody) {
  engine_.Start();
  engine_.Records(0, 0, 1);
  engine_.NeedBatch();
  engine_.Do(WorkerDisconnected{1, absl::OkStatus(), /*orderly=*/true});
  engine_.Connect(2);
  const SentBatch again = engine_.NeedBatch();
  EXPECT_FALSE(again.trace);
  EXPECT_THAT(again.attempts, ElementsAre(1));
}

TEST_F(PoisonTest, AHangIsACrash) {
  engine_.Start();
  engine_.Records(0, 0, 2);
  engine_.NeedBatch();
  engine_.Pass(absl::Seconds(60));
  const DropWorker drop = engine_.Take<DropWorker>();
  EXPECT_EQ(drop.code, protocol::kDeadlineExceeded);
  engine_.Do(WorkerDisconnected{1, absl::OkStatus(), false});
  engine_.Connect(2);
  const SentBatch traced = engine_.NeedBatch();
  EXPECT_TRUE(traced.trace);
  Extend(traced, 0);
  engine_.Pass(absl::Seconds(59));
  Extend(traced, 1);  // progress: the deadline starts again
  engine_.Pass(absl::Seconds(59));
  EXPECT_FALSE(engine_.Has<DropWorker>());
  Extend(traced, 1);  // none
  engine_.Pass(absl::Seconds(1));
  EXPECT_TRUE(engine_.Has<DropWorker>());
  EXPECT_THAT(engine_.engine().Status().last_error, HasSubstr("offset 1"));
}

// ---------------------------------------------------------------- wrong frames

class WrongFrameTest : public ::testing::Test {
 protected:
  void SetUp() override {
    engine_.Start();
    engine_.Records(0, 0, 2);
    batch_ = engine_.NeedBatch();
  }
  // The worker is cut off with that code, and nothing of its batch counts.
  void ExpectCutOff(const char* code) {
    ASSERT_TRUE(engine_.Has<DropWorker>());
    EXPECT_EQ(engine_.Take<DropWorker>().code, code);
    engine_.Result(batch_, {.outputs = {{"k", "too late", 0}}});
    EXPECT_FALSE(engine_.HasCall());
    engine_.Do(WorkerDisconnected{1, absl::OkStatus(), false});
    engine_.Connect(2);
    EXPECT_THAT(engine_.NeedBatch().offsets, ElementsAre(0, 1));
  }
  EngineDriver engine_;
  SentBatch batch_;
};

TEST_F(WrongFrameTest, UnknownSeq) {
  SentBatch wrong = batch_;
  ++wrong.seq;
  engine_.Result(wrong, {});
  ExpectCutOff(protocol::kUnknownBatch);
}
TEST_F(WrongFrameTest, SeqOfAnotherWorker) {
  engine_.Connect(7);
  SentBatch wrong = batch_;
  wrong.worker = 7;
  engine_.Result(wrong, {});
  EXPECT_EQ(engine_.Take<DropWorker>().worker, 7u);
  engine_.Result(batch_, {});
  EXPECT_FALSE(engine_.Has<DropWorker>()) << "the other one is not to blame";
}
TEST_F(WrongFrameTest, UnknownStore) {
  engine_.Result(batch_, {.ops = {{0, "a", "1"}, {2, "b", "2"}}});
  ExpectCutOff(protocol::kUnknownStore);
}
TEST_F(WrongFrameTest, UnknownOutput) {
  protocol::Result result;
  result.seq = batch_.seq;
  result.done = 2;
  result.outputs.push_back({.output = 1, .key = {}, .value = {}, .timestamp_ms = {}, .headers = {}, .partition = {}});
  engine_.Say(1, protocol::EncodeFrame(result));
  ExpectCutOff(protocol::kUnknownOutput);
}
TEST_F(WrongFrameTest, MoreItemsThanThereAre) {
  engine_.Result(batch_, {.done = 3});
  ExpectCutOff(protocol::kBadFrame);
}
TEST_F(WrongFrameTest, FailureOfNoItem) {
  engine_.Result(batch_, {.done = 2, .failure = Fails()});
  ExpectCutOff(protocol::kBadFrame);
}
TEST_F(WrongFrameTest, EffectsOfNoItem) {
  engine_.Result(batch_, {.done = 0, .ops = {{0, "a", "1"}}, .failure = Fails()});
  ExpectCutOff(protocol::kBadFrame);
}
TEST_F(WrongFrameTest, ExtendBeyondTheBatch) {
  engine_.Say(1, protocol::EncodeFrame(protocol::Extend{batch_.seq, 3}));
  ExpectCutOff(protocol::kBadFrame);
}
TEST_F(WrongFrameTest, GetOfAnUnknownStore) {
  protocol::Get get;
  get.seq = batch_.seq;
  get.store = 2;
  engine_.Say(1, protocol::EncodeFrame(get));
  ExpectCutOff(protocol::kUnknownStore);
}
TEST_F(WrongFrameTest, NoProgressForEver) {
  for (int i = 0; i < 99; ++i) {
    engine_.Result(batch_, {.done = 0});
    batch_ = engine_.NeedBatch();
  }
  engine_.Result(batch_, {.done = 0});
  EXPECT_TRUE(engine_.Has<DropWorker>());
}

}  // namespace
}  // namespace millstream::engine::testing
