// Visits: which rows come, in which order, beside what; that the position is committed with the effects. How they hold
// under crashes is shown by the simulation (Timed...).
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sidecar/engine/internal_rows.h"
#include "sidecar/engine/testing/engine_driver.h"
#include "sidecar/engine/welcome.h"
#include "sidecar/protocol/error_codes.h"
#include "sidecar/store/timed_value.h"

namespace millstream::engine::testing {
namespace {

using protocol::VisitOp;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint32_t kTotals = 0, kIndex = 1, kInternal = 2;
constexpr uint32_t kInterest = 0, kAudit = 1;
constexpr int64_t kT = 5'000;

VisitOp Start(uint32_t visit, std::string_view data) { return {visit, VisitOp::What::kStart, data}; }
VisitOp Stop(uint32_t visit) { return {visit, VisitOp::What::kStop, {}}; }
VisitOp Pause(uint32_t visit) { return {visit, VisitOp::What::kPause, {}}; }
VisitOp Resume(uint32_t visit) { return {visit, VisitOp::What::kResume, {}}; }

// ---------------------------------------------------------------- rows of the internal store

TEST(VisitRowsTest, ComeBackAsTheyWere) {
  for (const VisitProgress& progress : std::vector<VisitProgress>{
           {0, {}, {}}, {-7, Bytes(), {}}, {kT, Bytes("k\0y", 3), {}}, {kT, {}, Bytes()}, {kT, "k", Bytes("d\0", 2)}}) {
    const auto back = ParseVisitValue(VisitValue(progress));
    ASSERT_TRUE(back);
    EXPECT_EQ(back->started_ms, progress.started_ms);
    EXPECT_EQ(back->after, progress.after);
    EXPECT_EQ(back->data, progress.data);
  }
  EXPECT_EQ(ParseVisitRow(VisitRow("interest")).name, "interest");
  EXPECT_FALSE(ParseVisitRow(VisitRow("interest")).paused);
  EXPECT_TRUE(ParseVisitRow(VisitPausedRow("interest")).paused);
  const auto [from, to] = VisitRange();
  for (const Bytes& row : {VisitRow(""), VisitRow("z"), VisitPausedRow(""), VisitPausedRow("z")}) {
    EXPECT_LE(from, row);
    EXPECT_LT(row, to);
  }
}

TEST(VisitRowsTest, DamageIsNoticed) {
  const Bytes value = VisitValue({kT, Bytes("key"), {}});
  for (size_t size = 0; size < value.size(); ++size) EXPECT_FALSE(ParseVisitValue(value.substr(0, size))) << size;
  EXPECT_FALSE(ParseVisitValue(Bytes(1, 2) + value.substr(1))) << "a later version";
}

// ---------------------------------------------------------------- in the engine

class VisitTest : public ::testing::Test {
 protected:
  // Batches of four: pages of two rows.
  static EngineOptions Options() {
    EngineOptions options = EngineDriver::Options();
    options.spec.stores.push_back({.name = "timers", .changelog = {true, "g-timers-changelog", {}}, .internal = true});
    options.spec.visits = {{"interest", kTotals}, {"audit", kIndex}};
    options.spec.batch.max_records = 4;
    options.spec.max_ahead = absl::Hours(1);
    return options;
  }
  VisitTest() { Begin(Options()); }

  // A process on what is on disk.
  void Begin(EngineOptions options) {
    engine_ = std::make_unique<EngineDriver>(std::move(options));
    engine_->Start({0}, next_);
    Serve();
  }

  // Answers reads, writes and calls until there are none, from what was applied.
  void Serve() {
    while (engine_->Has<ReadKeys>() || engine_->Has<ScanRange>() || engine_->Has<ApplyState>() || engine_->HasCall()) {
      ServeReads();
      engine_->Commit();
      while (engine_->Has<ApplyState>()) Apply(engine_->Take<ApplyState>());
    }
  }
  void ServeReads() {
    while (engine_->Has<ReadKeys>() || engine_->Has<ScanRange>()) {
      while (engine_->Has<ReadKeys>()) Answer(engine_->Take<ReadKeys>());
      while (engine_->Has<ScanRange>()) Answer(engine_->Take<ScanRange>());
    }
  }
  void Answer(const ReadKeys& read) {
    KeysRead answer{read.read, absl::OkStatus(), {}};
    for (const Bytes& key : read.keys) {
      const auto row = disk_[read.store].find(key);
      answer.values.push_back(row == disk_[read.store].end() ? MaybeBytes() : MaybeBytes(row->second));
    }
    engine_->Do(std::move(answer));
  }
  void Answer(const ScanRange& scan) {
    RangeScanned answer{scan.read, absl::OkStatus(), {}};
    for (const auto& row : disk_[scan.range.store]) {
      if (scan.range.after && row.first <= *scan.range.after) continue;
      if ((scan.range.from && row.first < *scan.range.from) || (scan.range.to && row.first >= *scan.range.to)) continue;
      answer.page.more = answer.page.rows.size() == scan.range.max_rows;
      if (answer.page.more) break;
      answer.page.rows.push_back(row);
    }
    engine_->Do(std::move(answer));
  }
  void Apply(const ApplyState& apply) {
    for (const store::StoreWrite& write : apply.writes) {
      if (write.value) {
        disk_[write.store][write.key] = *write.value;
      } else {
        disk_[write.store].erase(write.key);
      }
    }
    engine_->Do(StateApplied{apply.apply, absl::OkStatus()});
  }
  // Until what is handled is committed and on disk. A batch that is out stays out.
  void Rest() {
    for (int i = 0; i < 5; ++i) {
      Serve();
      engine_->Pass(absl::Seconds(1));
    }
    Serve();
  }

  void Record(const std::string& key) {
    engine_->Records(0, {{Offset(next_), kT + next_, key, "v", {}}}, next_ + 1);
    ++next_;
  }
  // A record whose handling does that.
  void Handle(Reply reply) {
    Record("r");
    ServeReads();
    engine_->Result(engine_->NeedBatch(), reply);
  }
  // The next batch.
  SentBatch Next() {
    Serve();
    return engine_->NeedBatch();
  }
  // The rows that come, batch by batch, until none does; nothing is written.
  std::vector<std::string> WalkOn() {
    std::vector<std::string> visited;
    for (int i = 0; i < 100; ++i) {
      Serve();
      const std::optional<SentBatch> batch = engine_->Batch();
      if (!batch) return visited;
      visited.insert(visited.end(), batch->visited.begin(), batch->visited.end());
      engine_->Result(*batch, {});
    }
    ADD_FAILURE() << "the visit does not end";
    return visited;
  }
  // A visit of three rows, of which two do not fit a batch.
  void BeginWithSmallBatches() {
    disk_[kTotals] = {{"a", std::string(900, 'a')}, {"b", std::string(900, 'b')}, {"c", "3"}};
    EngineOptions options = Options();
    options.spec.batch.max_bytes = 200;
    Begin(std::move(options));
    Handle({.visits = {Start(kInterest, std::string_view("0123456789012345678901234567890123456789012345678901234567"
                                                         "89012345678901234567890123456789"))}});
  }
  // What is left of visits on disk.
  size_t RowsLeft() {
    const auto [from, to] = VisitRange();
    size_t rows = 0;
    for (const auto& [row, value] : disk_[kInternal]) rows += row >= from && row < to;
    return rows;
  }

  std::unique_ptr<EngineDriver> engine_;
  std::map<store::StoreIndex, std::map<Bytes, Bytes>> disk_;
  int64_t next_ = 0;
};

TEST_F(VisitTest, AllRowsComeInTheOrderOfTheirKeysAndThenTheEnd) {
  disk_[kTotals] = {{"a", "1"}, {"b", "2"}, {"c", "3"}};
  Handle({.visits = {Start(kInterest, "2")}});
  const SentBatch first = Next();
  EXPECT_THAT(first.visited, ElementsAre("a@5000=2", "b@5000=2")) << "half of a batch of four";
  EXPECT_THAT(first.keys, ElementsAre("a", "b"));
  EXPECT_THAT(first.state.at(0), ElementsAre("1", "2"));
  engine_->Result(first, {.ops = {{kTotals, "a", "1.02"}}});
  const SentBatch second = Next();
  EXPECT_THAT(second.visited, ElementsAre("c@5000=2"));
  engine_->Result(second, {});
  const SentBatch end = Next();
  EXPECT_THAT(end.visited, ElementsAre("end@5000=2"));
  EXPECT_THAT(end.keys, IsEmpty());
  engine_->Result(end, {});
  Serve();
  EXPECT_FALSE(engine_->Batch()) << "it is over";
  Rest();
  EXPECT_EQ(RowsLeft(), 0u);
  EXPECT_EQ(disk_[kTotals]["a"], "1.02");
}

TEST_F(VisitTest, AnEmptyStoreHasAnEnd) {
  Handle({.visits = {{kInterest, VisitOp::What::kStart, {}}}});
  EXPECT_THAT(WalkOn(), ElementsAre("end@5000"));
}

TEST_F(VisitTest, TheValueTravelsAlongWhateverIsPrefetched) {
  disk_[kIndex] = {{"k", "not prefetched for records"}};
  Handle({.visits = {Start(kAudit, "")}});
  const SentBatch batch = Next();
  EXPECT_THAT(batch.visited, ElementsAre("k@5000="));
  EXPECT_THAT(batch.state.back(), ElementsAre("not prefetched for records"));
}

TEST_F(VisitTest, RecordsFillTheBatchUp) {
  for (const char* key : {"a", "b", "c", "d"}) disk_[kTotals][key] = "1";
  Handle({.visits = {Start(kInterest, "")}});
  engine_->Records(0, next_, 6);
  next_ += 6;
  SentBatch batch = Next();
  EXPECT_THAT(batch.keys, ElementsAre("a", "b", "k1", "k2"));
  engine_->Result(batch, {});
  batch = Next();
  EXPECT_THAT(batch.keys, ElementsAre("c", "d", "k3", "k4"));
  engine_->Result(batch, {});
  batch = Next();
  EXPECT_THAT(batch.visited, ElementsAre("end@5000="));
  EXPECT_THAT(batch.keys, ElementsAre("k5", "k6"));
}

TEST_F(VisitTest, ItIsNoSnapshot) {
  for (const char* key : {"b", "c", "d", "f"}) disk_[kTotals][key] = "1";
  Handle({.visits = {Start(kInterest, "")}});
  const SentBatch batch = Next();
  EXPECT_THAT(batch.visited, ElementsAre("b@5000=", "c@5000="));
  engine_->Result(batch, {.ops = {{kTotals, "a", "behind"}, {kTotals, "d", std::nullopt}, {kTotals, "e", "before"}}});
  EXPECT_THAT(WalkOn(), ElementsAre("e@5000=", "f@5000=", "end@5000="));
}

TEST_F(VisitTest, VisitsOfATaskFollowEachOtherByName) {
  disk_[kTotals] = {{"t", "1"}};
  disk_[kIndex] = {{"i", "1"}};
  Handle({.visits = {Start(kInterest, "1"), Start(kAudit, "2")}});
  EXPECT_THAT(WalkOn(), ElementsAre("i@5000=2", "end@5000=2", "t@5000=1", "end@5000=1"));
}

TEST_F(VisitTest, StartedAgainItBeginsAnew) {
  for (const char* key : {"a", "b", "c"}) disk_[kTotals][key] = "1";
  Handle({.visits = {Start(kInterest, "1")}});
  const SentBatch batch = Next();
  engine_->Result(batch, {.done = 1, .visits = {Start(kInterest, "2")}});
  EXPECT_THAT(WalkOn(), ElementsAre("a@5000=2", "b@5000=2", "c@5000=2", "end@5000=2"));
}

TEST_F(VisitTest, ItsEndMayStartItAgain) {
  disk_[kTotals] = {{"a", "1"}};
  Handle({.visits = {Start(kInterest, "1")}});
  engine_->Result(Next(), {});
  engine_->Result(Next(), {.visits = {Start(kInterest, "2")}});
  EXPECT_THAT(WalkOn(), ElementsAre("a@5000=2", "end@5000=2"));
}

TEST_F(VisitTest, StoppedItIsGone) {
  for (const char* key : {"a", "b", "c"}) disk_[kTotals][key] = "1";
  Handle({.visits = {Start(kInterest, "")}});
  engine_->Result(Next(), {.visits = {Stop(kInterest)}});
  EXPECT_THAT(WalkOn(), IsEmpty());
  Rest();
  EXPECT_EQ(RowsLeft(), 0u);
}

TEST_F(VisitTest, PausedItWaitsWhereItIs) {
  for (const char* key : {"a", "b", "c"}) disk_[kTotals][key] = "1";
  disk_[kIndex] = {{"i", "1"}};
  Handle({.visits = {Start(kInterest, "")}});
  engine_->Result(Next(), {.visits = {Pause(kInterest)}});
  EXPECT_THAT(WalkOn(), IsEmpty());
  Handle({.visits = {Start(kAudit, "")}});
  EXPECT_THAT(WalkOn(), ElementsAre("i@5001=", "end@5001=")) << "another one does not";
  Rest();
  EXPECT_EQ(RowsLeft(), 2u);
  Begin(Options());
  EXPECT_THAT(WalkOn(), IsEmpty()) << "nor does it forget";
  Handle({.visits = {Resume(kInterest)}});
  EXPECT_THAT(WalkOn(), ElementsAre("c@5000=", "end@5000="));
  Handle({.visits = {Start(kInterest, ""), Pause(kInterest), Start(kInterest, "")}});
  EXPECT_THAT(WalkOn().size(), 4u) << "a start is never paused";
}

// ---------------------------------------------------------------- what goes wrong

TEST_F(VisitTest, TheNextProcessGoesOnBehindWhatIsCommitted) {
  for (const char* key : {"a", "b", "c", "d", "e"}) disk_[kTotals][key] = "1";
  Handle({.visits = {Start(kInterest, "")}});
  engine_->Result(Next(), {.ops = {{kTotals, "a", "2"}}});
  Rest();  // the batch with c and d is out
  Begin(Options());
  EXPECT_EQ(disk_[kTotals]["a"], "2");
  EXPECT_THAT(WalkOn(), ElementsAre("c@5000=", "d@5000=", "e@5000=", "end@5000="));
}

TEST_F(VisitTest, AnAbortTakesThePositionBack) {
  for (const char* key : {"a", "b", "c"}) disk_[kTotals][key] = "1";
  Handle({.visits = {Start(kInterest, "")}});
  Rest();
  SentBatch batch = engine_->NeedBatch();
  EXPECT_THAT(batch.visited, ElementsAre("a@5000=", "b@5000="));
  engine_->Result(batch, {.ops = {{kTotals, "a", "2"}}});
  for (int i = 0; i < 100 && !engine_->HasCall(); ++i) {
    ServeReads();
    engine_->Pass(absl::Milliseconds(10));
  }
  engine_->AnswerCall(WriterCall::What::kBegin, WithRecovery(absl::AbortedError("scripted"), Recovery::kAbort));
  for (int i = 0; i < 20 && engine_->HasCall(); ++i) engine_->Answer(engine_->Take<WriterCall>());
  while (engine_->Batch()) {
  }  // what had been sent before is void
  engine_->Pass(absl::Seconds(1));
  std::vector<std::string> visited = WalkOn();
  EXPECT_EQ(disk_[kTotals]["a"], "1");
  EXPECT_THAT(visited, ElementsAre("a@5000=", "b@5000=", "c@5000=", "end@5000="));
}

TEST_F(VisitTest, WhatWasHandedBackComesFirst) {
  for (const char* key : {"a", "b", "c", "d"}) disk_[kTotals][key] = "1";
  Handle({.visits = {Start(kInterest, "")}});
  engine_->Result(Next(), {.done = 1});
  SentBatch batch = Next();
  EXPECT_THAT(batch.visited, ElementsAre("b@5000=", "c@5000="));
  engine_->Result(batch, {.done = 0, .failure = protocol::Failure{"Handler", "E", "m", true}});
  engine_->Pass(absl::Seconds(1));
  batch = Next();
  EXPECT_THAT(batch.visited, ElementsAre("b@5000=", "c@5000="));
  EXPECT_THAT(batch.attempts, ElementsAre(2, 1));
}

// A page is read, and its first rows go out alone.
TEST_F(VisitTest, RowsBehindOneThatFailsWaitForIt) {
  BeginWithSmallBatches();
  SentBatch batch = Next();
  EXPECT_THAT(batch.keys, ElementsAre("a")) << "two do not fit";
  engine_->Result(batch, {.done = 0, .failure = protocol::Failure{"Handler", "E", "m", true}});
  engine_->Pass(absl::Seconds(1));
  batch = Next();
  EXPECT_THAT(batch.keys, ElementsAre("a"));
  EXPECT_THAT(batch.attempts, ElementsAre(2));
  engine_->Result(batch, {});
  EXPECT_THAT(Next().keys, ElementsAre("b"));
}

TEST_F(VisitTest, RowsBehindOneThatWasNotSentWaitForIt) {
  BeginWithSmallBatches();
  while (engine_->Has<ScanRange>()) Answer(engine_->Take<ScanRange>());
  ASSERT_TRUE(engine_->Has<ReadKeys>()) << "the value of a row, whose batch waits for it";
  engine_->Do(SetPaused{true});
  engine_->Do(SetPaused{false});
  for (const char* key : {"a", "b", "c"}) {
    const SentBatch batch = Next();
    EXPECT_THAT(batch.keys, ElementsAre(key));
    engine_->Result(batch, {});
  }
}

TEST_F(VisitTest, ARowThatFailsForGoodIsPassedOver) {
  for (const char* key : {"a", "b", "c"}) disk_[kTotals][key] = "1";
  EngineOptions options = Options();
  options.spec.errors.on_failure = spec::FailureAction::kDeadLetter;
  options.spec.errors.max_attempts = 1;
  Begin(std::move(options));
  Handle({.visits = {Start(kInterest, "")}});
  ServeReads();
  engine_->Result(engine_->NeedBatch(), {.done = 0, .failure = protocol::Failure{"Handler", "E", "m", true}});
  EXPECT_THAT(WalkOn(), ElementsAre("b@5000=", "c@5000=", "end@5000="));
  EXPECT_EQ(engine_->engine().Status().dead_letters, 1u);
}

TEST_F(VisitTest, ARowThatStopsTheTaskIsNamed) {
  disk_[kTotals] = {{"a", "1"}};
  EngineOptions options = Options();
  options.spec.errors.max_attempts = 1;
  Begin(std::move(options));
  Handle({.visits = {Start(kInterest, "")}});
  engine_->Result(Next(), {.done = 0, .failure = protocol::Failure{"Handler", "E", "m", true}});
  Serve();
  EXPECT_THAT(engine_->engine().Status().tasks.at(0).error,
              HasSubstr("row of key 'a' of visit 'interest' in task 0 failed 1 time"));
  engine_->Do(RestartTask{TaskId(0)});
  EXPECT_THAT(WalkOn(), ElementsAre("a@5000=", "end@5000="));
}

TEST_F(VisitTest, AWorkerThatEndsCostsNoRow) {
  for (const char* key : {"a", "b", "c"}) disk_[kTotals][key] = "1";
  Handle({.visits = {Start(kInterest, "")}});
  EXPECT_THAT(Next().visited, ElementsAre("a@5000=", "b@5000="));
  engine_->Do(WorkerDisconnected{1, absl::UnavailableError("killed"), false});
  engine_->Connect(2);
  Serve();
  const SentBatch batch = engine_->NeedBatch();
  EXPECT_TRUE(batch.trace);
  EXPECT_EQ(batch.worker, 2u);
  EXPECT_THAT(batch.visited, ElementsAre("a@5000=", "b@5000="));
}

TEST_F(VisitTest, APausedProcessorVisitsNothing) {
  for (const char* key : {"a", "b", "c"}) disk_[kTotals][key] = "1";
  Handle({.visits = {Start(kInterest, "")}});
  engine_->Result(Next(), {});
  engine_->Do(SetPaused{true});
  Rest();
  // What was sent before the pause is finished.
  std::vector<std::string> visited;
  if (const std::optional<SentBatch> batch = engine_->Batch()) {
    visited = batch->visited;
    engine_->Result(*batch, {});
  }
  Rest();
  EXPECT_FALSE(engine_->Batch());
  engine_->Do(SetPaused{false});
  for (const std::string& row : WalkOn()) visited.push_back(row);
  EXPECT_THAT(visited, ElementsAre("c@5000=", "end@5000="));
}

TEST_F(VisitTest, WhatEarlierManifestsLeftIsDropped) {
  disk_[kInternal][VisitRow("of-old")] = VisitValue({1, {}, {}});
  disk_[kInternal][VisitPausedRow("of-old")] = "";
  disk_[kTotals] = {{"a", "1"}};
  Begin(Options());
  EXPECT_THAT(WalkOn(), IsEmpty());
  Rest();
  EXPECT_EQ(RowsLeft(), 0u);
}

TEST_F(VisitTest, RowsThatTtlHidesAreNotVisited) {
  EngineOptions options = Options();
  options.spec.stores[kTotals].ttl = absl::Seconds(10);
  disk_[kTotals] = {{"old", store::TimedValue(kT - 60'000, "1")}, {"young", store::TimedValue(kT, "2")}};
  Begin(std::move(options));
  Handle({.visits = {Start(kInterest, "")}});
  EXPECT_THAT(WalkOn(), ElementsAre("young@5000=", "end@5000="));
}

TEST_F(VisitTest, WorkersThatNameWhatIsNotThereAreCutOff) {
  Handle({.visits = {Start(2, "")}});
  EXPECT_EQ(engine_->Take<DropWorker>().code, protocol::kBadFrame);
  engine_->Connect(2);
  Serve();
  const SentBatch batch = engine_->NeedBatch();
  engine_->Result(batch, {.done = 0, .visits = {Start(kInterest, "")}});
  EXPECT_THAT(engine_->Take<DropWorker>().message, HasSubstr("effects of no item"));
}

TEST(VisitWelcomeTest, AWorkerWithoutThemIsRefused) {
  EngineOptions options = EngineDriver::Options();
  options.spec.stores.push_back({.name = "timers", .changelog = {true, "g-timers-changelog", {}}, .internal = true});
  options.spec.visits = {{"interest", kTotals}};
  protocol::Hello hello;
  EXPECT_THAT(std::string(WelcomeFor(options, hello).status().message()), HasSubstr("visits ('interest')"));
  hello.capabilities = {"visits"};
  const absl::StatusOr<protocol::Welcome> welcome = WelcomeFor(options, hello);
  ASSERT_TRUE(welcome.ok()) << welcome.status();
  EXPECT_THAT(welcome->visits, ElementsAre(protocol::Welcome::Visit{"interest", kTotals}));
  EXPECT_THAT(welcome->capabilities, ElementsAre("visits"));
  options.spec.visits.clear();
  EXPECT_THAT(WelcomeFor(options, hello)->capabilities, IsEmpty());
}

}  // namespace
}  // namespace millstream::engine::testing
