// BEGIN, FINALIZE and COMMITTED.
#include "common/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sidecar/engine/testing/engine_driver.h"
#include "sidecar/engine/welcome.h"
#include "sidecar/protocol/codec.h"
#include "sidecar/protocol/error_codes.h"
#include "sidecar/protocol/frame.h"

namespace millstream::engine::testing {
namespace {

using What = WriterCall::What;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class HooksTest : public ::testing::Test {
 protected:
  void Start(std::vector<std::string> capabilities, std::vector<int> tasks = {0}) {
    engine_.Token(1);
    while (engine_.HasCall()) engine_.AnswerCall(What::kCreate);
    Connect(1, std::move(capabilities));
    for (const int task : tasks) engine_.Open(task, 0);
    while (engine_.Has<StartFetch>()) engine_.Take<StartFetch>();
  }
  void Connect(WorkerId id, std::vector<std::string> capabilities) {
    WorkerConnected connected;
    connected.worker = id;
    connected.hello.parallel = 4;
    connected.hello.capabilities = std::move(capabilities);
    engine_.Do(std::move(connected));
  }

  // The next message of that kind, which must be there; reads of state are answered before.
  template <typename Message>
  std::optional<Message> Next() {
    engine_.AnswerReads();
    while (engine_.Has<SendToWorker>()) {
      const std::string frame = engine_.Take<SendToWorker>().frame;
      const auto message = protocol::DecodeSidecarMessage(std::string_view(frame).substr(protocol::kFrameHeaderBytes));
      EXPECT_TRUE(message.ok()) << message.status();
      if (const auto* found = std::get_if<Message>(&*message)) return *found;
      EXPECT_FALSE(std::holds_alternative<protocol::Batch>(*message)) << "a batch came first";
    }
    return std::nullopt;
  }
  void AnswerHook(uint64_t seq, const Reply& reply = {}) {
    engine_.Result(AsBatch(seq),
                   Reply{.done = 0, .ops = reply.ops, .outputs = reply.outputs, .failure = reply.failure});
  }
  // A hook looks like a batch without records.
  static SentBatch AsBatch(uint64_t seq) {
    SentBatch batch;
    batch.worker = 1;
    batch.seq = seq;
    return batch;
  }

  EngineDriver engine_;
};

TEST_F(HooksTest, WelcomeTellsWhichAreUsed) {
  protocol::Hello hello;
  hello.capabilities = {"committed", "begin", "telepathy"};
  EXPECT_THAT(WelcomeFor(EngineDriver::Options(), hello)->capabilities, ElementsAre("begin", "committed"));
}

TEST_F(HooksTest, ATransactionHoldsTheBatchesBetweenBeginAndFinalize) {
  Start({"begin", "finalize", "committed"});
  engine_.Records(0, 0, 2);
  const auto begin = Next<protocol::BeginTransaction>();
  ASSERT_TRUE(begin.has_value());
  EXPECT_EQ(begin->task, TaskId(0));
  AnswerHook(begin->seq);
  const SentBatch batch = engine_.NeedBatch();
  engine_.Pass(absl::Seconds(1));
  EXPECT_FALSE(engine_.HasCall()) << "it is not closed while a batch is out";
  engine_.Result(batch, {});
  const auto finalize = Next<protocol::FinalizeTransaction>();
  ASSERT_TRUE(finalize.has_value());
  engine_.Records(0, 2, 2);
  EXPECT_FALSE(engine_.Batch().has_value()) << "the next batch belongs to the next transaction";
  AnswerHook(finalize->seq, {.ops = {{0, "sum", "2"}}, .outputs = {{"k", "gathered", 0}}});
  engine_.AnswerCall(What::kBegin);
  const WriterCall output = engine_.Call(What::kAppend), changelog = engine_.Call(What::kAppend);
  EXPECT_EQ(output.records.at(0).value, "gathered");
  EXPECT_EQ(changelog.records.at(0).key, "sum");
  engine_.Answer(output);
  engine_.Answer(changelog);
  engine_.AnswerCall(What::kFlush);
  const WriterCall offsets = engine_.Call(What::kSendOffsets);
  EXPECT_EQ(offsets.offsets[0].second.next, Offset(2));
  engine_.Answer(offsets);
  const auto next = Next<protocol::BeginTransaction>();
  ASSERT_TRUE(next.has_value());
  engine_.AnswerCall(What::kCommit);
  const auto committed = Next<protocol::Committed>();
  ASSERT_TRUE(committed.has_value());
  EXPECT_THAT(committed->tasks, ElementsAre(std::pair(TaskId(0), batch.seq)));
}

TEST_F(HooksTest, WithoutCapabilitiesThereAreNone) {
  Start({});
  engine_.Records(0, 0, 1);
  engine_.Result(engine_.NeedBatch(), {});
  EXPECT_FALSE(Next<protocol::FinalizeTransaction>().has_value());
  EXPECT_TRUE(engine_.HasCall());
}

TEST_F(HooksTest, AFailedHookAbortsAndEverythingComesAgain) {
  Start({"finalize"});
  engine_.Records(0, 0, 1);
  engine_.Result(engine_.NeedBatch(), {});
  const auto finalize = Next<protocol::FinalizeTransaction>();
  ASSERT_TRUE(finalize.has_value());
  AnswerHook(finalize->seq, {.failure = protocol::Failure{"Handler", "ValueError", "not today", true}});
  EXPECT_THAT(engine_.engine().Status().last_error, HasSubstr("FINALIZE failed"));
  EXPECT_THAT(engine_.engine().Status().last_error, HasSubstr("not today"));
  EXPECT_TRUE(Next<protocol::Close>().has_value()) << "what was gathered is dropped";
  EXPECT_EQ(engine_.Take<SeekFetch>().to, Offset(0));
  engine_.Records(0, 0, 1);
  engine_.Pass(absl::Seconds(1));
  engine_.Result(engine_.NeedBatch(), {});
  const auto again = Next<protocol::FinalizeTransaction>();
  ASSERT_TRUE(again.has_value());
  AnswerHook(again->seq);
  engine_.Commit();
  engine_.Commit();
  EXPECT_EQ(engine_.engine().Status().records_committed, 1u);
}

TEST_F(HooksTest, WhatAWorkerHadGatheredEndsWithIt) {
  Start({"finalize"}, {0, 1});
  engine_.Records(0, 0, 1);
  engine_.Records(1, 0, 1);
  const SentBatch first = engine_.NeedBatch(), second = engine_.NeedBatch();
  engine_.Result(first, {.outputs = {{"k", "v", 0}}});
  engine_.Do(WorkerDisconnected{1, absl::UnavailableError("reset"), false});
  EXPECT_EQ(engine_.engine().Status().records_committed, 0u);
  engine_.Pass(absl::Seconds(1));
  engine_.Commit();
  EXPECT_EQ(engine_.engine().Status().transactions, 0u) << "the first batch was answered, but not what it gathered";
  Connect(2, {});
  engine_.Records(0, 0, 1);
  EXPECT_THAT(engine_.NeedBatch().offsets, ElementsAre(0));
}

TEST_F(HooksTest, StateCanBeReadInAHookAndWhatIsTooLargeFailsIt) {
  Start({"finalize"});
  engine_.Records(0, 0, 1);
  engine_.Result(engine_.NeedBatch(), {.ops = {{0, "k0", "7"}}});
  const auto finalize = Next<protocol::FinalizeTransaction>();
  ASSERT_TRUE(finalize.has_value());
  protocol::Get get{.seq = finalize->seq, .rid = 1, .store = 0, .keys = {"k0"}, .new_ops = {}};
  engine_.Say(1, protocol::EncodeFrame(get));
  const auto values = Next<protocol::Values>();
  ASSERT_TRUE(values.has_value());
  EXPECT_THAT(values->values, ElementsAre(MaybeBytes("7")));
  AnswerHook(finalize->seq, {.outputs = {{"k", std::string(2000, 'x'), 0}}});
  EXPECT_THAT(engine_.engine().Status().last_error, HasSubstr("takes at most 1000"));
}

TEST_F(HooksTest, AHookHasTheDeadlineOfABatchAndNoItems) {
  Start({"begin"});
  engine_.Records(0, 0, 1);
  const auto begin = Next<protocol::BeginTransaction>();
  ASSERT_TRUE(begin.has_value());
  engine_.Pass(absl::Seconds(61));
  EXPECT_EQ(engine_.Take<DropWorker>().code, protocol::kDeadlineExceeded);
}

TEST_F(HooksTest, AResultOfItemsForAHookIsWrong) {
  Start({"begin"});
  engine_.Records(0, 0, 1);
  const auto begin = Next<protocol::BeginTransaction>();
  ASSERT_TRUE(begin.has_value());
  engine_.Result(AsBatch(begin->seq), {.done = 1});
  EXPECT_EQ(engine_.Take<DropWorker>().code, protocol::kBadFrame);
}

TEST_F(HooksTest, ATaskIsGivenUpBehindItsFinalize) {
  Start({"finalize"});
  engine_.Records(0, 0, 1);
  const SentBatch batch = engine_.NeedBatch();
  engine_.Do(TaskRevoked{TaskId(0)});
  engine_.Result(batch, {});
  const auto finalize = Next<protocol::FinalizeTransaction>();
  ASSERT_TRUE(finalize.has_value());
  EXPECT_FALSE(engine_.Has<CloseTask>());
  AnswerHook(finalize->seq);
  engine_.Commit();
  engine_.AnswerApplies();
  EXPECT_EQ(engine_.Take<CloseTask>().task, TaskId(0));
  EXPECT_EQ(engine_.engine().Status().records_committed, 1u);
}

}  // namespace
}  // namespace millstream::engine::testing
