// The tools on an embedded log: what lies in the log afterwards, not what was called.

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cli/tools/adopt.h"
#include "cli/tools/dead_letters.h"
#include "cli/tools/empty_group.h"
#include "cli/tools/lag.h"
#include "cli/tools/read_range.h"
#include "cli/tools/reset.h"
#include "cli/tools/tool.h"
#include "common/base/strings.h"
#include "common/log/embedded/embedded_log.h"
#include "common/log/embedded/test_folder.h"
#include "common/log/testing/faulty_log.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millstream::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using Kind = ResetTarget::Kind;

constexpr char kGroup[] = "shop.totals", kOwner[] = "local/shop/totals";

class ToolsTest : public testing::Test {
 protected:
  void SetUp() override {
    log::EmbeddedLogOptions options;
    options.directory = folder_.path();
    auto opened = log::EmbeddedLog::Open(options);
    ASSERT_TRUE(opened.ok()) << opened.status();
    embedded_ = *std::move(opened);
    log_ = std::make_unique<log::FaultyLog>(embedded_.get());
    MakeTopic("orders", 2);
    MakeTopic("changes", 2);
  }

  void MakeTopic(const std::string& name, int partitions) {
    ASSERT_TRUE(log_->admin().CreateTopic({.name = name, .partitions = partitions, .config = {}}).ok());
  }
  void Produce(const std::string& topic, int partition, MaybeBytes key, MaybeBytes value, Headers headers = {},
               int64_t timestamp_ms = 1000) {
    const auto writer = embedded_->NewPlainWriter();
    log::OutgoingRecord record{.to = {topic, Partition(partition)},
                               .timestamp_ms = timestamp_ms,
                               .key = std::move(key),
                               .value = std::move(value),
                               .headers = std::move(headers)};
    ASSERT_TRUE(writer->Append({record}).ok());
    ASSERT_TRUE(writer->Flush().ok());
  }
  void ProduceMany(const std::string& topic, int partition, int count) {
    for (int i = 0; i < count; ++i) Produce(topic, partition, StrCat("k", i), StrCat("v", i));
  }
  void SetOffset(const std::string& topic, int partition, int64_t next, const std::string& owner = kOwner) {
    const std::pair<TopicPartition, log::GroupOffset> offset = {
        {topic, Partition(partition)}, {.next = Offset(next), .metadata = OffsetMetadata(owner, "w/1/1")}};
    ASSERT_TRUE(embedded_->admin().SetGroupOffsets(kGroup, {offset}).ok());
  }
  // "5 by local/shop/totals"; "none".
  std::string OffsetText(const std::string& topic, int partition, const std::string& group = kGroup) {
    const TopicPartition of{topic, Partition(partition)};
    const auto offsets = embedded_->admin().StableGroupOffsets(group, {of});
    if (!offsets.ok()) return std::string(offsets.status().message());
    const auto found = offsets->find(of);
    if (found == offsets->end()) return "none";
    return StrCat(found->second.next.value(), " by ", OwnerOf(found->second.metadata));
  }
  std::vector<log::Record> ReadAll(const std::string& topic, int partition) {
    const TopicPartition of{topic, Partition(partition)};
    std::vector<log::Record> all;
    const absl::StatusOr<Range> range = StableRange(embedded_.get(), of);
    EXPECT_TRUE(range.ok()) << range.status();
    const absl::Status read = ReadRange(embedded_.get(), of, *range, [&](std::vector<log::Record> records) {
      for (log::Record& record : records) all.push_back(std::move(record));
      return absl::OkStatus();
    });
    EXPECT_TRUE(read.ok()) << read;
    return all;
  }
  // What a restore would make of a changelog partition.
  std::map<Bytes, Bytes> StateIn(const std::string& topic, int partition) {
    std::map<Bytes, Bytes> state;
    for (const log::Record& record : ReadAll(topic, partition)) {
      state.erase(*record.key);
      if (record.value.has_value()) state[*record.key] = *record.value;
    }
    return state;
  }

  ResetRequest Reset(Kind kind, int64_t number = 0) {
    ResetRequest request;
    request.group = kGroup;
    request.owner = kOwner;
    request.inputs = {{.topic = "orders", .start_from = {}}};
    request.changelogs = {"changes"};
    request.target = {kind, number};
    return request;
  }
  absl::StatusOr<ResetOutcome> PlanAndExecute(const ResetRequest& request) {
    const absl::StatusOr<ResetPlan> plan = PlanReset(log_.get(), request);
    if (!plan.ok()) return plan.status();
    absl::StatusOr<ResetOutcome> outcome = ExecuteReset(log_.get(), request, *plan);
    if (outcome.ok() && !outcome->status.ok()) return outcome->status;
    return outcome;
  }

  log::embedded::TestFolder folder_;
  std::unique_ptr<log::EmbeddedLog> embedded_;
  std::unique_ptr<log::FaultyLog> log_;
};

TEST_F(ToolsTest, ResetMovesOffsetsAndEmptiesStateTogether) {
  ProduceMany("orders", 0, 5);
  ProduceMany("orders", 1, 3);
  SetOffset("orders", 0, 5);
  SetOffset("orders", 1, 2);
  Produce("changes", 0, "a", "1");
  Produce("changes", 0, "b", "1");
  Produce("changes", 0, "a", "2");
  Produce("changes", 1, "c", "1");
  Produce("changes", 1, "c", std::nullopt);
  const absl::StatusOr<ResetOutcome> outcome = PlanAndExecute(Reset(Kind::kEarliest));
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_THAT(outcome->tasks, ElementsAre(0, 1));
  EXPECT_EQ(outcome->tombstones, 3);  // c as well: whether a later tombstone follows is not known when it is read
  EXPECT_EQ(OffsetText("orders", 0), "0 by local/shop/totals");
  EXPECT_EQ(OffsetText("orders", 1), "0 by local/shop/totals");
  EXPECT_THAT(StateIn("changes", 0), IsEmpty());
  EXPECT_THAT(StateIn("changes", 1), IsEmpty());
}

TEST_F(ToolsTest, APlanChangesNothingAndSaysWhereFromAndTo) {
  ProduceMany("orders", 0, 5);
  SetOffset("orders", 0, 4);
  Produce("changes", 0, "a", "1");
  const absl::StatusOr<ResetPlan> plan = PlanReset(log_.get(), Reset(Kind::kLatest));
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->rows.size(), 2u);
  EXPECT_EQ(plan->rows[0].from, Offset(4));
  EXPECT_EQ(plan->rows[0].to, Offset(5));
  EXPECT_FALSE(plan->rows[1].from.has_value());
  EXPECT_EQ(plan->changelog_offsets, 1);
  EXPECT_EQ(OffsetText("orders", 0), "4 by local/shop/totals");
  EXPECT_THAT(StateIn("changes", 0), ElementsAre(Pair("a", "1")));
}

TEST_F(ToolsTest, StateIsKeptWhenNoChangelogIsGiven) {
  ProduceMany("orders", 0, 5);
  SetOffset("orders", 0, 4);
  Produce("changes", 0, "a", "1");
  ResetRequest request = Reset(Kind::kOffset, 2);
  request.changelogs.clear();
  request.partitions = {0};
  ASSERT_TRUE(PlanAndExecute(request).ok());
  EXPECT_EQ(OffsetText("orders", 0), "2 by local/shop/totals");
  EXPECT_EQ(OffsetText("orders", 1), "none");
  EXPECT_THAT(StateIn("changes", 0), ElementsAre(Pair("a", "1")));
}

TEST_F(ToolsTest, EveryTargetIsResolvedPerPartition) {
  for (int i = 0; i < 6; ++i) Produce("orders", 0, "k", "v", {}, 1000 * i);
  SetOffset("orders", 0, 3);
  const auto to = [&](Kind kind, int64_t number) -> int64_t {
    ResetRequest request = Reset(kind, number);
    request.partitions = {0};
    const absl::StatusOr<ResetPlan> plan = PlanReset(log_.get(), request);
    return plan.ok() ? plan->rows[0].to.value() : -1;
  };
  EXPECT_EQ(to(Kind::kStart, 0), 0);
  EXPECT_EQ(to(Kind::kTime, 1500), 2);
  EXPECT_EQ(to(Kind::kTime, 1'000'000), 6);
  EXPECT_EQ(to(Kind::kBy, -2), 1);
  EXPECT_EQ(to(Kind::kBy, -20), 0);
  EXPECT_EQ(to(Kind::kBy, 2), 5);
  EXPECT_EQ(to(Kind::kOffset, 6), 6);
  EXPECT_EQ(to(Kind::kOffset, 7), -1);
  ResetRequest latest = Reset(Kind::kStart);
  latest.inputs[0].start_from.type = spec::StartFrom::Type::kLatest;
  EXPECT_EQ(PlanReset(log_.get(), latest)->rows[0].to, Offset(6));
  EXPECT_THAT(std::string(PlanReset(log_.get(), Reset(Kind::kBy, 1)).status().message()), HasSubstr("orders-1"));
  EXPECT_EQ(ParseResetTarget("2024-05-01T00:00:00Z")->number, 1714521600000);
  EXPECT_THAT(std::string(ParseResetTarget("-5").status().message()), HasSubstr("earliest"));
}

TEST_F(ToolsTest, ResetRefusesWhileMembersAreAliveAndNamesThem) {
  ProduceMany("orders", 0, 2);
  SetOffset("orders", 0, 2);
  const auto token = embedded_->JoinGroup(kGroup, "pod-7");
  ASSERT_TRUE(token.ok());
  EXPECT_THAT(PlanReset(log_.get(), Reset(Kind::kEarliest))->members, ElementsAre("pod-7 (localhost)"));
  const absl::Status refused = PlanAndExecute(Reset(Kind::kEarliest)).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("pod-7"));
  EXPECT_EQ(OffsetText("orders", 0), "2 by local/shop/totals");
  embedded_->LeaveGroup(*token);
  EXPECT_TRUE(PlanAndExecute(Reset(Kind::kEarliest)).ok());
}

TEST_F(ToolsTest, AMemberThatJoinsMeanwhileIsNoticedAndNothingHappens) {
  SetOffset("orders", 0, 2);
  Produce("changes", 0, "a", "1");
  const auto writer = EmptyGroupWriter::Open(log_.get(), kGroup, "shop.totals-reset", kOwner);
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE(
      (*writer)
          ->Append({{.to = {"changes", Partition(0)}, .timestamp_ms = 1, .key = "a", .value = {}, .headers = {}}})
          .ok());
  ASSERT_TRUE(embedded_->JoinGroup(kGroup, "pod-7").ok());
  EXPECT_FALSE((*writer)->Commit({{{"orders", Partition(0)}, Offset(0)}}).ok());
  EXPECT_EQ(OffsetText("orders", 0), "2 by local/shop/totals");
  EXPECT_THAT(StateIn("changes", 0), ElementsAre(Pair("a", "1")));
}

TEST_F(ToolsTest, ResetWaitsForTheTransactionOfADeadOwner) {
  ProduceMany("orders", 0, 2);
  SetOffset("orders", 0, 1);
  const auto dead = embedded_->NewTransactionalWriter({.transactional_id = "shop.totals-a"});
  ASSERT_TRUE(dead->Init().ok());
  ASSERT_TRUE(dead->Begin().ok());
  ASSERT_TRUE(
      dead->Append({{.to = {"changes", Partition(0)}, .timestamp_ms = 1, .key = "a", .value = "1", .headers = {}}})
          .ok());
  ASSERT_TRUE(dead->Flush().ok());
  Produce("changes", 0, "b", "1");  // committed, behind the open one
  std::thread end([&] {
    absl::SleepFor(absl::Milliseconds(300));
    EXPECT_TRUE(dead->Commit().ok());
  });
  const absl::StatusOr<ResetOutcome> outcome = PlanAndExecute(Reset(Kind::kEarliest));
  end.join();
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_THAT(StateIn("changes", 0), IsEmpty());
}

TEST_F(ToolsTest, AnUnknownOutcomeIsSettledByLooking) {
  ProduceMany("orders", 0, 2);
  SetOffset("orders", 0, 2);
  SetOffset("orders", 1, 0);
  Produce("changes", 0, "a", "1");
  log_->Inject({.call = log::Call::kCommit, .when = log::Fault::When::kAfter, .status = log::OutcomeUnknown()});
  const absl::StatusOr<ResetOutcome> happened = PlanAndExecute(Reset(Kind::kEarliest));
  ASSERT_TRUE(happened.ok()) << happened.status();
  EXPECT_THAT(happened->tasks, ElementsAre(0, 1));
  EXPECT_EQ(OffsetText("orders", 0), "0 by local/shop/totals");

  SetOffset("orders", 0, 2);
  Produce("changes", 0, "a", "1");
  log_->Inject({.call = log::Call::kCommit, .when = log::Fault::When::kBefore, .status = log::OutcomeUnknown()});
  EXPECT_FALSE(PlanAndExecute(Reset(Kind::kEarliest)).ok());
  EXPECT_EQ(OffsetText("orders", 0), "2 by local/shop/totals");
  EXPECT_THAT(StateIn("changes", 0), ElementsAre(Pair("a", "1")));
}

TEST_F(ToolsTest, AForeignGroupIsRefusedUntilItIsAdopted) {
  ProduceMany("orders", 0, 2);
  SetOffset("orders", 0, 2, "east/shop/totals");
  const absl::Status refused = PlanAndExecute(Reset(Kind::kEarliest)).status();
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("GroupOwnedByAnother"), HasSubstr("east/shop/totals"), HasSubstr("millstream adopt")));
  const AdoptRequest request{.group = kGroup, .owner = kOwner, .topics = {"orders"}};
  const absl::StatusOr<AdoptPlan> plan = PlanAdoption(log_.get(), request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->rows.size(), 1u);
  EXPECT_EQ(plan->rows[0].owner, "east/shop/totals");
  EXPECT_EQ(OffsetText("orders", 0), "2 by east/shop/totals");
  ASSERT_TRUE(ExecuteAdoption(log_.get(), request, *plan).ok());
  EXPECT_EQ(OffsetText("orders", 0), "2 by local/shop/totals");
  EXPECT_TRUE(PlanAndExecute(Reset(Kind::kEarliest)).ok());
  EXPECT_EQ(PlanAdoption(log_.get(), request)->already_ours, 2);
}

class DeadLettersTest : public ToolsTest {
 protected:
  void SetUp() override {
    ToolsTest::SetUp();
    MakeTopic("letters", 2);
    request_.group = kGroup;
    request_.owner = kOwner;
    request_.topic = "letters";
    request_.limit = 0;
  }
  static Headers ErrorHeaders(int origin_partition) {
    return {{"mine", "x"},
            {"millstream.error.class", "Handler"},
            {"millstream.error.message", "KeyError: 'amount'\ntraceback"},
            {"millstream.error.topic", "orders"},
            {"millstream.error.partition", StrCat(origin_partition)},
            {"millstream.error.offset", "17"},
            {"millstream.error.attempts", "3"}};
  }
  void Bury(int partition, const std::string& key, const std::string& value, int origin_partition) {
    Produce("letters", partition, key, value, ErrorHeaders(origin_partition), 4711);
  }
  DeadLetterRequest request_;
};

TEST_F(DeadLettersTest, ReplaySendsEveryLetterBackOnceAsItWas) {
  Bury(0, "a", "1", 1);
  Bury(1, "b", "2", 0);
  Bury(0, "c", "3", 9);  // a partition that orders does not have (any more)
  const absl::StatusOr<ReplayReport> preview = ReplayDeadLetters(log_.get(), request_, false);
  ASSERT_TRUE(preview.ok()) << preview.status();
  EXPECT_EQ(preview->records, 3);
  EXPECT_THAT(ReadAll("orders", 1), IsEmpty());

  const absl::StatusOr<ReplayReport> replay = ReplayDeadLetters(log_.get(), request_, true);
  ASSERT_TRUE(replay.ok()) << replay.status();
  EXPECT_EQ(replay->to, preview->to);
  std::vector<log::Record> all = ReadAll("orders", 0), one = ReadAll("orders", 1);
  all.insert(all.end(), one.begin(), one.end());
  ASSERT_EQ(all.size(), 3u);
  for (const log::Record& record : all) {
    EXPECT_EQ(record.timestamp_ms, 4711);
    EXPECT_THAT(record.headers, ElementsAre(Header{"mine", "x"}));
  }
  ASSERT_FALSE(one.empty());
  EXPECT_EQ(one[0].key, "a");
  EXPECT_EQ(OffsetText("letters", 0, ReplayGroup(kGroup)), "2 by local/shop/totals");

  // Nothing is sent twice; what comes later is sent.
  EXPECT_EQ(ReplayDeadLetters(log_.get(), request_, true)->records, 0);
  Bury(1, "d", "4", 1);
  EXPECT_EQ(ReplayDeadLetters(log_.get(), request_, true)->records, 1);
  EXPECT_EQ(ReadAll("orders", 0).size() + ReadAll("orders", 1).size(), 4u);
}

TEST_F(DeadLettersTest, ReplayAfterOneThatWasKilledSendsNothingTwice) {
  Bury(0, "a", "1", 0);
  // As a replay leaves it that is killed before its commit.
  const auto killed = embedded_->NewTransactionalWriter({.transactional_id = StrCat(kGroup, "-dead-letter-replay")});
  ASSERT_TRUE(killed->Init().ok());
  ASSERT_TRUE(killed->Begin().ok());
  ASSERT_TRUE(
      killed->Append({{.to = {"orders", Partition(0)}, .timestamp_ms = 1, .key = "a", .value = "1", .headers = {}}})
          .ok());
  ASSERT_TRUE(killed->Flush().ok());
  ASSERT_TRUE(ReplayDeadLetters(log_.get(), request_, true).ok());
  EXPECT_FALSE(killed->Commit().ok());
  EXPECT_EQ(ReadAll("orders", 0).size(), 1u);
}

TEST_F(DeadLettersTest, ManyLettersAndAFailureInBetween) {
  const auto writer = embedded_->NewPlainWriter();
  std::vector<log::OutgoingRecord> letters;
  for (int i = 0; i < 2500; ++i) {
    letters.push_back({.to = {"letters", Partition(0)},
                       .timestamp_ms = 1,
                       .key = StrCat("k", i),
                       .value = "v",
                       .headers = ErrorHeaders(0)});
  }
  ASSERT_TRUE(writer->Append(std::move(letters)).ok());
  ASSERT_TRUE(writer->Flush().ok());
  log_->Inject({.call = log::Call::kCommit, .skip = 1, .status = log::Fenced()});
  EXPECT_FALSE(ReplayDeadLetters(log_.get(), request_, true).ok());
  EXPECT_EQ(ReadAll("orders", 0).size(), 1000u);
  request_.limit = 700;
  EXPECT_TRUE(ReplayDeadLetters(log_.get(), request_, true)->more);
  EXPECT_EQ(ReadAll("orders", 0).size(), 1700u);
  request_.limit = 0;
  ASSERT_TRUE(ReplayDeadLetters(log_.get(), request_, true).ok());
  const std::vector<log::Record> sent = ReadAll("orders", 0);
  ASSERT_EQ(sent.size(), 2500u);
  for (int i = 0; i < 2500; ++i) ASSERT_EQ(*sent[i].key, StrCat("k", i));
}

TEST_F(DeadLettersTest, ForeignRecordsAreNamedAndPassedOverOnlyWhenAsked) {
  Bury(0, "a", "1", 0);
  Produce("letters", 0, "x", "y");
  Bury(0, "b", "1", 0);
  const absl::Status refused = ReplayDeadLetters(log_.get(), request_, true).status();
  EXPECT_THAT(std::string(refused.message()), AllOf(HasSubstr("letters-0 offset 1"), HasSubstr("--skip-foreign")));
  EXPECT_THAT(ReadAll("orders", 0), IsEmpty());
  request_.skip_foreign = true;
  EXPECT_EQ(ReplayDeadLetters(log_.get(), request_, true)->foreign, 1);
  EXPECT_EQ(ReadAll("orders", 0).size(), 2u);
}

TEST_F(DeadLettersTest, TheListShowsWhatWasNotReplayed) {
  Bury(0, "a", "1", 1);
  request_.limit = 100;
  absl::StatusOr<DeadLetterList> list = ListDeadLetters(log_.get(), request_);
  ASSERT_TRUE(list.ok()) << list.status();
  ASSERT_EQ(list->rows.size(), 1u);
  EXPECT_EQ(list->rows[0].origin->topic, "orders");
  EXPECT_EQ(list->rows[0].origin->offset, 17);
  EXPECT_EQ(list->rows[0].origin->attempts, "3");
  ASSERT_TRUE(ReplayDeadLetters(log_.get(), request_, true).ok());
  EXPECT_THAT(ListDeadLetters(log_.get(), request_)->rows, IsEmpty());
  request_.all = true;
  list = ListDeadLetters(log_.get(), request_);
  ASSERT_EQ(list->rows.size(), 1u);
  EXPECT_TRUE(list->rows[0].replayed);
  request_.topic = "nothing";
  EXPECT_THAT(std::string(ListDeadLetters(log_.get(), request_).status().message()), HasSubstr("onFailure"));
}

TEST_F(ToolsTest, LagCountsWhatIsLeftAndSeesLostOffsets) {
  ProduceMany("orders", 0, 5);
  ProduceMany("orders", 1, 3);
  SetOffset("orders", 0, 2);
  const absl::StatusOr<LagReport> report = ReadLag(log_.get(), {.group = kGroup, .topics = {"orders"}});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->state, "Empty");
  ASSERT_EQ(report->partitions.size(), 2u);
  EXPECT_EQ(report->partitions[0].lag(), 3);
  EXPECT_EQ(report->partitions[1].lag(), 3);
  EXPECT_FALSE(report->partitions[1].committed.has_value());
  SetOffset("orders", 0, 9);
  EXPECT_TRUE(ReadLag(log_.get(), {.group = kGroup, .topics = {"orders"}})->partitions[0].lost());
  EXPECT_EQ(ReadLag(log_.get(), {.group = kGroup, .topics = {}})->partitions.size(), 1u);
  EXPECT_EQ(ReadLag(log_.get(), {.group = "nobody", .topics = {"orders"}})->state, "Dead");
}

TEST_F(ToolsTest, RequestsSurviveTheControlSocket) {
  ProduceMany("orders", 0, 3);
  SetOffset("orders", 0, 3);
  Produce("changes", 0, "a", "1");
  nlohmann::json request = ToJson(Reset(Kind::kOffset, 1));
  request["partitions"] = {0};
  request["execute"] = true;
  const absl::StatusOr<std::string> answer = RunTool(log_.get(), kResetTool, request.dump());
  ASSERT_TRUE(answer.ok()) << answer.status();
  const nlohmann::json done = nlohmann::json::parse(*answer);
  EXPECT_EQ(done.at("done").at("tasks"), nlohmann::json::array({0}));
  EXPECT_EQ(done.at("partitions").at(0).at("to"), 1);
  EXPECT_EQ(OffsetText("orders", 0), "1 by local/shop/totals");
  EXPECT_THAT(StateIn("changes", 0), IsEmpty());
  EXPECT_TRUE(absl::IsUnimplemented(RunTool(log_.get(), "nothing", "{}").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(RunTool(log_.get(), kLagTool, "{}").status()));
}

}  // namespace
}  // namespace millstream::cli
