// Processors whose state is in a database of the worker's: LOAD, CHECKPOINT, STORE, STORED.
#include <deque>

#include "common/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sidecar/engine/stored_checkpoint.h"
#include "sidecar/engine/testing/engine_driver.h"
#include "sidecar/engine/transaction.h"
#include "sidecar/engine/welcome.h"
#include "sidecar/protocol/codec.h"
#include "sidecar/protocol/error_codes.h"
#include "sidecar/protocol/frame.h"

namespace millstream::engine::testing {
namespace {

using What = WriterCall::What;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const TopicPartition kIn{"in", Partition(0)}, kOut{"out", Partition(1)};

EngineOptions ExternalOptions() {
  EngineOptions options = EngineDriver::Options();
  options.spec.stores.clear();
  options.spec.inputs[0].prefetch.clear();
  options.spec.external_store = true;
  return options;
}

StoredCheckpoint CheckpointOf(std::string metadata, int64_t next, std::string previous) {
  StoredCheckpoint checkpoint;
  checkpoint.metadata = std::move(metadata);
  checkpoint.inputs.push_back({kIn, Offset(next), std::move(previous)});
  return checkpoint;
}

class ExternalTest : public ::testing::Test {
 protected:
  // A member with writers and worker 1; task 0 is open at offset 0, and its worker was asked to LOAD.
  uint64_t Open(std::string metadata = "earlier", std::optional<EngineOptions> options = std::nullopt) {
    if (options) engine_ = std::make_unique<EngineDriver>(*options);
    engine_->Token(1);
    while (engine_->HasCall()) engine_->AnswerCall(What::kCreate);
    Connect(1);
    engine_->Do(TaskAssigned{TaskId(0)});
    return Reopen(std::move(metadata));
  }
  uint64_t Reopen(std::string metadata = "earlier") {
    EXPECT_EQ(engine_->Take<OpenTask>().task, TaskId(0));
    const bool committed = !metadata.empty();
    engine_->Do(TaskOpened{TaskId(0), absl::OkStatus(), {{0, Offset(0), committed, std::move(metadata)}}, {}});
    return NeedLoad();
  }
  void Connect(WorkerId id) {
    WorkerConnected connected;
    connected.worker = id;
    connected.hello.parallel = 4;
    connected.hello.capabilities = {std::string(protocol::kExternalStoreCapability)};
    engine_->Do(std::move(connected));
  }
  // And with an empty database, fetching.
  void Run() {
    Answer(Open(), std::nullopt);
    engine_->Take<StartFetch>();
  }

  // The next message of that kind; others before it are dropped.
  template <typename Message>
  std::optional<Message> Next() {
    while (engine_->Has<SendToWorker>()) {
      frames_.push_back(engine_->Take<SendToWorker>().frame);
      const auto message =
          protocol::DecodeSidecarMessage(std::string_view(frames_.back()).substr(protocol::kFrameHeaderBytes));
      EXPECT_TRUE(message.ok()) << message.status();
      if (const auto* found = std::get_if<Message>(&*message)) return *found;
    }
    return std::nullopt;
  }
  uint64_t NeedLoad() {
    const auto load = Next<protocol::Load>();
    EXPECT_TRUE(load.has_value()) << "no LOAD";
    return load ? load->seq : 0;
  }
  protocol::Store NeedStore() {
    const auto store = Next<protocol::Store>();
    EXPECT_TRUE(store.has_value()) << "no STORE";
    return store.value_or(protocol::Store());
  }
  void Answer(uint64_t load, const std::optional<StoredCheckpoint>& checkpoint, WorkerId worker = 1) {
    std::string bytes;
    protocol::Checkpoint answer{load, ++fence_, std::nullopt};
    if (checkpoint) answer.checkpoint = bytes = EncodeCheckpoint(*checkpoint);
    engine_->Say(worker, protocol::EncodeFrame(answer));
  }
  void Stored(uint64_t store, bool stored = true) {
    engine_->Say(1, protocol::EncodeFrame(protocol::Stored{store, stored}));
  }
  void Fail(uint64_t seq, std::string failure_class = "Handler") {
    protocol::Result result;
    result.seq = seq;
    result.failure = protocol::Failure{std::move(failure_class), "OperationalError", "no database", true};
    engine_->Say(1, protocol::EncodeFrame(result));
  }
  void OffsetsAreReadAgain() {
    EXPECT_FALSE(engine_->HasCall());
    EXPECT_EQ(engine_->Take<CloseTask>().task, TaskId(0));
    engine_->Do(TaskClosed{TaskId(0)});
  }
  EngineStatus Status() { return engine_->engine().Status(); }

  std::unique_ptr<EngineDriver> engine_ = std::make_unique<EngineDriver>(ExternalOptions());
  std::deque<std::string> frames_;  // decoded messages point into them
  uint64_t fence_ = 0;
};

// ---------------------------------------------------------------- checkpoints

TEST(StoredCheckpointTest, SurvivesBytes) {
  StoredCheckpoint checkpoint = CheckpointOf("{\"tag\":1}", 1 << 20, "");
  checkpoint.inputs.push_back({{"other", Partition(0)}, Offset(0), "before"});
  checkpoint.outputs.push_back({kOut, -5, std::nullopt, "", {{"h", std::nullopt}, {"h", "\xff"}}});
  checkpoint.outputs.push_back({{"in", Partition(3)}, int64_t{1} << 50, "k", std::nullopt, {}});
  checkpoint.also = {"{\"tag\":0}", ""};
  const std::string bytes = EncodeCheckpoint(checkpoint);
  const absl::StatusOr<StoredCheckpoint> back = DecodeCheckpoint(bytes);
  ASSERT_EQ(back.status(), absl::OkStatus());
  EXPECT_EQ(back->metadata, checkpoint.metadata);
  ASSERT_EQ(back->inputs.size(), 2u);
  EXPECT_EQ(back->inputs[0].of, kIn);
  EXPECT_EQ(back->inputs[0].next, Offset(1 << 20));
  EXPECT_EQ(back->inputs[1].previous, "before");
  ASSERT_EQ(back->outputs.size(), 2u);
  EXPECT_EQ(back->outputs[0].to, kOut);
  EXPECT_EQ(back->outputs[0].timestamp_ms, -5);
  EXPECT_EQ(back->outputs[0].key, std::nullopt);
  EXPECT_EQ(back->outputs[0].value, "");
  EXPECT_EQ(back->outputs[0].headers, checkpoint.outputs[0].headers);
  EXPECT_EQ(back->outputs[1].key, "k");
  EXPECT_EQ(back->outputs[1].value, std::nullopt);
  EXPECT_EQ(back->also, checkpoint.also);
  EXPECT_EQ(EncodeCheckpoint(*back), bytes);
  int64_t most = 256;  // of everything beside the outputs
  for (const log::OutgoingRecord& record : checkpoint.outputs) most += CheckpointBytes(record);
  EXPECT_LE(static_cast<int64_t>(bytes.size()), most);
}

TEST(StoredCheckpointTest, EveryPrefixIsRefused) {
  StoredCheckpoint checkpoint = CheckpointOf("tag", 7, "before");
  checkpoint.outputs.push_back({kOut, 1, "k", "v", {{"h", "x"}}});
  const std::string bytes = EncodeCheckpoint(checkpoint);
  for (size_t size = 0; size < bytes.size(); ++size) EXPECT_FALSE(DecodeCheckpoint(bytes.substr(0, size)).ok()) << size;
  EXPECT_FALSE(DecodeCheckpoint(bytes + "x").ok());
}

TEST(StoredCheckpointTest, ALaterFormatIsNamed) {
  std::string bytes = EncodeCheckpoint(CheckpointOf("tag", 7, "before"));
  bytes[1] = 2;
  const absl::Status status = DecodeCheckpoint(bytes).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("format 2"));
}

TEST(StoredCheckpointTest, Age) {
  const StoredCheckpoint checkpoint = CheckpointOf("T2", 7, "T1");
  const auto age = [&](int64_t next, std::string_view metadata) {
    const CommittedInput committed{kIn, Offset(next), metadata};
    return AgeOf(checkpoint, {&committed, 1});
  };
  EXPECT_EQ(age(7, "T2"), CheckpointAge::kSame);
  EXPECT_EQ(age(5, "T1"), CheckpointAge::kNewer);
  EXPECT_EQ(age(7, "T1"), CheckpointAge::kNewer) << "positions may stand still";
  EXPECT_EQ(age(8, "T1"), CheckpointAge::kForeign) << "never back";
  EXPECT_EQ(age(5, "T2"), CheckpointAge::kForeign);
  EXPECT_EQ(age(7, "T3"), CheckpointAge::kForeign);
  EXPECT_EQ(age(0, ""), CheckpointAge::kForeign) << "a reset";
  StoredCheckpoint again = CheckpointOf("T4", 7, "T1");
  again.also = {"T3", "T2"};
  const CommittedInput by_its_first_owner{kIn, Offset(7), "T2"};
  EXPECT_EQ(AgeOf(again, {&by_its_first_owner, 1}), CheckpointAge::kSame);
  EXPECT_EQ(AgeOf(CheckpointOf("T1", 0, ""), std::vector<CommittedInput>{{kIn, kNoOffset, ""}}), CheckpointAge::kNewer);
}

TEST(StoredCheckpointTest, InputsThatOneSideDoesNotKnowSayNothing) {
  const TopicPartition added{"added", Partition(0)};
  const StoredCheckpoint checkpoint = CheckpointOf("T2", 7, "T1");
  EXPECT_EQ(AgeOf(checkpoint, std::vector<CommittedInput>{{kIn, Offset(7), "T2"}, {added, kNoOffset, ""}}),
            CheckpointAge::kSame);
  EXPECT_EQ(AgeOf(checkpoint, std::vector<CommittedInput>{{added, kNoOffset, ""}}), CheckpointAge::kForeign);
}

TEST(StoredCheckpointTest, OffsetsTellThatThereIsOne) {
  const OffsetTags with("local/default/p", "a", "77", "{\"in\":\"id\"}", true), without("o", "a", "77", "", false);
  EXPECT_TRUE(OffsetTags::HasExternalStore(with.Metadata(1)));
  EXPECT_EQ(
      with.Metadata(1),
      "{\"v\":1,\"owner\":\"local/default/p\",\"tag\":\"a/77/1\",\"topics\":{\"in\":\"id\"},\"externalStore\":true}");
  EXPECT_FALSE(OffsetTags::HasExternalStore(without.Metadata(1)));
  EXPECT_FALSE(OffsetTags::HasExternalStore(""));
}

// ---------------------------------------------------------------- workers

TEST_F(ExternalTest, OnlyWorkersWithADatabaseAreTaken) {
  protocol::Hello hello;
  EXPECT_THAT(std::string(WelcomeFor(ExternalOptions(), hello).status().message()), HasSubstr("externalStore"));
  hello.capabilities = {"begin", "finalize", "committed", "externalStore"};
  EXPECT_THAT(WelcomeFor(ExternalOptions(), hello)->capabilities, ElementsAre("committed", "externalStore"));
  EXPECT_THAT(WelcomeFor(EngineDriver::Options(), hello)->capabilities, ElementsAre("begin", "finalize", "committed"));
}

// ---------------------------------------------------------------- LOAD

TEST_F(ExternalTest, NothingIsReadBeforeTheCheckpointIsKnown) {
  const uint64_t load = Open();
  EXPECT_FALSE(engine_->Has<StartFetch>());
  Answer(load, std::nullopt);
  EXPECT_EQ(engine_->Take<StartFetch>().from, Offset(0));
}

TEST_F(ExternalTest, AStartPositionIsStoredBeforeItIsCommitted) {
  Answer(Open(/*metadata=*/""), std::nullopt);
  const protocol::Store store = NeedStore();
  const auto checkpoint = DecodeCheckpoint(store.checkpoint);
  ASSERT_TRUE(checkpoint.ok());
  EXPECT_EQ(checkpoint->inputs.at(0).previous, "");
  engine_->AnswerCall(What::kBegin);
  EXPECT_FALSE(engine_->HasCall());
  Stored(store.seq);
  engine_->Commit();
  EXPECT_EQ(engine_->Take<StartFetch>().from, Offset(0));
}

TEST_F(ExternalTest, ACheckpointThatIsCommittedIsWhereItGoesOn) {
  Answer(Open(), CheckpointOf("earlier", 0, "before"));
  EXPECT_EQ(engine_->Take<StartFetch>().from, Offset(0));
  EXPECT_FALSE(Next<protocol::Store>().has_value());
}

TEST_F(ExternalTest, WhatTheLogDoesNotHaveYetIsSentFirst) {
  StoredCheckpoint newer = CheckpointOf("T", 5, "earlier");
  newer.outputs.push_back({kOut, 42, "k", "v", {{"h", "x"}}});
  Answer(Open(), newer);
  OffsetsAreReadAgain();
  Answer(Reopen(), newer);
  engine_->AnswerCall(What::kBegin);
  const WriterCall append = engine_->Call(What::kAppend);
  ASSERT_EQ(append.records.size(), 1u);
  EXPECT_EQ(append.records[0].to, kOut);
  EXPECT_EQ(append.records[0].value, "v");
  EXPECT_EQ(append.records[0].timestamp_ms, 42);
  engine_->Answer(append);
  // It is a transaction like any other: crash now, and it is found again.
  const protocol::Store store = NeedStore();
  const auto again = DecodeCheckpoint(store.checkpoint);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->inputs.at(0).next, Offset(5));
  EXPECT_EQ(again->inputs.at(0).previous, "earlier");
  ASSERT_EQ(again->outputs.size(), 1u);
  EXPECT_EQ(again->outputs[0].headers, newer.outputs[0].headers);
  EXPECT_THAT(again->also, ElementsAre("T")) << "its first owner may have committed it by now";
  Stored(store.seq);
  engine_->AnswerCall(What::kFlush);
  const WriterCall offsets = engine_->Call(What::kSendOffsets);
  EXPECT_EQ(offsets.offsets.at(0).second.next, Offset(5));
  EXPECT_EQ(offsets.offsets.at(0).second.metadata, again->metadata);
  engine_->Answer(offsets);
  engine_->AnswerCall(What::kCommit);
  EXPECT_EQ(engine_->Take<StartFetch>().from, Offset(5));
}

// What looks as if the log had not followed may be a transaction that it has by now.
TEST_F(ExternalTest, OffsetsAreReadBehindTheFence) {
  Answer(Open(), CheckpointOf("T", 5, "earlier"));
  OffsetsAreReadAgain();
  const uint64_t load = Reopen();
  ++fence_;  // somebody else was there in between
  Answer(load, CheckpointOf("T", 5, "earlier"));
  OffsetsAreReadAgain();
  engine_->Pass(absl::Seconds(1));
  EXPECT_EQ(engine_->Take<OpenTask>().task, TaskId(0));
  engine_->Do(TaskOpened{TaskId(0), absl::OkStatus(), {{0, Offset(5), true, "T"}}, {}});
  Answer(NeedLoad(), CheckpointOf("T", 5, "earlier"));
  EXPECT_EQ(engine_->Take<StartFetch>().from, Offset(5));
  EXPECT_FALSE(engine_->HasCall()) << "the log has it";
}

TEST_F(ExternalTest, OffsetsThatSomebodyElseSetStopTheTaskWhenTheyStaySo) {
  Answer(Open(), CheckpointOf("T2", 5, "T1"));
  OffsetsAreReadAgain();
  Answer(Reopen(), CheckpointOf("T2", 5, "T1"));
  EXPECT_EQ(Status().tasks.at(0).state, TaskStatus::State::kStopped);
  EXPECT_THAT(Status().tasks.at(0).error, HasSubstr("CheckpointMismatch"));
  EXPECT_FALSE(engine_->Has<StartFetch>());
  engine_->Do(RestartTask{TaskId(0)});
  EXPECT_EQ(engine_->Take<CloseTask>().task, TaskId(0));
  engine_->Do(TaskClosed{TaskId(0)});
  Answer(Reopen("T2"), CheckpointOf("T2", 0, "T1"));
  EXPECT_EQ(engine_->Take<StartFetch>().from, Offset(0)) << "a person has repaired it";
}

TEST_F(ExternalTest, AnEmptyDatabaseBehindCommittedOffsetsStopsTheTask) {
  const std::string metadata = OffsetTags("local/default/p", "a", "76", "", true).Metadata(9);
  Answer(Open(metadata), std::nullopt);
  engine_->Take<CloseTask>();
  engine_->Do(TaskClosed{TaskId(0)});
  Answer(Reopen(metadata), std::nullopt);
  EXPECT_THAT(Status().tasks.at(0).error, HasSubstr("CheckpointLost"));
}

TEST_F(ExternalTest, ADatabaseThatCannotBeReachedIsTriedAgain) {
  Fail(Open());
  EXPECT_TRUE(Next<protocol::Close>().has_value());
  EXPECT_THAT(Status().tasks.at(0).error, HasSubstr("LOAD failed"));
  EXPECT_FALSE(Next<protocol::Load>().has_value());
  engine_->Pass(absl::Seconds(1));
  Answer(NeedLoad(), std::nullopt);
  EXPECT_TRUE(engine_->Has<StartFetch>());
  EXPECT_EQ(Status().tasks.at(0).error, "");
}

TEST_F(ExternalTest, WrongAnswersEndTheConnection) {
  const uint64_t load = Open();
  Stored(load);
  EXPECT_EQ(engine_->Take<DropWorker>().code, protocol::kBadFrame);
}

TEST_F(ExternalTest, AnEmptyResultIsNoAnswerToLoad) {
  protocol::Result result;
  result.seq = Open();
  engine_->Say(1, protocol::EncodeFrame(result));
  EXPECT_EQ(engine_->Take<DropWorker>().code, protocol::kBadFrame);
}

TEST_F(ExternalTest, ATaskThatIsRevokedBeforeItIsLoadedLeaves) {
  const uint64_t load = Open();
  engine_->Do(TaskRevoked{TaskId(0)});
  engine_->Pass(absl::Seconds(1));
  EXPECT_EQ(engine_->Take<CloseTask>().task, TaskId(0));
  Answer(load, CheckpointOf("T", 5, "earlier"));
  EXPECT_FALSE(engine_->HasCall()) << "it is the next owner's business";
}

// ---------------------------------------------------------------- STORE

TEST_F(ExternalTest, TheLogFollowsTheDatabase) {
  Run();
  engine_->Records(0, 0, 2);
  engine_->Result(engine_->NeedBatch(), {.outputs = {{"k", "v", 1}}});
  const protocol::Store store = NeedStore();
  EXPECT_EQ(store.task, TaskId(0));
  EXPECT_EQ(store.fence, 1u);
  const auto checkpoint = DecodeCheckpoint(store.checkpoint);
  ASSERT_EQ(checkpoint.status(), absl::OkStatus());
  EXPECT_TRUE(OffsetTags::HasExternalStore(checkpoint->metadata));
  EXPECT_EQ(checkpoint->inputs.at(0).next, Offset(2));
  EXPECT_EQ(checkpoint->inputs.at(0).previous, "earlier");
  ASSERT_EQ(checkpoint->outputs.size(), 1u);
  EXPECT_EQ(checkpoint->outputs[0].to, kOut);
  EXPECT_EQ(checkpoint->outputs[0].value, "v");
  engine_->AnswerCall(What::kBegin);
  engine_->AnswerCall(What::kAppend);
  engine_->Pass(absl::Seconds(1));
  EXPECT_FALSE(engine_->HasCall()) << "nothing is flushed, let alone committed, before STORED";
  engine_->Records(0, 2, 1);
  EXPECT_FALSE(engine_->Batch().has_value()) << "the next batch belongs to the next transaction";
  Stored(store.seq);
  engine_->AnswerCall(What::kFlush);
  const WriterCall offsets = engine_->Call(What::kSendOffsets);
  EXPECT_EQ(offsets.offsets.at(0).second.metadata, checkpoint->metadata);
  engine_->Answer(offsets);
  engine_->Result(engine_->NeedBatch(), {});
  EXPECT_FALSE(Next<protocol::Store>().has_value()) << "one transaction at a time is stored and not committed";
  engine_->AnswerCall(What::kCommit);
  engine_->Pass(absl::Seconds(1));
  const protocol::Store next = NeedStore();
  const auto following = DecodeCheckpoint(next.checkpoint);
  ASSERT_TRUE(following.ok());
  EXPECT_EQ(following->inputs.at(0).previous, checkpoint->metadata);
  EXPECT_TRUE(following->outputs.empty());
}

TEST_F(ExternalTest, AnOlderOwnerIsOpenedAgain) {
  Run();
  engine_->Records(0, 0, 1);
  engine_->Result(engine_->NeedBatch(), {});
  Stored(NeedStore().seq, false);
  EXPECT_THAT(Status().last_error, HasSubstr("another owner"));
  engine_->Commit();  // the abort
  EXPECT_EQ(Status().records_committed, 0u);
  EXPECT_EQ(engine_->Take<CloseTask>().task, TaskId(0));
  engine_->Do(TaskClosed{TaskId(0)});
  Answer(Reopen(), std::nullopt);
  EXPECT_EQ(engine_->Take<StartFetch>().from, Offset(0));
}

TEST_F(ExternalTest, AStoreThatFailedMayHaveHappened) {
  Run();
  engine_->Records(0, 0, 1);
  engine_->Result(engine_->NeedBatch(), {.outputs = {{"k", "v", 1}}});
  const protocol::Store store = NeedStore();
  const auto checkpoint = DecodeCheckpoint(store.checkpoint);
  ASSERT_TRUE(checkpoint.ok());
  Fail(store.seq);
  engine_->Commit();
  EXPECT_TRUE(Next<protocol::Close>().has_value()) << "what the worker has of it is rolled back";
  engine_->Pass(absl::Seconds(1));
  Answer(NeedLoad(), *checkpoint);
  const protocol::Store again = NeedStore();
  EXPECT_EQ(again.fence, 2u);
  EXPECT_EQ(DecodeCheckpoint(again.checkpoint)->outputs.size(), 1u);
  Stored(again.seq);
  engine_->Commit();
  EXPECT_EQ(Status().aborted, 1u);
  engine_->Records(0, 1, 1);
  EXPECT_THAT(engine_->NeedBatch().offsets, ElementsAre(1)) << "the first record is not handled twice";
}

TEST_F(ExternalTest, AnAbortInTheLogIsMadeUpFor) {
  Run();
  engine_->Records(0, 0, 1);
  engine_->Result(engine_->NeedBatch(), {.outputs = {{"k", "v", 1}}});
  const protocol::Store store = NeedStore();
  const auto checkpoint = DecodeCheckpoint(store.checkpoint);
  ASSERT_TRUE(checkpoint.ok());
  engine_->AnswerCall(What::kBegin);
  engine_->AnswerCall(What::kAppend);
  Stored(store.seq);
  engine_->AnswerCall(What::kFlush, absl::AbortedError("the broker says no"));
  engine_->Commit();
  engine_->Pass(absl::Seconds(1));
  Answer(NeedLoad(), *checkpoint);
  Stored(NeedStore().seq);
  engine_->Commit();
  EXPECT_EQ(Status().transactions, 1u);
  engine_->Records(0, 1, 1);
  EXPECT_THAT(engine_->NeedBatch().offsets, ElementsAre(1));
}

TEST_F(ExternalTest, AWorkerThatEndsBehindStoredCostsNothing) {
  Run();
  engine_->Records(0, 0, 1);
  engine_->Result(engine_->NeedBatch(), {});
  const protocol::Store store = NeedStore();
  const auto checkpoint = DecodeCheckpoint(store.checkpoint);
  ASSERT_TRUE(checkpoint.ok());
  engine_->AnswerCall(What::kBegin);
  Stored(store.seq);
  engine_->Do(WorkerDisconnected{1, absl::UnavailableError("reset"), false});
  Connect(2);
  EXPECT_FALSE(Next<protocol::Load>().has_value()) << "the outcome is not known yet";
  engine_->Commit();
  Answer(NeedLoad(), *checkpoint, /*worker=*/2);
  EXPECT_EQ(Status().records_committed, 1u);
  EXPECT_EQ(Status().aborted, 0u);
  EXPECT_FALSE(Next<protocol::Store>().has_value()) << "it is the same transaction";
}

TEST_F(ExternalTest, AWorkerThatEndsBeforeStoredTakesItAlong) {
  Run();
  engine_->Records(0, 0, 1);
  engine_->Result(engine_->NeedBatch(), {});
  NeedStore();
  engine_->Do(WorkerDisconnected{1, absl::UnavailableError("reset"), false});
  engine_->Commit();
  EXPECT_EQ(Status().aborted, 1u);
  Connect(2);
  engine_->Pass(absl::Seconds(1));
  Answer(NeedLoad(), std::nullopt, /*worker=*/2);
  engine_->Records(0, 0, 1);
  EXPECT_THAT(engine_->NeedBatch().offsets, ElementsAre(0));
}

// What it has done in its database since LOAD will not be stored: as if the batch had never been out.
TEST_F(ExternalTest, AWorkerThatSaysGoodbyeWithABatchOutTakesItAlong) {
  Run();
  Connect(2);
  engine_->Records(0, 0, 2);
  const SentBatch batch = engine_->NeedBatch();
  engine_->Say(1, protocol::EncodeFrame(protocol::Goodbye{"told to stop"}));
  engine_->Result(batch, {.outputs = {{"k", "v", 1}}});
  Answer(NeedLoad(), std::nullopt, /*worker=*/2);
  const SentBatch again = engine_->NeedBatch();
  EXPECT_EQ(again.worker, 2u);
  EXPECT_THAT(again.offsets, ElementsAre(0, 1));
  EXPECT_THAT(again.attempts, ElementsAre(1, 1));
  EXPECT_FALSE(engine_->HasCall()) << "nothing is written, nothing was aborted";
  engine_->Result(again, {.outputs = {{"k", "v", 1}}});
  const protocol::Store store = NeedStore();
  EXPECT_EQ(DecodeCheckpoint(store.checkpoint)->outputs.size(), 1u);
}

TEST_F(ExternalTest, ACheckpointOfAWorkerThatLeavesDoesNotCount) {
  const uint64_t load = Open();
  engine_->Say(1, protocol::EncodeFrame(protocol::Goodbye{"told to stop"}));
  Answer(load, CheckpointOf("earlier", 0, "before"));
  EXPECT_FALSE(engine_->Has<StartFetch>());
  Connect(2);
  Answer(NeedLoad(), CheckpointOf("earlier", 0, "before"), /*worker=*/2);
  EXPECT_TRUE(engine_->Has<StartFetch>());
}

TEST_F(ExternalTest, ALostConnectionChargesNoRecord) {
  Run();
  engine_->Records(0, 0, 1);
  engine_->Result(engine_->NeedBatch(), {});
  NeedStore();  // the first record is in a transaction; the next one finds the database gone
  engine_->Do(WorkerDisconnected{1, absl::UnavailableError("reset"), false});
  engine_->Commit();
  Connect(2);
  engine_->Pass(absl::Seconds(1));
  Answer(NeedLoad(), std::nullopt, /*worker=*/2);
  engine_->Records(0, 0, 1);
  const SentBatch batch = engine_->NeedBatch();
  EXPECT_EQ(batch.worker, 2u);
  engine_->Result(batch, {.done = 0, .failure = protocol::Failure{"Store", "OperationalError", "gone", true}});
  EXPECT_THAT(Status().last_error, HasSubstr("a batch failed in the worker's database"));
  EXPECT_TRUE(Next<protocol::Close>().has_value());
  engine_->Pass(absl::Seconds(2));
  Answer(NeedLoad(), std::nullopt, /*worker=*/2);
  const SentBatch again = engine_->NeedBatch();
  EXPECT_THAT(again.offsets, ElementsAre(0));
  EXPECT_THAT(again.attempts, ElementsAre(1));
}

TEST_F(ExternalTest, DeadLettersAreInTheCheckpoint) {
  EngineOptions options = ExternalOptions();
  options.spec.errors.on_failure = spec::FailureAction::kDeadLetter;
  options.spec.errors.max_attempts = 1;
  Answer(Open("earlier", options), std::nullopt);
  engine_->Take<StartFetch>();
  engine_->Records(0, 0, 1);
  engine_->Result(engine_->NeedBatch(),
                  {.done = 0, .failure = protocol::Failure{"Handler", "ValueError", "no", false}});
  engine_->Pass(absl::Seconds(1));
  const auto checkpoint = DecodeCheckpoint(NeedStore().checkpoint);
  ASSERT_TRUE(checkpoint.ok());
  ASSERT_EQ(checkpoint->outputs.size(), 1u);
  EXPECT_EQ(checkpoint->outputs[0].to.topic, "g-dead-letter");
  EXPECT_EQ(checkpoint->inputs.at(0).next, Offset(1));
}

TEST_F(ExternalTest, AFullCheckpointWaitsForTheNextTransaction) {
  EngineOptions options = ExternalOptions();
  options.frame_cap = 8192;
  Answer(Open("earlier", options), std::nullopt);
  engine_->Take<StartFetch>();
  engine_->Records(0, 0, 1);
  const SentBatch first = engine_->NeedBatch();
  engine_->Records(0, 1, 1);
  const Emit large{"k", std::string(900, 'x'), 1};
  engine_->Result(first, {.outputs = {large, large, large}});
  EXPECT_FALSE(engine_->Batch().has_value()) << "a quarter of the frame is used";
  engine_->Pass(absl::Seconds(1));
  Stored(NeedStore().seq);
  engine_->Commit();
  EXPECT_THAT(engine_->NeedBatch().offsets, ElementsAre(1));
}

TEST_F(ExternalTest, OutputsBeyondAFrameAreNamed) {
  EngineOptions options = ExternalOptions();
  options.frame_cap = 2048;
  Answer(Open("earlier", options), std::nullopt);
  engine_->Take<StartFetch>();
  engine_->Records(0, 0, 1);
  const Emit large{"k", std::string(900, 'x'), 1};
  engine_->Result(engine_->NeedBatch(), {.outputs = {large, large, large}});
  engine_->Pass(absl::Seconds(1));
  EXPECT_THAT(Status().first_error, HasSubstr("have to fit a frame"));
  EXPECT_EQ(Status().records_committed, 0u);
}

TEST_F(ExternalTest, ATaskIsGivenUpBehindItsStore) {
  Run();
  engine_->Records(0, 0, 1);
  const SentBatch batch = engine_->NeedBatch();
  engine_->Do(TaskRevoked{TaskId(0)});
  engine_->Result(batch, {});
  const protocol::Store store = NeedStore();
  EXPECT_FALSE(engine_->Has<CloseTask>());
  Stored(store.seq);
  engine_->Commit();
  EXPECT_EQ(engine_->Take<CloseTask>().task, TaskId(0));
  EXPECT_EQ(Status().records_committed, 1u);
}

}  // namespace
}  // namespace millstream::engine::testing
