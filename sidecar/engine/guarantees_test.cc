// AtLeastOnce and AtMostOnce; reads of batches under way; workers, back-pressure, queries, opening, draining.
#include "common/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sidecar/engine/testing/engine_driver.h"
#include "sidecar/engine/welcome.h"
#include "sidecar/protocol/codec.h"

namespace millstream::engine::testing {
namespace {

using What = WriterCall::What;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

EngineOptions With(spec::Guarantee guarantee) {
  EngineOptions options = EngineDriver::Options();
  options.spec.guarantee = guarantee;
  return options;
}

// ---------------------------------------------------------------- AtLeastOnce

TEST(AtLeastOnceTest, OutputsLeaveAtOnceAndOffsetsFollowTheirAcknowledgement) {
  EngineDriver engine(With(spec::Guarantee::kAtLeastOnce));
  engine.Start();
  engine.Records(0, 0, 1, "k");
  engine.Result(engine.NeedBatch(), {.ops = {{0, "k", "s"}}, .outputs = {{"k", "v", 0}}});
  const WriterCall output = engine.Call(What::kAppend);
  EXPECT_EQ(output.writer, WriterName::kPlain);
  const WriterCall begin = engine.Call(What::kBegin), append = engine.Call(What::kAppend);
  EXPECT_NE(append.writer, WriterName::kPlain);
  EXPECT_EQ(append.records[0].to.topic, "g-totals-changelog");
  const WriterCall plain_flush = engine.Call(What::kFlush), flush = engine.Call(What::kFlush);
  EXPECT_EQ(plain_flush.writer, WriterName::kPlain);
  engine.Answer(begin);
  engine.Answer(append);
  engine.Answer(flush);
  EXPECT_FALSE(engine.HasCall()) << "the output is not acknowledged";
  engine.Answer(output);
  engine.Answer(plain_flush);
  EXPECT_EQ(engine.Call(What::kSendOffsets).offsets[0].second.next, Offset(1));
}

TEST(AtLeastOnceTest, AFailedOutputAbortsAndIsGivenAgain) {
  EngineDriver engine(With(spec::Guarantee::kAtLeastOnce));
  engine.Start();
  engine.Records(0, 0, 1, "k");
  engine.Result(engine.NeedBatch(), {.outputs = {{"k", "v", 0}}});
  const WriterCall output = engine.Call(What::kAppend);
  const WriterCall begin = engine.Call(What::kBegin), flush = engine.Call(What::kFlush);
  engine.Answer(begin);
  engine.Answer(output, WithRecovery(absl::UnavailableError("broker away"), Recovery::kRecreate));
  engine.Answer(flush, WithRecovery(absl::UnavailableError("broker away"), Recovery::kRecreate));
  const WriterCall one = engine.Take<WriterCall>(), other = engine.Take<WriterCall>();
  engine.Answer(one);
  engine.Answer(other);
  EXPECT_EQ(engine.Take<SeekFetch>().to, Offset(0));
  engine.Records(0, 0, 1, "k");
  engine.Result(engine.NeedBatch(), {.outputs = {{"k", "v", 0}}});
  EXPECT_EQ(engine.Call(What::kAppend).writer, WriterName::kPlain);
}

// Its transaction was aborted before, and the next one has nothing yet: the batch that is out would have no writer.
TEST(AtLeastOnceTest, AnOutputThatFailsLateTakesTheBatchThatIsOutBack) {
  EngineDriver engine(With(spec::Guarantee::kAtLeastOnce));
  engine.Start();
  engine.Records(0, 0, 1, "k");
  engine.Result(engine.NeedBatch(), {.outputs = {{"k", "v", 0}}});
  const WriterCall output = engine.Call(What::kAppend);
  const WriterCall begin = engine.Call(What::kBegin), flush = engine.Call(What::kFlush);
  engine.Answer(begin, WithRecovery(absl::AbortedError("scripted"), Recovery::kAbort));
  engine.AnswerCall(What::kAbort);
  EXPECT_EQ(engine.Take<SeekFetch>().to, Offset(0));
  engine.Records(0, 0, 1, "k");
  const SentBatch batch = engine.NeedBatch();
  const absl::Status away = WithRecovery(absl::UnavailableError("broker away"), Recovery::kRecreate);
  engine.Answer(output, away);
  engine.Result(batch, {.outputs = {{"k", "v", 0}}});
  engine.Answer(flush, away);
  EXPECT_EQ(engine.Take<SeekFetch>().to, Offset(0));
  engine.AnswerCall(What::kCreate);
  engine.Records(0, 0, 1, "k");
  engine.Pass(absl::Seconds(1));  // the second abort in a row costs a wait
  engine.Result(engine.NeedBatch(), {.outputs = {{"k", "v", 0}}});
  EXPECT_EQ(engine.Call(What::kAppend).writer, WriterName::kPlain);
}

// ---------------------------------------------------------------- AtMostOnce

TEST(AtMostOnceTest, OffsetsCommitBeforeTheBatchIsSentEffectsAfter) {
  EngineDriver engine(With(spec::Guarantee::kAtMostOnce));
  engine.Start();
  engine.Records(0, 0, 2);
  EXPECT_FALSE(engine.Batch().has_value());
  engine.AnswerCall(What::kBegin);
  const WriterCall offsets = engine.Call(What::kSendOffsets);
  EXPECT_EQ(offsets.offsets[0].second.next, Offset(2));
  engine.Answer(offsets);
  engine.AnswerCall(What::kCommit);
  engine.Result(engine.NeedBatch(), {.ops = {{0, "k", "s"}}, .outputs = {{"k", "v", 0}}});
  engine.Pass(absl::Milliseconds(10));
  engine.AnswerCall(What::kBegin);
  EXPECT_EQ(engine.Call(What::kAppend).records.size(), 1u);
  EXPECT_EQ(engine.Call(What::kAppend).records[0].to.topic, "g-totals-changelog");
}

TEST(AtMostOnceTest, NothingIsTriedTwice) {
  EngineOptions options = With(spec::Guarantee::kAtMostOnce);
  options.spec.errors.on_failure = spec::FailureAction::kSkip;
  EngineDriver engine(options);
  engine.Start();
  engine.Records(0, 0, 3);
  engine.AnswerReads();
  engine.Commit();
  engine.Result(engine.NeedBatch(), {.done = 1, .failure = protocol::Failure{"Handler", "E", "m", true}});
  EXPECT_EQ(engine.engine().Status().skipped, 1u);
  const SentBatch rest = engine.NeedBatch();
  EXPECT_THAT(rest.offsets, ElementsAre(2)) << "not tried yet, and claimed already";
  engine.Do(WorkerDisconnected{1, absl::UnavailableError("crash"), false});
  engine.Connect(2);
  EXPECT_FALSE(engine.Batch().has_value());
}

// Which of them wrote it is not known, and none is to be handled again to find out.
TEST(AtMostOnceTest, WhatExceedsTheLimitsFailsAllThatWereHandledWithIt) {
  EngineOptions options = With(spec::Guarantee::kAtMostOnce);
  options.spec.errors.on_failure = spec::FailureAction::kDeadLetter;
  EngineDriver engine(options);
  engine.Start();
  engine.Records(0, 0, 4);
  engine.AnswerReads();
  engine.Commit();
  engine.Result(engine.NeedBatch(), {.done = 2,
                                     .outputs = {{"k", std::string(2000, 'x'), 0}},
                                     .failure = protocol::Failure{"Handler", "E", "m", true}});
  EXPECT_EQ(engine.engine().Status().dead_letters, 3u) << "two are done, one failed";
  EXPECT_THAT(engine.NeedBatch().offsets, ElementsAre(3));
}

TEST(AtMostOnceTest, WhatFailedIsNotTriedAgainByARestart) {
  EngineOptions options = With(spec::Guarantee::kAtMostOnce);
  options.spec.errors.on_failure = spec::FailureAction::kStop;
  EngineDriver engine(options);
  engine.Start();
  engine.Records(0, 0, 4);
  engine.AnswerReads();
  engine.Commit();
  engine.Result(engine.NeedBatch(), {.done = 3, .outputs = {{"k", std::string(2000, 'x'), 0}}});
  EXPECT_THAT(engine.engine().Status().last_error, HasSubstr("offset 0"));
  EXPECT_FALSE(engine.Batch().has_value());
  engine.Do(RestartTask{TaskId(0)});
  EXPECT_THAT(engine.NeedBatch().offsets, ElementsAre(3));
}

// ---------------------------------------------------------------- reads of a batch under way

class WorkerReadsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    engine_.Start();
    engine_.Records(0, 0, 1, "k");
    engine_.Result(engine_.NeedBatch(), {.ops = {{1, "staged", "s"}, {1, "gone", std::nullopt}}});
    engine_.Records(0, 1, 1, "k");
    batch_ = engine_.NeedBatch();
  }
  template <typename Message>
  Message Answer() {
    while (engine_.Has<SendToWorker>()) {
      frame_ = engine_.Take<SendToWorker>().frame;
      auto message = protocol::DecodeSidecarMessage(std::string_view(frame_).substr(4));
      EXPECT_TRUE(message.ok());
      if (std::holds_alternative<Message>(*message)) return std::get<Message>(*message);
    }
    ADD_FAILURE() << "no answer";
    return Message();
  }
  EngineDriver engine_;
  SentBatch batch_;
  std::string frame_;
};

TEST_F(WorkerReadsTest, GetAnswersFromOwnWritesThenStagedThenDisk) {
  protocol::Get get;
  get.seq = batch_.seq;
  get.rid = 5;
  get.store = 1;
  get.keys = {"own", "staged", "gone", "disk", "deleted"};
  get.new_ops = {{1, {{"own", "mine", 0}, {"deleted", std::nullopt, 0}}}};
  engine_.Say(1, protocol::EncodeFrame(get));
  const ReadKeys read = engine_.Take<ReadKeys>();
  EXPECT_THAT(read.keys, ElementsAre("disk"));
  EXPECT_EQ(read.store, 1u);
  engine_.Do(KeysRead{read.read, absl::OkStatus(), {"d"}});
  const auto values = Answer<protocol::Values>();
  EXPECT_EQ(values.rid, 5u);
  EXPECT_THAT(values.values,
              ElementsAre(MaybeBytes("mine"), MaybeBytes("s"), std::nullopt, MaybeBytes("d"), std::nullopt));
}

TEST_F(WorkerReadsTest, ScanMergesPagesWithOwnAndStagedWrites) {
  protocol::Scan scan;
  scan.seq = batch_.seq;
  scan.rid = 6;
  scan.store = 1;
  scan.limit = 3;
  scan.new_ops = {{1, {{"b", "mine", 0}}}};
  engine_.Say(1, protocol::EncodeFrame(scan));
  const ScanRange range = engine_.Take<ScanRange>();
  engine_.Do(RangeScanned{range.read, absl::OkStatus(), {{{"a", "1"}, {"gone", "2"}, {"q", "3"}}, true}});
  auto rows = Answer<protocol::Rows>();
  EXPECT_THAT(rows.rows, ElementsAre(std::pair("a", "1"), std::pair("b", "mine"), std::pair("q", "3")));
  EXPECT_EQ(rows.cursor, "q");
}

TEST_F(WorkerReadsTest, ReadsOfACancelledBatchAreAnsweredCancelled) {
  engine_.Do(TaskRevoked{TaskId(0)});
  engine_.Pass(absl::Milliseconds(100));
  ASSERT_EQ(engine_.Cancelled(), batch_.seq);
  engine_.Forget();
  protocol::Get get;
  get.seq = batch_.seq;
  get.rid = 9;
  get.store = 1;
  get.keys = {"x"};
  engine_.Say(1, protocol::EncodeFrame(get));
  EXPECT_EQ(Answer<protocol::Values>().error, "cancelled");
}

TEST_F(WorkerReadsTest, AFailedReadOpensTheTaskAgain) {
  protocol::Get get;
  get.seq = batch_.seq;
  get.store = 1;
  get.keys = {"x"};
  engine_.Say(1, protocol::EncodeFrame(get));
  engine_.Do(KeysRead{engine_.Take<ReadKeys>().read, absl::DataLossError("checksum"), {}});
  engine_.Commit();
  ASSERT_TRUE(engine_.Has<CloseTask>());
  engine_.Do(TaskClosed{TaskId(0)});
  engine_.Pass(absl::Milliseconds(1));
  EXPECT_TRUE(engine_.Has<OpenTask>());
}

// ---------------------------------------------------------------- workers

TEST(WorkersTest, TasksAreSpreadAndMoveToANewWorker) {
  EngineDriver engine;
  engine.Start({0, 1, 2, 3}, 0, 8);
  for (int task = 0; task < 4; ++task) engine.Records(task, 0, 1);
  std::vector<SentBatch> first;
  for (int i = 0; i < 4; ++i) first.push_back(engine.NeedBatch());
  for (const SentBatch& batch : first) EXPECT_EQ(batch.worker, 1u);
  engine.Connect(2, 8);
  for (const SentBatch& batch : first) engine.Result(batch, {});
  for (int task = 0; task < 4; ++task) engine.Records(task, 1, 1);
  int at_second = 0;
  for (int i = 0; i < 4; ++i) at_second += engine.NeedBatch().worker == 2 ? 1 : 0;
  EXPECT_EQ(at_second, 2);
}

TEST(WorkersTest, ParallelBoundsTheBatchesOfAWorker) {
  EngineDriver engine;
  engine.Start({0, 1, 2}, 0, /*parallel=*/2);
  for (int task = 0; task < 3; ++task) engine.Records(task, 0, 1);
  const SentBatch one = engine.NeedBatch();
  engine.NeedBatch();
  EXPECT_FALSE(engine.Batch().has_value());
  engine.Result(one, {});
  EXPECT_EQ(engine.NeedBatch().task, TaskId(2));
}

TEST(WorkersTest, OneBatchOfATaskAtATime) {
  EngineOptions options = EngineDriver::Options();
  options.spec.batch.max_records = 2;
  EngineDriver engine(options);
  engine.Start();
  engine.Records(0, 0, 6);
  const SentBatch one = engine.NeedBatch();
  EXPECT_THAT(one.offsets, ElementsAre(0, 1));
  EXPECT_FALSE(engine.Batch().has_value());
  engine.Result(one, {.done = 1});
  EXPECT_THAT(engine.NeedBatch().offsets, ElementsAre(1, 2));
}

TEST(WorkersTest, AWorkerThatSaidGoodbyeGetsNothingMore) {
  EngineDriver engine;
  engine.Start();
  engine.Connect(2);
  engine.Say(1, protocol::EncodeFrame(protocol::Goodbye{"SIGTERM"}));
  engine.Records(0, 0, 1);
  EXPECT_EQ(engine.NeedBatch().worker, 2u);
}

TEST(WorkersTest, WithoutAWorkerNothingIsFetched) {
  EngineDriver engine;
  engine.Token(1);
  engine.Commit();
  engine.Open(0, 0);
  EXPECT_FALSE(engine.Has<StartFetch>());
  engine.Connect(1);
  EXPECT_TRUE(engine.Has<StartFetch>());
  engine.Do(WorkerDisconnected{1, absl::OkStatus(), true});
  EXPECT_TRUE(engine.Take<PauseFetch>().paused);
}

TEST(WorkersTest, WelcomeNamesLimitsAndRefusesHandlersThatDoNotFit) {
  const EngineOptions options = EngineDriver::Options();
  protocol::Hello hello;
  auto welcome = WelcomeFor(options, hello);
  ASSERT_TRUE(welcome.ok());
  EXPECT_EQ(welcome->stores[0].prefetched, true);
  EXPECT_EQ(welcome->stores[1].prefetched, false);
  EXPECT_EQ(welcome->outputs[0].max_bytes, 1000);
  EXPECT_EQ(welcome->deadline_ms, 60'000);
  hello.inputs = {"in", "inn"};
  EXPECT_THAT(std::string(WelcomeFor(options, hello).status().message()),
              HasSubstr("a handler for 'inn', which is not an input of processor p; its inputs are: 'in'"));
  hello.inputs = std::vector<std::string>();
  EXPECT_THAT(std::string(WelcomeFor(options, hello).status().message()), HasSubstr("no handler for input 'in'"));
}

TEST(WorkersTest, SessionsThatAreGivenNeedAWorkerThatTakesThem) {
  EngineOptions options = EngineDriver::Options();
  options.spec.stores[1].type = spec::StoreType::kSession;
  options.spec.stores[1].session = {absl::Seconds(5), absl::Seconds(1), absl::Seconds(9), true};
  protocol::Hello hello;
  EXPECT_THAT(std::string(WelcomeFor(options, hello).status().message()),
              HasSubstr("store index gives its sessions when they close (emit: Final)"));
  hello.capabilities = {std::string(protocol::kSessionClosingsCapability)};
  const auto welcome = WelcomeFor(options, hello);
  ASSERT_TRUE(welcome.ok()) << welcome.status();
  EXPECT_EQ(welcome->stores[1].session, (protocol::StoreInfo::Session{5000, 1000, 9000, true}));
  EXPECT_THAT(welcome->capabilities, ::testing::ElementsAre(protocol::kSessionClosingsCapability));
  options.spec.stores[1].session->final = false;
  EXPECT_TRUE(WelcomeFor(options, {}).ok());
}

// ---------------------------------------------------------------- back-pressure

TEST(BackPressureTest, FetchingPausesAtTheBoundAndGoesOnBelowHalf) {
  EngineOptions options = EngineDriver::Options();
  options.fetched_bytes = 300 << 10;
  options.spec.batch.max_records = 10;
  options.spec.batch.max_bytes = 20 << 20;
  EngineDriver engine(options);
  engine.Start();
  engine.Records(0, 0, 30, "k", 10 << 10);
  EXPECT_TRUE(engine.Take<PauseFetch>().paused);
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(engine.Has<PauseFetch>());
    engine.Result(engine.NeedBatch(), {});
    engine.Commit();
  }
  EXPECT_FALSE(engine.Take<PauseFetch>().paused);
}

TEST(BackPressureTest, OverlaysAtTheirBoundCloseApplyAndHoldBatchesBack) {
  EngineOptions options = EngineDriver::Options();
  options.overlay_bytes = 20'000;
  EngineDriver engine(options);
  engine.Start({0, 1});
  engine.Records(0, 0, 1);
  engine.Records(1, 0, 1);
  const SentBatch batch = engine.NeedBatch();
  engine.NeedBatch();
  std::vector<Op> ops;
  for (int i = 0; i < 100; ++i) ops.push_back({1, "key" + std::to_string(i), std::string(300, 'x')});
  engine.Result(batch, {.ops = ops});
  EXPECT_TRUE(engine.HasCall()) << "closes early";
  engine.Records(0, 1, 1);
  EXPECT_FALSE(engine.Batch().has_value());
  engine.Commit();
  EXPECT_FALSE(engine.Batch().has_value());
  EXPECT_TRUE(engine.Has<ApplyState>()) << "applied early";
  engine.AnswerApplies();
  EXPECT_TRUE(engine.Batch().has_value());
}

TEST(BackPressureTest, AWorkerWhoseQueueIsFullIsLeftAlone) {
  EngineDriver engine;
  engine.Start();
  engine.Do(WorkerWritable{1, false});
  engine.Records(0, 0, 1);
  EXPECT_FALSE(engine.Batch().has_value());
  engine.Do(WorkerWritable{1, true});
  EXPECT_TRUE(engine.Batch().has_value());
}

TEST(BackPressureTest, StateThatDoesNotFitTheBatchIsLeftToGet) {
  EngineOptions options = EngineDriver::Options();
  options.spec.batch.max_bytes = 1500;
  options.store_max_bytes = {10'000, 10'000};
  EngineDriver engine(options);
  engine.Start();
  engine.Records(0, 0, 1, "large");
  engine.Result(engine.NeedBatch(), {.ops = {{0, "large", std::string(2000, 'x')}, {0, "small", "s"}}});
  engine.Records(0, {{Offset(1), 1, "large", "v", {}}, {Offset(2), 1, "small", "v", {}}}, 3);
  EXPECT_THAT(engine.NeedBatch().state[0], ElementsAre("?", "s"));
}

// ---------------------------------------------------------------- queries

TEST(QueriesTest, OnlyCommittedStateIsSeen) {
  EngineDriver engine;
  engine.Start();
  engine.Records(0, 0, 1, "k");
  engine.Result(engine.NeedBatch(), {.ops = {{0, "k", "new"}}});
  engine.Do(QueryKey{1, TaskId(0), 0, "k"});
  const ReadKeys read = engine.Take<ReadKeys>();
  engine.Do(KeysRead{read.read, absl::OkStatus(), {"old"}});
  EXPECT_EQ(engine.Take<QueryAnswered>().value, "old");
  engine.Commit();
  engine.Do(QueryKey{2, TaskId(0), 0, "k"});
  EXPECT_EQ(engine.Take<QueryAnswered>().value, "new");
  engine.Do(QueryRange{3, TaskId(0), {}});
  engine.Do(RangeScanned{engine.Take<ScanRange>().read, absl::OkStatus(), {{{"k", "old"}, {"z", "1"}}, false}});
  const QueryAnswered rows = engine.Take<QueryAnswered>();
  EXPECT_THAT(rows.page.rows, ElementsAre(std::pair("k", "new"), std::pair("z", "1")));
  EXPECT_FALSE(rows.page.more);
}

TEST(QueriesTest, OfATaskThatIsNotHereAreUnavailable) {
  EngineDriver engine;
  engine.Start();
  engine.Do(QueryKey{1, TaskId(5), 0, "k"});
  EXPECT_TRUE(absl::IsUnavailable(engine.Take<QueryAnswered>().status));
  engine.Do(QueryKey{2, TaskId(0), 9, "k"});
  EXPECT_TRUE(absl::IsInvalidArgument(engine.Take<QueryAnswered>().status));
}

// ---------------------------------------------------------------- opening, inputs, stopping

TEST(LifecycleTest, OpeningIsTriedAgainWhereThatMayHelp) {
  EngineDriver engine;
  engine.Token(1);
  engine.Do(TaskAssigned{TaskId(0)});
  engine.Take<OpenTask>();
  engine.Do(TaskOpened{TaskId(0), absl::UnavailableError("no broker"), {}, {}});
  EXPECT_FALSE(engine.Has<OpenTask>());
  engine.Pass(absl::Milliseconds(100));
  engine.Take<OpenTask>();
  engine.Do(TaskOpened{TaskId(0), absl::FailedPreconditionError("OffsetsLost"), {}, {}});
  engine.Pass(absl::Minutes(10));
  EXPECT_FALSE(engine.Has<OpenTask>());
  EXPECT_EQ(engine.engine().Status().tasks[0].state, TaskStatus::State::kStopped);
  engine.Do(RestartTask{TaskId(0)});
  EXPECT_TRUE(engine.Has<OpenTask>());
}

TEST(LifecycleTest, LostOffsetsStopTheTaskAndNothingJumps) {
  EngineDriver engine;
  engine.Start({0}, 7);
  engine.Do(InputFailed{TaskId(0), 0, absl::OutOfRangeError("log starts at 20"), 0});
  EXPECT_THAT(engine.engine().Status().tasks[0].error,
              HasSubstr("OffsetsLost: in-0 (input 'in') has no offset 7 any more (log starts at 20)"));
  EXPECT_FALSE(engine.Has<SeekFetch>());
  engine.Do(RestartTask{TaskId(0)});
  EXPECT_EQ(engine.Take<SeekFetch>().to, Offset(7));
}

TEST(LifecycleTest, ReadsOfAnEarlierFetchAreDropped) {
  EngineDriver engine;
  engine.Token(1);
  engine.Commit();
  engine.Connect(1);
  engine.Open(0, 0);
  const uint64_t fetch = engine.Take<StartFetch>().fetch;
  engine.Do(RecordsRead{TaskId(0), 0, {{Offset(50), 1, "k", "v", {}}}, Offset(51), fetch + 1});
  EXPECT_FALSE(engine.Batch().has_value());
  engine.Do(RecordsRead{TaskId(0), 0, {{Offset(0), 1, "k", "v", {}}}, Offset(1), fetch});
  EXPECT_TRUE(engine.Batch().has_value());
}

TEST(LifecycleTest, ATaskThatIsRevokedWhileItOpensIsClosedAndReleased) {
  EngineDriver engine;
  engine.Token(1);
  engine.Do(TaskAssigned{TaskId(0)});
  engine.Take<OpenTask>();
  engine.Do(TaskRevoked{TaskId(0)});
  EXPECT_FALSE(engine.Has<TaskReleased>());
  engine.Do(TaskOpened{TaskId(0), absl::OkStatus(), {{0, Offset(0), true, ""}}, {}});
  EXPECT_TRUE(engine.Has<CloseTask>());
  engine.Do(TaskClosed{TaskId(0)});
  EXPECT_TRUE(engine.Has<TaskReleased>());
}

TEST(LifecycleTest, ATaskThatComesBackWhileItLeavesIsOpenedAgain) {
  EngineDriver engine;
  engine.Start();
  engine.Do(TaskRevoked{TaskId(0)});
  engine.Take<CloseTask>();
  engine.Do(TaskAssigned{TaskId(0)});
  engine.Do(TaskClosed{TaskId(0)});
  EXPECT_TRUE(engine.Has<TaskReleased>());
  EXPECT_TRUE(engine.Has<OpenTask>());
}

TEST(LifecycleTest, DrainFinishesCommitsAppliesAndSaysGoodbye) {
  EngineDriver engine;
  engine.Start();
  engine.Records(0, 0, 2, "k");
  const SentBatch batch = engine.NeedBatch();
  engine.Do(Drain{absl::Seconds(20)});
  engine.Pass(absl::Seconds(1));
  EXPECT_FALSE(engine.Cancelled().has_value()) << "it may take until five seconds before the end";
  engine.Result(batch, {.ops = {{0, "k", "v"}}});
  engine.Commit();
  engine.AnswerApplies();
  engine.Do(TaskClosed{engine.Take<CloseTask>().task});
  EXPECT_EQ(engine.Take<TaskReleased>().task, TaskId(0));
  EXPECT_EQ(engine.Take<GoodbyeWorker>().worker, 1u);
  EXPECT_FALSE(engine.Has<Drained>());
  engine.Do(WorkerDisconnected{1, absl::OkStatus(), true});
  EXPECT_TRUE(engine.Has<Drained>());
}

TEST(LifecycleTest, DrainEndsAtItsDeadlineWhateverHangs) {
  EngineDriver engine;
  engine.Start();
  engine.Records(0, 0, 1);
  const SentBatch batch = engine.NeedBatch();
  engine.Do(Drain{absl::Seconds(20)});
  engine.Pass(absl::Seconds(15));
  EXPECT_EQ(engine.Cancelled(), batch.seq);
  engine.Pass(absl::Seconds(5));
  EXPECT_TRUE(engine.Has<Drained>());
}

TEST(LifecycleTest, AnIdleEngineWantsNoTicks) {
  EngineDriver engine;
  engine.Start();
  engine.Records(0, 0, 1);
  engine.Result(engine.NeedBatch(), {.ops = {{0, "k", "v"}}});
  engine.Commit();
  engine.Pass(absl::Seconds(2));
  engine.AnswerApplies();
  engine.Pass(absl::Minutes(2));
  const auto next = engine.engine().NextDeadline();
  EXPECT_TRUE(!next || *next > engine.clock().Monotonic());
}

}  // namespace
}  // namespace millstream::engine::testing
