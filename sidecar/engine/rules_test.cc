// The rules R1 to R10 of the engine, each by name, one step at a time.
#include "common/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sidecar/engine/testing/engine_driver.h"

namespace millstream::engine::testing {
namespace {

using What = WriterCall::What;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const TopicPartition kTotals0{"g-totals-changelog", Partition(0)};

// ---------------------------------------------------------------- R1

TEST(R1Together, StartOffsetIsCommittedBeforeTheFirstBatch) {
  EngineDriver engine;
  engine.Token(1);
  engine.Commit();
  engine.Connect(1);
  engine.Open(0, 40, /*committed=*/false);
  EXPECT_FALSE(engine.Has<StartFetch>());
  engine.AnswerCall(What::kBegin);
  const WriterCall offsets = engine.Call(What::kSendOffsets);
  ASSERT_EQ(offsets.offsets.size(), 1u);
  EXPECT_EQ(offsets.offsets[0].second.next, Offset(40));
  engine.Answer(offsets);
  EXPECT_FALSE(engine.Has<StartFetch>());
  engine.AnswerCall(What::kCommit);
  EXPECT_EQ(engine.Take<StartFetch>().from, Offset(40));
}

TEST(R1Together, EffectsOfAllTasksAndTheirOffsetsAreOneTransaction) {
  EngineDriver engine;
  engine.Start({0, 1, 2});
  engine.Records(0, 0, 1);
  engine.Records(1, 0, 1);
  const SentBatch first = engine.NeedBatch(), second = engine.NeedBatch();
  engine.Result(first, {.ops = {{0, "k0", "1"}}, .outputs = {{"k0", "a", 0}}});
  engine.Result(second, {.outputs = {{"k0", "b", 0}}});
  const WriterCall begin = engine.Call(What::kBegin);
  engine.Answer(begin);
  std::vector<std::string> appended;
  while (true) {
    const WriterCall call = engine.Take<WriterCall>();
    EXPECT_EQ(call.writer, begin.writer);
    for (const auto& record : call.records) appended.push_back(record.to.topic);
    engine.Answer(call);
    if (call.what == What::kFlush) break;
  }
  EXPECT_THAT(appended, ElementsAre("out", "out", "g-totals-changelog"));
  const WriterCall offsets = engine.Call(What::kSendOffsets);
  ASSERT_EQ(offsets.offsets.size(), 2u);  // task 2 has no effects
  EXPECT_EQ(offsets.offsets[0].first, (TopicPartition{"in", Partition(0)}));
  EXPECT_EQ(offsets.offsets[1].second.next, Offset(1));
}

// ---------------------------------------------------------------- R2

TEST(R2Staged, OneChangelogRecordPerKeyAndTransactionTheLastValue) {
  EngineDriver engine;
  engine.Start();
  engine.Records(0, 0, 3, "k");
  engine.Result(
      engine.NeedBatch(),
      {.ops = {{0, "k", "1"}, {0, "k", "2"}, {0, "other", "x"}, {0, "k", "333"}, {0, "other", std::nullopt}}});
  engine.AnswerCall(What::kBegin);
  const WriterCall append = engine.Call(What::kAppend);
  ASSERT_EQ(append.records.size(), 2u);
  for (const auto& record : append.records) {
    EXPECT_EQ(record.value, record.key == "k" ? MaybeBytes("333") : MaybeBytes());
    EXPECT_EQ(record.timestamp_ms, 1002);  // of the record that wrote it
  }
  EXPECT_FALSE(engine.Has<ApplyState>());
}

TEST(R2Staged, ABatchReadsWhatIsStagedBeforeItIsCommitted) {
  EngineDriver engine;
  engine.Start();
  engine.Records(0, 0, 1, "k");
  engine.Result(engine.NeedBatch(), {.ops = {{0, "k", "staged"}}});
  engine.Records(0, 1, 1, "k");
  EXPECT_FALSE(engine.Has<ReadKeys>());
  EXPECT_EQ(engine.NeedBatch().state[0][0], "staged");
}

// ---------------------------------------------------------------- R3

TEST(R3Order, NextTransactionAppendsOnlyWhenThisOneIsFlushed) {
  EngineDriver engine;
  engine.Start();
  engine.Records(0, 0, 1);
  engine.Result(engine.NeedBatch(), {.outputs = {{"k", "n", 0}}});
  const WriterCall begin = engine.Call(What::kBegin);
  engine.Answer(begin);
  engine.AnswerCall(What::kAppend);
  const WriterCall flush = engine.Call(What::kFlush);
  engine.Records(0, 1, 1);
  engine.Result(engine.NeedBatch(), {.outputs = {{"k", "n+1", 0}}});
  EXPECT_FALSE(engine.HasCall()) << "N is not flushed";
  engine.Answer(flush);
  const WriterCall offsets = engine.Call(What::kSendOffsets);
  const WriterCall next_begin = engine.Call(What::kBegin);
  EXPECT_NE(next_begin.writer, begin.writer) << "the writers alternate";
  const WriterCall next_append = engine.Call(What::kAppend);
  EXPECT_EQ(next_append.records[0].value, "n+1");
  engine.Answer(next_begin);
  engine.Answer(next_append);
  engine.Wait(absl::Seconds(1));
  EXPECT_FALSE(engine.HasCall()) << "N+1 closes only when the outcome of N is known";
  engine.Answer(offsets);
  engine.AnswerCall(What::kCommit);
  EXPECT_EQ(engine.Take<WriterCall>().what, What::kFlush);
}

TEST(R3Order, AbortOfThisOneAbortsTheNext) {
  EngineDriver engine;
  engine.Start();
  engine.Records(0, 0, 1);
  engine.Result(engine.NeedBatch(), {.outputs = {{"k", "n", 0}}});
  engine.AnswerCall(What::kBegin);
  engine.AnswerCall(What::kAppend);
  const WriterCall flush = engine.Call(What::kFlush);
  engine.Answer(flush);
  const WriterCall offsets = engine.Call(What::kSendOffsets);
  engine.Records(0, 1, 2);
  engine.Result(engine.NeedBatch(), {.outputs = {{"k", "n+1", 0}}});
  const WriterCall next_begin = engine.Call(What::kBegin);
  const WriterCall next_append = engine.Call(What::kAppend);
  engine.Answer(next_begin);
  engine.Answer(offsets, WithRecovery(absl::AbortedError("no"), Recovery::kAbort));
  engine.Answer(next_append);
  const WriterCall abort_one = engine.Call(What::kAbort), abort_other = engine.Call(What::kAbort);
  EXPECT_NE(abort_one.writer, abort_other.writer);
  engine.Answer(abort_one);
  EXPECT_FALSE(engine.Has<SeekFetch>());
  engine.Answer(abort_other);
  EXPECT_EQ(engine.Take<SeekFetch>().to, Offset(0));
  EXPECT_EQ(engine.engine().Status().aborted, 2u);
}

// ---------------------------------------------------------------- R4

TEST(R4DiskAfterCommit, OneApplyPerTaskForSeveralTransactionsWithTheAcknowledgedPositions) {
  EngineDriver engine;
  engine.Start();
  for (int i = 0; i < 3; ++i) {
    engine.Records(0, i, 1, "k");
    engine.Result(engine.NeedBatch(), {.ops = {{0, "k", std::to_string(i)}}});
    engine.Commit();
    engine.Wait(absl::Milliseconds(20));
    engine.Commit();
    EXPECT_FALSE(engine.Has<ApplyState>());
  }
  engine.Pass(absl::Seconds(1));
  const ApplyState apply = engine.Take<ApplyState>();
  ASSERT_EQ(apply.writes.size(), 1u);
  EXPECT_EQ(apply.writes[0].value, "2");
  EXPECT_EQ(apply.positions.changelog.at(0), Offset(103));  // 100, 101, 102 were acknowledged
  EXPECT_FALSE(apply.positions.changelog.contains(1)) << "nothing was written to the changelog of index";
  EXPECT_EQ(apply.positions.inputs.at("in"), Offset(3));
  EXPECT_FALSE(engine.Has<ApplyState>());
}

TEST(R4DiskAfterCommit, NothingIsAppliedBeforeTheCommitIsKnown) {
  EngineDriver engine;
  engine.Start();
  engine.Records(0, 0, 1, "k");
  engine.Result(engine.NeedBatch(), {.ops = {{0, "k", "1"}}});
  engine.AnswerCall(What::kBegin);
  engine.AnswerCall(What::kAppend);
  engine.Answer(engine.Call(What::kFlush), absl::OkStatus(), {{kTotals0, Offset(5)}});
  engine.AnswerCall(What::kSendOffsets);
  engine.Pass(absl::Seconds(3));
  EXPECT_FALSE(engine.Has<ApplyState>());
  engine.AnswerCall(What::kCommit);
  engine.Pass(absl::Seconds(1));
  EXPECT_EQ(engine.Take<ApplyState>().positions.changelog.at(0), Offset(6));
}

TEST(R4DiskAfterCommit, ADiskReadFromBeforeAnApplyDoesNotHideWhatWasApplied) {
  EngineDriver engine;
  engine.Start({0}, 0, 1);
  engine.Records(0, 0, 1, "k");
  engine.Result(engine.NeedBatch(), {.ops = {{0, "k", "new"}}});
  engine.Commit();
  engine.Pass(absl::Seconds(1));
  engine.Records(0, 1, 1, "k");  // its batch is prepared while the apply runs: the layer knows k, the disk is not asked
  EXPECT_FALSE(engine.Has<ReadKeys>());
  engine.AnswerApplies();
  EXPECT_EQ(engine.NeedBatch().state[0][0], "new");
}

TEST(R4DiskAfterCommit, AFullDiskIsTriedAgainAndTheStateStaysReadable) {
  EngineDriver engine;
  engine.Start();
  engine.Records(0, 0, 1, "k");
  engine.Result(engine.NeedBatch(), {.ops = {{0, "k", "v"}}});
  engine.Commit();
  engine.Pass(absl::Seconds(1));
  engine.Do(StateApplied{engine.Take<ApplyState>().apply, absl::ResourceExhaustedError("disk full")});
  EXPECT_FALSE(engine.Has<ApplyState>());
  engine.Records(0, 1, 1, "k");
  EXPECT_EQ(engine.NeedBatch().state[0][0], "v");
  engine.Pass(absl::Seconds(1));
  const ApplyState again = engine.Take<ApplyState>();
  EXPECT_EQ(again.writes[0].value, "v");
  EXPECT_EQ(again.positions.changelog.at(0), Offset(101));
  EXPECT_THAT(engine.engine().Status().last_error, HasSubstr("disk full"));
}

// ---------------------------------------------------------------- R5

TEST(R5Closing, ALoneRecordAfterAQuietTimeCommitsAtOnce) {
  EngineDriver engine;
  engine.Start();
  engine.Wait(absl::Seconds(5));
  engine.Records(0, 0, 1);
  engine.Result(engine.NeedBatch(), {.outputs = {{"k", "v", 0}}});
  engine.AnswerCall(What::kBegin);
  engine.AnswerCall(What::kAppend);
  EXPECT_EQ(engine.Take<WriterCall>().what, What::kFlush);
}

TEST(R5Closing, MinDurationIsTheDistanceBetweenStarts) {
  EngineDriver engine;
  engine.Start();
  engine.Records(0, 0, 1);
  engine.Result(engine.NeedBatch(), {.outputs = {{"k", "v", 0}}});
  engine.Commit();
  engine.Records(0, 1, 1);
  engine.Result(engine.NeedBatch(), {});
  EXPECT_FALSE(engine.HasCall());
  engine.Wait(absl::Milliseconds(9));
  EXPECT_FALSE(engine.HasCall());
  EXPECT_EQ(engine.engine().NextDeadline(), engine.clock().Monotonic() + absl::Milliseconds(1));
  engine.Wait(absl::Milliseconds(1));
  EXPECT_TRUE(engine.HasCall());
}

TEST(R5Closing, MinDurationGrowsWithTheGroup) {
  EngineOptions options = EngineDriver::Options();
  options.spec.transaction.max_per_second = 100;
  EngineDriver engine(options);
  engine.Start();
  engine.Do(TokenChanged{{"g", "m", "", Generation(1)}, 5});  // five members, 100 a second together: 50 ms each
  engine.Records(0, 0, 1);
  engine.Result(engine.NeedBatch(), {});
  engine.Commit();
  engine.Records(0, 1, 1);
  engine.Result(engine.NeedBatch(), {});
  engine.Wait(absl::Milliseconds(49));
  EXPECT_FALSE(engine.HasCall());
  engine.Wait(absl::Milliseconds(1));
  EXPECT_TRUE(engine.HasCall());
}

TEST(R5Closing, MaxDurationClosesWithoutWaitingForTheBatchInFlight) {
  EngineDriver engine;
  engine.Start();
  engine.Records(0, 0, 1);
  engine.Result(engine.NeedBatch(), {.outputs = {{"k", "first", 0}}});
  engine.Commit();
  engine.Records(0, 1, 1);
  const SentBatch second = engine.NeedBatch();
  engine.Records(0, 2, 1);
  engine.Result(second, {.outputs = {{"k", "second", 0}}});
  const SentBatch slow = engine.NeedBatch();
  engine.AnswerCall(What::kBegin);
  engine.AnswerCall(What::kAppend);
  engine.Wait(absl::Milliseconds(99));
  EXPECT_FALSE(engine.HasCall());
  engine.Wait(absl::Milliseconds(1));
  engine.AnswerCall(What::kFlush);
  const WriterCall offsets = engine.Call(What::kSendOffsets);
  EXPECT_EQ(offsets.offsets[0].second.next, Offset(2));
  engine.Result(slow, {.outputs = {{"k", "third", 0}}});  // joins the transaction that is open now
  const WriterCall begin = engine.Call(What::kBegin);
  EXPECT_NE(begin.writer, offsets.writer);
}

TEST(R5Closing, MaxBytesClosesAndHoldsBatchesBack) {
  EngineOptions options = EngineDriver::Options();
  options.spec.transaction.max_bytes = 500;
  EngineDriver engine(options);
  engine.Start({0, 1});
  engine.Records(0, 0, 1);
  engine.Records(1, 0, 1);
  const SentBatch first = engine.NeedBatch();
  const SentBatch other = engine.NeedBatch();
  engine.Result(first, {.outputs = {{"k", std::string(600, 'x'), 0}}});
  engine.AnswerCall(What::kBegin);
  engine.AnswerCall(What::kAppend);
  const WriterCall flush = engine.Call(What::kFlush);  // closed although task 1 has a batch in flight
  engine.Result(other, {.outputs = {{"k", std::string(600, 'x'), 0}}});
  engine.Records(0, 1, 1);
  EXPECT_FALSE(engine.Batch().has_value()) << "the open transaction is full";
  engine.Answer(flush);
  engine.Commit();
  EXPECT_TRUE(engine.Batch().has_value());
}

// ---------------------------------------------------------------- R6

class R6KnownOutcomes : public ::testing::Test {
 protected:
  // Up to a commit of record 0 whose outcome is unknown, with a batch of record 1 staged in N+1.
  void LoseCommit() {
    engine_.Start();
    engine_.Records(0, 0, 1, "k");
    engine_.Result(engine_.NeedBatch(), {.ops = {{0, "k", "new"}}});
    engine_.AnswerCall(What::kBegin);
    engine_.AnswerCall(What::kAppend);
    engine_.Answer(engine_.Call(What::kFlush), absl::OkStatus(), {{kTotals0, Offset(5)}});
    const WriterCall offsets = engine_.Call(What::kSendOffsets);
    metadata_ = offsets.offsets[0].second.metadata;
    writer_ = offsets.writer;
    engine_.Answer(offsets);
    engine_.Records(0, 1, 1, "k");
    engine_.Result(engine_.NeedBatch(), {.outputs = {{"k", "n+1", 0}}});
    commit_ = engine_.Call(What::kCommit);
    next_begin_ = engine_.Call(What::kBegin);
    engine_.Answer(next_begin_);
    engine_.AnswerCall(What::kAppend);
    engine_.Answer(commit_, WithUnknownOutcome(absl::DeadlineExceededError("no answer")));
  }
  // N+1 is aborted, the writer of N re-created; returns the question about N.
  ResolveOutcome Settle() {
    WriterCall one = engine_.Take<WriterCall>(), other = engine_.Take<WriterCall>();
    if (one.what == What::kAbort) std::swap(one, other);
    EXPECT_EQ(one.what, What::kCreate);
    EXPECT_EQ(one.writer, writer_);
    EXPECT_EQ(other.what, What::kAbort);
    EXPECT_EQ(other.writer, next_begin_.writer);
    engine_.Answer(other);
    EXPECT_FALSE(engine_.Has<ResolveOutcome>()) << "only when the writer is fenced by its successor";
    engine_.Answer(one);
    return engine_.Take<ResolveOutcome>();
  }
  void Outcome(const ResolveOutcome& ask, int64_t next, std::string metadata) {
    engine_.Do(OutcomeRead{ask.call, absl::OkStatus(), {{{"in", Partition(0)}, {Offset(next), std::move(metadata)}}}});
  }

  EngineDriver engine_;
  std::string metadata_;
  WriterName writer_ = WriterName::kA;
  WriterCall commit_, next_begin_;
};

TEST_F(R6KnownOutcomes, TheTagSaysWhoCommitted) {
  LoseCommit();
  EXPECT_THAT(metadata_, ::testing::AnyOf(R"({"v":1,"owner":"local/default/p","tag":"g-0-0-a/77/1"})",
                                          R"({"v":1,"owner":"local/default/p","tag":"g-0-0-b/77/1"})"));
}

TEST_F(R6KnownOutcomes, ItHappened) {
  LoseCommit();
  Outcome(Settle(), 1, metadata_);
  EXPECT_EQ(engine_.Take<SeekFetch>().to, Offset(1));
  EXPECT_EQ(engine_.engine().Status().records_committed, 1u);
  engine_.Records(0, 1, 1, "k");
  EXPECT_EQ(engine_.NeedBatch().state[0][0], "new");
}

TEST_F(R6KnownOutcomes, ItDidNotHappen) {
  LoseCommit();
  Outcome(Settle(), 0, "earlier");
  EXPECT_EQ(engine_.Take<SeekFetch>().to, Offset(0));
  engine_.Records(0, 0, 1, "k");
  EXPECT_EQ(engine_.NeedBatch().state[0][0], "-");
  EXPECT_EQ(engine_.engine().Status().records_committed, 0u);
}

TEST_F(R6KnownOutcomes, SomebodyElseCommittedSince) {
  LoseCommit();
  Outcome(Settle(), 9, "another's");
  EXPECT_TRUE(engine_.Has<CloseTask>());
  EXPECT_FALSE(engine_.Has<ApplyState>());
  engine_.Do(TaskClosed{TaskId(0)});
  engine_.Pass(absl::Seconds(1));
  EXPECT_TRUE(engine_.Has<OpenTask>()) << "restored from the stamp";
}

TEST_F(R6KnownOutcomes, TheQuestionIsRepeatedUntilThereIsAnAnswer) {
  LoseCommit();
  const ResolveOutcome ask = Settle();
  engine_.Do(OutcomeRead{ask.call, absl::UnavailableError("coordinator moves"), {}});
  EXPECT_FALSE(engine_.Has<ResolveOutcome>());
  engine_.Wait(absl::Milliseconds(100));
  Outcome(engine_.Take<ResolveOutcome>(), 1, metadata_);
  EXPECT_EQ(engine_.engine().Status().records_committed, 1u);
}

TEST(R6Writers, AFatalErrorBeforeTheCommitIsAnAbortAndCostsNoRestart) {
  EngineDriver engine;
  engine.Start();
  engine.Records(0, 0, 1);
  engine.Result(engine.NeedBatch(), {.outputs = {{"k", "v", 0}}});
  engine.AnswerCall(What::kBegin);
  const WriterCall append = engine.Call(What::kAppend), flush = engine.Call(What::kFlush);
  engine.Answer(append,
                WithRecovery(absl::FailedPreconditionError("fenced: transaction timed out"), Recovery::kRecreate));
  engine.Answer(flush, WithRecovery(absl::FailedPreconditionError("fenced"), Recovery::kRecreate));
  engine.AnswerCall(What::kCreate, absl::UnavailableError("no broker"));
  EXPECT_FALSE(engine.HasCall());
  engine.Wait(absl::Milliseconds(100));
  engine.AnswerCall(What::kCreate);
  EXPECT_FALSE(engine.Has<ResolveOutcome>()) << "nothing could have committed";
  EXPECT_EQ(engine.Take<SeekFetch>().to, Offset(0));
}

TEST(R6Writers, ACallToRepeatIsRepeated) {
  EngineDriver engine;
  engine.Start();
  engine.Records(0, 0, 1);
  engine.Result(engine.NeedBatch(), {.outputs = {{"k", "v", 0}}});
  engine.AnswerCall(What::kBegin);
  engine.AnswerCall(What::kAppend);
  engine.AnswerCall(What::kFlush);
  engine.AnswerCall(What::kSendOffsets);
  engine.AnswerCall(What::kCommit, WithRecovery(absl::UnavailableError("later"), Recovery::kRetry));
  EXPECT_FALSE(engine.HasCall());
  engine.Wait(absl::Milliseconds(20));
  engine.AnswerCall(What::kCommit);
  EXPECT_EQ(engine.engine().Status().records_committed, 1u);
}

// ---------------------------------------------------------------- R7

TEST(R7Token, ItIsTheOneInForceAtBegin) {
  EngineDriver engine;
  engine.Start();
  engine.Records(0, 0, 1);
  engine.Result(engine.NeedBatch(), {.outputs = {{"k", "v", 0}}});
  engine.AnswerCall(What::kBegin);
  engine.Token(2);
  engine.AnswerCall(What::kAppend);
  engine.AnswerCall(What::kFlush);
  EXPECT_EQ(engine.Call(What::kSendOffsets).token.generation, Generation(1));
}

TEST(R7Token, DuringARebalanceWhatIsBegunFinishesAndNothingBegins) {
  EngineDriver engine;
  engine.Start();
  engine.Records(0, 0, 1);
  const SentBatch batch = engine.NeedBatch();
  engine.Result(batch, {.outputs = {{"k", "v", 0}}});
  engine.AnswerCall(What::kBegin);
  engine.Do(RebalanceStarted{});
  EXPECT_FALSE(engine.Has<RebalanceReady>());
  engine.Commit();
  EXPECT_TRUE(engine.Has<RebalanceReady>());
  engine.Records(0, 1, 1);
  engine.Result(engine.NeedBatch(), {.outputs = {{"k", "w", 0}}});  // processed and staged meanwhile
  engine.Wait(absl::Seconds(1));
  EXPECT_FALSE(engine.HasCall());
  engine.Token(2);
  engine.AnswerCall(What::kBegin);
  engine.AnswerCall(What::kAppend);
  engine.AnswerCall(What::kFlush);
  EXPECT_EQ(engine.Call(What::kSendOffsets).token.generation, Generation(2));
}

TEST(R7Token, WhoOverstaysHalfTheRebalanceTimeoutAborts) {
  EngineDriver engine;
  engine.Start();
  engine.Records(0, 0, 1);
  engine.Result(engine.NeedBatch(), {.outputs = {{"k", "v", 0}}});
  engine.AnswerCall(What::kBegin);
  const WriterCall append = engine.Call(What::kAppend), flush = engine.Call(What::kFlush);
  engine.Do(RebalanceStarted{});
  engine.Pass(absl::Seconds(31));
  engine.Answer(append);
  engine.Answer(flush);
  engine.AnswerCall(What::kAbort);
  EXPECT_TRUE(engine.Has<RebalanceReady>());
}

TEST(R7Token, ARefusedTokenBeginsNothingMore) {
  EngineDriver engine;
  engine.Start();
  engine.Records(0, 0, 1);
  engine.Result(engine.NeedBatch(), {.outputs = {{"k", "v", 0}}});
  engine.AnswerCall(What::kBegin);
  engine.AnswerCall(What::kAppend);
  engine.AnswerCall(What::kFlush);
  engine.AnswerCall(What::kSendOffsets,
                    WithRecovery(absl::FailedPreconditionError("ILLEGAL_GENERATION"), Recovery::kAbort));
  engine.AnswerCall(What::kAbort);
  engine.Records(0, 0, 1);
  engine.Result(engine.NeedBatch(), {.outputs = {{"k", "v", 0}}});
  engine.Wait(absl::Seconds(1));
  EXPECT_FALSE(engine.HasCall());
  engine.Token(2);
  engine.AnswerCall(What::kBegin);
}

TEST(R7Token, ExpelledMembersAbortAndGiveEverythingUp) {
  EngineDriver engine;
  engine.Start({0, 1});
  engine.Records(0, 0, 2);
  engine.Result(engine.NeedBatch(), {.done = 1, .outputs = {{"k", "v", 0}}});
  engine.NeedBatch();
  engine.AnswerCall(What::kBegin);
  engine.AnswerCall(What::kAppend);
  engine.Do(MembershipLost{absl::AbortedError("session expired")});
  EXPECT_TRUE(engine.Cancelled().has_value());
  EXPECT_EQ(engine.Take<CloseTask>().task, TaskId(1));
  EXPECT_FALSE(engine.Has<CloseTask>()) << "task 0 still has a part in a transaction";
  engine.AnswerCall(What::kAbort);
  EXPECT_EQ(engine.Take<CloseTask>().task, TaskId(0));
  engine.Do(TaskClosed{TaskId(0)});
  EXPECT_EQ(engine.Take<TaskReleased>().task, TaskId(0));
  EXPECT_FALSE(engine.Has<OpenTask>());
}

TEST(R7Token, ExpelledWhileCommittingTheOutcomeStillCounts) {
  EngineDriver engine;
  engine.Start();
  engine.Records(0, 0, 1, "k");
  engine.Result(engine.NeedBatch(), {.ops = {{0, "k", "v"}}});
  engine.AnswerCall(What::kBegin);
  engine.AnswerCall(What::kAppend);
  engine.AnswerCall(What::kFlush);
  engine.AnswerCall(What::kSendOffsets);
  const WriterCall commit = engine.Call(What::kCommit);
  engine.Do(MembershipLost{absl::AbortedError("session expired")});
  EXPECT_FALSE(engine.Has<CloseTask>());
  engine.Answer(commit);
  EXPECT_EQ(engine.Take<ApplyState>().writes[0].value, "v");
  EXPECT_FALSE(engine.Has<CloseTask>());
}

// ---------------------------------------------------------------- R8

TEST(R8LagZero, TheEndIsCommittedWhenIdleAtMostOnceASecond) {
  EngineDriver engine;
  engine.Start();
  engine.Do(EndOfInput{TaskId(0), 0, Offset(3), 0});  // three control records
  engine.AnswerCall(What::kBegin);
  EXPECT_EQ(engine.Call(What::kSendOffsets).offsets[0].second.next, Offset(3));
}

TEST(R8LagZero, NotMoreOftenThanOnceASecondNorBeforeTheRecords) {
  EngineDriver engine;
  engine.Start();
  engine.Records(0, 0, 1);
  const SentBatch batch = engine.NeedBatch();
  engine.Do(EndOfInput{TaskId(0), 0, Offset(2), 0});
  EXPECT_FALSE(engine.HasCall()) << "record 0 is not handled yet";
  engine.Result(batch, {});
  engine.Commit();
  engine.Wait(absl::Milliseconds(10));
  engine.Commit();
  EXPECT_EQ(engine.engine().Status().lag_records, 0);
  engine.Do(EndOfInput{TaskId(0), 0, Offset(4), 0});
  engine.Wait(absl::Milliseconds(500));
  EXPECT_FALSE(engine.HasCall());
  engine.Pass(absl::Milliseconds(500));
  EXPECT_TRUE(engine.HasCall());
}

TEST(R8LagZero, TheLastRecordOfAReadTakesThePositionBehindControlRecords) {
  EngineDriver engine;
  engine.Start();
  engine.Records(0, {{Offset(0), 1, "k", "v", {}}}, 3);
  engine.Result(engine.NeedBatch(), {});
  engine.AnswerCall(What::kBegin);
  EXPECT_EQ(engine.Call(What::kSendOffsets).offsets[0].second.next, Offset(3));
}

// ---------------------------------------------------------------- R9, R10

TEST(R9Abort, OverlaysGoBatchesAreCancelledInputsSoughtAttemptsKept) {
  EngineDriver engine;
  engine.Start();
  engine.Records(0, 0, 3, "k");
  engine.Result(engine.NeedBatch(),
                {.done = 1, .ops = {{0, "k", "lost"}}, .failure = protocol::Failure{"Handler", "E", "m", true}});
  engine.Pass(absl::Milliseconds(100));
  const SentBatch retry = engine.NeedBatch();
  EXPECT_THAT(retry.attempts, ElementsAre(2, 1));
  EXPECT_EQ(retry.state[0][0], "lost");
  engine.AnswerCall(What::kBegin);
  const WriterCall append = engine.Call(What::kAppend), flush = engine.Call(What::kFlush);
  engine.Answer(append, WithRecovery(absl::AbortedError("no"), Recovery::kAbort));
  EXPECT_EQ(engine.Cancelled(), retry.seq);
  engine.Answer(flush);
  engine.AnswerCall(What::kAbort);
  EXPECT_EQ(engine.Take<SeekFetch>().to, Offset(0));
  engine.Records(0, 0, 3, "k");
  const SentBatch again = engine.NeedBatch();
  EXPECT_THAT(again.offsets, ElementsAre(0, 1, 2));
  EXPECT_THAT(again.attempts, ElementsAre(1, 2, 1));
  EXPECT_EQ(again.state[0][0], "-");
}

TEST(R9Abort, RepeatedAbortsAreTriedLessAndLessOften) {
  EngineDriver engine;
  engine.Start();
  for (int i = 0; i < 2; ++i) {
    engine.Records(0, 0, 1);
    engine.Result(engine.NeedBatch(), {.outputs = {{"k", "v", 0}}});
    engine.Pass(absl::Milliseconds(10));
    engine.AnswerCall(What::kBegin, WithRecovery(absl::AbortedError("no"), Recovery::kAbort));
    engine.AnswerCall(What::kAppend, WithRecovery(absl::AbortedError("no"), Recovery::kAbort));
    while (engine.HasCall()) {
      const WriterCall call = engine.Take<WriterCall>();
      engine.Answer(call);
    }
  }
  engine.Records(0, 0, 1);
  EXPECT_FALSE(engine.Batch().has_value());
  engine.Pass(absl::Milliseconds(50));
  EXPECT_TRUE(engine.Batch().has_value());
}

TEST(R9Abort, AStartOffsetThatIsRefusedAgainAndAgainIsTriedLessAndLessOften) {
  EngineDriver engine;
  engine.Token(1);
  engine.Commit();
  engine.Connect(1);
  engine.Open(0, 40, /*committed=*/false);
  for (int i = 0; i < 2; ++i) {
    engine.Pass(absl::Milliseconds(10));
    engine.AnswerCall(What::kBegin);
    engine.AnswerCall(What::kSendOffsets, WithRecovery(absl::AbortedError("no"), Recovery::kAbort));
    engine.AnswerCall(What::kAbort);
  }
  engine.Pass(absl::Milliseconds(20));
  EXPECT_FALSE(engine.HasCall());
  engine.Pass(absl::Milliseconds(50));
  EXPECT_TRUE(engine.HasCall());
}

TEST(R10Epochs, ALateResultIsDroppedNotAnError) {
  EngineDriver engine;
  engine.Start({0, 1});
  engine.Records(0, 0, 1);
  engine.Records(1, 0, 1);
  const SentBatch doomed = engine.NeedBatch();
  const SentBatch late = engine.NeedBatch();
  engine.Result(doomed, {.outputs = {{"k", "v", 0}}});
  engine.AnswerCall(What::kBegin, WithRecovery(absl::AbortedError("no"), Recovery::kAbort));
  EXPECT_EQ(engine.Cancelled(), late.seq);
  engine.Result(late, {.outputs = {{"k", "late", 0}}});
  EXPECT_EQ(engine.engine().Status().late_results, 1u);
  EXPECT_FALSE(engine.Has<DropWorker>());
  engine.Result(late, {});  // but twice is
  EXPECT_TRUE(engine.Has<DropWorker>());
}

TEST(R10Epochs, GivingUpWaitsForTheBatchInFlightForATenthOfASecond) {
  EngineDriver engine;
  engine.Start();
  engine.Records(0, 0, 1);
  const SentBatch batch = engine.NeedBatch();
  engine.Do(TaskRevoked{TaskId(0)});
  EXPECT_TRUE(engine.Has<StopFetch>());
  engine.Pass(absl::Milliseconds(99));
  EXPECT_FALSE(engine.Cancelled().has_value());
  engine.Pass(absl::Milliseconds(1));
  EXPECT_EQ(engine.Cancelled(), batch.seq);
  EXPECT_TRUE(engine.Has<CloseTask>());
}

TEST(R10Epochs, GivingUpCommitsAppliesAndClosesWhatIsDone) {
  EngineDriver engine;
  engine.Start({0, 1});
  engine.Records(1, 0, 1);
  const SentBatch other = engine.NeedBatch();  // keeps the processor busy: no stall
  engine.Records(0, 0, 1, "k");
  const SentBatch batch = engine.NeedBatch();
  engine.Do(TaskRevoked{TaskId(0)});
  engine.Result(batch, {.ops = {{0, "k", "v"}}});
  EXPECT_TRUE(engine.HasCall()) << "closed at once: the task waits for it";
  engine.Commit();
  const ApplyState apply = engine.Take<ApplyState>();
  EXPECT_EQ(apply.writes[0].value, "v");
  EXPECT_FALSE(engine.Has<CloseTask>());
  engine.Do(StateApplied{apply.apply, absl::OkStatus()});
  EXPECT_EQ(engine.Take<CloseTask>().task, TaskId(0));
  engine.Do(TaskClosed{TaskId(0)});
  EXPECT_EQ(engine.Take<TaskReleased>().task, TaskId(0));
  engine.Result(other, {});
}

}  // namespace
}  // namespace millstream::engine::testing
