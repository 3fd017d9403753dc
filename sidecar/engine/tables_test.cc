// Joins, lookups and the loop as the engine sees them.
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

constexpr store::StoreIndex kPeople = 2, kRates = 3;  // behind the stores totals and index

EngineOptions WithTables() {
  EngineOptions options = EngineDriver::Options();
  options.spec.joins = {{"people", "people"}};
  options.spec.lookups = {{"rates", "rates"}};
  return options;
}

EngineOptions WithLoop() {
  EngineOptions options = EngineDriver::Options();
  options.spec.outputs[0].loop = true;
  return options;
}

TEST(TablesTest, WelcomeListsThem) {
  const absl::StatusOr<protocol::Welcome> welcome = WelcomeFor(WithTables(), {});
  ASSERT_TRUE(welcome.ok());
  EXPECT_THAT(welcome->joins, ElementsAre(protocol::NamedTopic{"people", "people"}));
  EXPECT_THAT(welcome->lookups, ElementsAre(protocol::NamedTopic{"rates", "rates"}));
}

TEST(TablesTest, AJoinTravelsWithEveryBatchAndIsReadFromTheTasksDisk) {
  EngineDriver engine(WithTables());
  engine.Start();
  engine.Records(0, 0, 2);
  const ReadKeys totals = engine.Take<ReadKeys>(), people = engine.Take<ReadKeys>();
  EXPECT_EQ(people.store, kPeople);
  EXPECT_THAT(people.keys, ElementsAre("k0", "k1"));
  EXPECT_FALSE(engine.Has<ReadKeys>()) << "lookups are never prefetched";
  engine.Do(KeysRead{people.read, absl::OkStatus(), {"Anna", std::nullopt}});
  engine.Do(KeysRead{totals.read, absl::OkStatus(), {std::nullopt, "7"}});
  const SentBatch batch = engine.NeedBatch();
  EXPECT_THAT(batch.state, ElementsAre(ElementsAre("-", "7"), ElementsAre("Anna", "-")));
  // What is written to a store says nothing of a join's key of the same name; the join is read anew for the next batch.
  engine.Result(batch, {.ops = {{0, "k0", "1"}, {0, "k1", "8"}}});
  engine.Records(0, 2, 1, "k0");
  const ReadKeys again = engine.Take<ReadKeys>();
  EXPECT_EQ(again.store, kPeople);
  engine.Do(KeysRead{again.read, absl::OkStatus(), {"Anne"}});
  EXPECT_THAT(engine.NeedBatch().state, ElementsAre(ElementsAre("1"), ElementsAre("Anne")));
}

TEST(TablesTest, GetAndScanOfALookup) {
  EngineDriver engine(WithTables());
  engine.Start();
  engine.Records(0, 0, 1);
  const SentBatch batch = engine.NeedBatch();
  protocol::Get get{.seq = batch.seq, .rid = 5, .store = kRates, .keys = {"usd"}, .new_ops = {{0, {{"usd", "9", 0}}}}};
  engine.Say(1, protocol::EncodeFrame(get));
  const ReadKeys read = engine.Take<ReadKeys>();
  EXPECT_EQ(read.store, kRates);
  EXPECT_THAT(read.keys, ElementsAre("usd")) << "not the store's own write of that key";
  engine.Forget();
  engine.Do(KeysRead{read.read, absl::OkStatus(), {"1.1"}});
  const std::string frame = engine.Take<SendToWorker>().frame;
  const auto values = protocol::DecodeSidecarMessage(std::string_view(frame).substr(protocol::kFrameHeaderBytes));
  ASSERT_TRUE(values.ok());
  EXPECT_THAT(std::get<protocol::Values>(*values).values, ElementsAre(MaybeBytes("1.1")));
  protocol::Scan scan{.seq = batch.seq, .rid = 6, .store = kRates, .from = {}, .to = {}, .cursor = {}, .new_ops = {}};
  engine.Say(1, protocol::EncodeFrame(scan));
  EXPECT_EQ(engine.Take<ScanRange>().range.store, kRates);
}

TEST(TablesTest, WritingToATableEndsTheConnection) {
  for (const store::StoreIndex table : {kPeople, kRates}) {
    EngineDriver engine(WithTables());
    engine.Start();
    engine.Records(0, 0, 1);
    engine.Result(engine.NeedBatch(), {.ops = {{table, "k0", "x"}}});
    const DropWorker drop = engine.Take<DropWorker>();
    EXPECT_EQ(drop.code, protocol::kBadFrame);
    EXPECT_THAT(drop.message, HasSubstr("read-only"));
  }
  EngineDriver engine(WithTables());
  engine.Start();
  engine.Records(0, 0, 1);
  engine.Result(engine.NeedBatch(), {.ops = {{4, "k0", "x"}}});
  EXPECT_EQ(engine.Take<DropWorker>().code, protocol::kUnknownStore);
}

// The store that keeps timers has no id: those of joins and lookups follow the manifest's stores.
TEST(TablesTest, IdsBesideTheInternalStore) {
  EngineOptions options = WithTables();
  options.spec.timers = true;
  spec::StoreSpec& internal = options.spec.stores.emplace_back();
  internal.name = "timers";
  internal.internal = true;
  EngineDriver engine(options);
  engine.Start();
  const ReadKeys clock = engine.Take<ReadKeys>();
  EXPECT_EQ(clock.store, 2);
  engine.Do(KeysRead{clock.read, absl::OkStatus(), {std::nullopt}});
  while (engine.Has<ScanRange>()) engine.Do(RangeScanned{engine.Take<ScanRange>().read, absl::OkStatus(), {}});
  engine.Records(0, 0, 1);
  const ReadKeys totals = engine.Take<ReadKeys>(), people = engine.Take<ReadKeys>();
  EXPECT_EQ(totals.store, 0);
  EXPECT_EQ(people.store, 3);
  engine.Do(KeysRead{people.read, absl::OkStatus(), {"Anna"}});
  engine.Do(KeysRead{totals.read, absl::OkStatus(), {"7"}});
  const SentBatch batch = engine.NeedBatch();
  EXPECT_THAT(batch.state, ElementsAre(ElementsAre("7"), ElementsAre("Anna")));
  engine.Say(1, protocol::EncodeFrame(
                    protocol::Get{.seq = batch.seq, .rid = 5, .store = kRates, .keys = {"usd"}, .new_ops = {}}));
  EXPECT_EQ(engine.Take<ReadKeys>().store, 4);
  engine.Say(
      1, protocol::EncodeFrame(protocol::Get{.seq = batch.seq, .rid = 6, .store = 4, .keys = {"a"}, .new_ops = {}}));
  EXPECT_EQ(engine.Take<DropWorker>().code, protocol::kUnknownStore);
}

TEST(TablesTest, CommittedStateOfAJoinIsAnswered) {
  EngineDriver engine(WithTables());
  engine.Start();
  engine.Do(QueryKey{1, TaskId(0), kPeople, "anna"});
  const ReadKeys read = engine.Take<ReadKeys>();
  EXPECT_EQ(read.store, kPeople);
  engine.Do(KeysRead{read.read, absl::OkStatus(), {"Anna"}});
  EXPECT_EQ(engine.Take<QueryAnswered>().value, "Anna");
}

TEST(TablesTest, ATableThatCannotBeFollowedReopensItsTask) {
  EngineDriver engine(WithTables());
  engine.Start();
  engine.Records(0, 0, 1);
  const SentBatch batch = engine.NeedBatch();
  engine.Do(StateFailed{TaskId(0), absl::OutOfRangeError("people-0: offset 3 is gone")});
  EXPECT_EQ(engine.Cancelled(), batch.seq);
  EXPECT_EQ(engine.Take<CloseTask>().task, TaskId(0));
  engine.Do(TaskClosed{TaskId(0)});
  engine.Pass(absl::Seconds(1));
  EXPECT_EQ(engine.Take<OpenTask>().task, TaskId(0));
}

TEST(TablesTest, ATableThatFailsWhileItsTaskIsOpenedReopensItToo) {
  EngineDriver engine(WithTables());
  engine.Start({});
  engine.Do(TaskAssigned{TaskId(0)});
  engine.Take<OpenTask>();
  engine.Do(StateFailed{TaskId(0), absl::OutOfRangeError("rates-0: offset 3 is gone")});
  engine.Do(TaskOpened{TaskId(0), absl::OkStatus(), {{0, Offset(0), true, ""}}, {}});
  engine.Take<CloseTask>();
  engine.Do(TaskClosed{TaskId(0)});
  engine.Pass(absl::Seconds(1));
  engine.Take<OpenTask>();
  engine.Do(TaskOpened{TaskId(0), absl::OkStatus(), {{0, Offset(0), true, ""}}, {}});
  EXPECT_EQ(engine.engine().Status().tasks[0].state, TaskStatus::State::kRunning);
}

TEST(TablesTest, AViewHasTasksWithoutInputsAndCommitsNothing) {
  EngineOptions options = EngineDriver::Options();
  options.spec.inputs.clear();
  options.spec.stores.clear();
  options.spec.outputs.clear();
  options.output_partitions.clear();
  options.spec.joins = {{"people", "people"}};
  EngineDriver engine(options);
  engine.Token(1);
  while (engine.HasCall()) engine.AnswerCall(What::kCreate);
  engine.Do(TaskAssigned{TaskId(0)});
  engine.Take<OpenTask>();
  engine.Do(TaskOpened{TaskId(0), absl::OkStatus(), {}, {}});
  engine.Pass(absl::Seconds(5));
  EXPECT_EQ(engine.engine().Status().tasks[0].state, TaskStatus::State::kRunning);
  EXPECT_FALSE(engine.HasCall());
  engine.Do(QueryKey{1, TaskId(0), 0, "anna"});
  const ReadKeys read = engine.Take<ReadKeys>();
  engine.Do(KeysRead{read.read, absl::OkStatus(), {"Anna"}});
  EXPECT_EQ(engine.Take<QueryAnswered>().value, "Anna");
  engine.Do(Drain{absl::Seconds(10)});
  engine.Take<CloseTask>();
  engine.Do(TaskClosed{TaskId(0)});
  EXPECT_TRUE(engine.Has<Drained>());
}

TEST(LoopTest, ARecordForTheLoopNeedsAKeyAndChoosesNoPartition) {
  for (const Emit& emit : {Emit{std::nullopt, "x"}, Emit{"k", "x", 1}}) {
    EngineDriver engine(WithLoop());
    engine.Start();
    engine.Records(0, 0, 1);
    engine.Result(engine.NeedBatch(), {.outputs = {emit}});
    EXPECT_THAT(engine.engine().Status().last_error,
                HasSubstr(emit.key ? "chooses a partition" : "for the loop has no key"));
    EXPECT_FALSE(engine.HasCall()) << "nothing of it was staged";
  }
  EngineDriver engine(WithLoop());
  engine.Start();
  engine.Records(0, 0, 1);
  engine.Result(engine.NeedBatch(), {.outputs = {{"", "an empty key is a key"}}});
  engine.AnswerCall(What::kBegin);
  EXPECT_EQ(engine.Call(What::kAppend).records.size(), 1u);
}

}  // namespace
}  // namespace millstream::engine::testing
