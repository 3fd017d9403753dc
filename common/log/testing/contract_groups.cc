// What every log promises about topics and group offsets.
#include <gmock/gmock.h>

#include <algorithm>
#include <set>
#include <thread>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/log/testing/contract_suite.h"

namespace millstream::log {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using OffsetPair = std::pair<TopicPartition, GroupOffset>;

class OffsetsOf {
 public:
  OffsetsOf(Admin& admin, std::string group, std::vector<TopicPartition> partitions)
      : admin_(admin), group_(std::move(group)), partitions_(std::move(partitions)) {}
  // -1: none; -2: error.
  int64_t operator()(const TopicPartition& tp) const {
    const auto offsets = admin_.StableGroupOffsets(group_, partitions_);
    if (!offsets.ok()) return ADD_FAILURE() << offsets.status(), -2;
    const auto it = offsets->find(tp);
    return it == offsets->end() ? -1 : it->second.next.value();
  }

 private:
  Admin& admin_;
  const std::string group_;
  const std::vector<TopicPartition> partitions_;
};

TEST_P(LogContract, TopicsAreMadeDescribedAndDeleted) {
  const std::string name = Unique("topic");
  EXPECT_TRUE(absl::IsNotFound(admin().DescribeTopic(name).status()));
  ASSERT_TRUE(admin().CreateTopic({name, 3, -1, {{"cleanup.policy", "compact"}}}).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(admin().CreateTopic({name, 3, -1, {}})));
  ASSERT_TRUE(Eventually([&] { return admin().DescribeTopic(name).ok(); }));
  const auto info = admin().DescribeTopic(name);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->name, name);
  EXPECT_EQ(info->partitions, 3);
  EXPECT_EQ(info->config.at("cleanup.policy"), "compact");
  EXPECT_TRUE(info->config.contains("max.message.bytes"));  // defaults are there too
  EXPECT_EQ(info->id.empty(), !backend_->has_topic_ids());
  const auto listed = admin().ListTopics();
  ASSERT_TRUE(listed.ok()) << listed.status();
  EXPECT_TRUE(std::any_of(listed->begin(), listed->end(), [&](const TopicInfo& topic) { return topic.name == name; }));

  WritePlain({To({name, Partition(0)}, "k", "old")});
  ASSERT_TRUE(admin().DeleteTopic(name).ok());
  ASSERT_TRUE(Eventually([&] { return absl::IsNotFound(admin().DescribeTopic(name).status()); }));
  EXPECT_TRUE(absl::IsNotFound(admin().DeleteTopic(name)));
  EXPECT_TRUE(absl::IsNotFound(admin().EndOffset({name, Partition(0)}, Isolation::kReadCommitted).status()));
  // Made again it is another, empty topic.
  absl::Status again;
  ASSERT_TRUE(Eventually([&] {
    again = admin().CreateTopic({name, 1, -1, {}});
    return again.ok();
  })) << again;
  ExpectEnd({name, Partition(0)}, Isolation::kReadUncommitted, 0);
  const auto remade = admin().DescribeTopic(name);
  ASSERT_TRUE(remade.ok()) << remade.status();
  if (backend_->has_topic_ids()) {
    EXPECT_NE(remade->id, info->id);
  }
  WritePlain({To({name, Partition(0)}, "k", "new")});
  EXPECT_THAT(Values(ReadAll({name, Partition(0)})), testing::ElementsAre("new"));
}

TEST_P(LogContract, IllegalTopicsAreRefused) {
  const std::string name = Unique("topic");
  for (const TopicSpec& spec : std::vector<TopicSpec>{{"", 1, -1, {}},
                                                      {"a/b", 1, -1, {}},
                                                      {"..", 1, -1, {}},
                                                      {std::string(250, 'a'), 1, -1, {}},
                                                      {name, 0, -1, {}},
                                                      {name, 1, -1, {{"cleanup.policy", "sometimes"}}},
                                                      {name, 1, -1, {{"no.such.setting", "1"}}},
                                                      {name, 1, -1, {{"retention.ms", "soon"}}}}) {
    const absl::Status status = admin().CreateTopic(spec);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << spec.name << ": " << status;
  }
  EXPECT_TRUE(absl::IsNotFound(admin().DescribeTopic(name).status()));
}

// A broker of Kafka 4 refuses times an hour ahead of its own, unless it is told otherwise.
TEST_P(LogContract, ATopicForEventTimesTakesAnyTime) {
  const std::string name = Unique("topic");
  ASSERT_TRUE(admin().CreateTopic({name, 1, -1, {{"retention.ms", "-1"}}, /*any_timestamp=*/true}).ok());
  const TopicPartition tp{name, Partition(0)};
  ExpectEnd(tp, Isolation::kReadUncommitted, 0);
  const int64_t far_ahead = SystemClock().WallMillis() + int64_t{1000} * 86'400'000;
  WritePlain({To(tp, "k", "past", 1), To(tp, "k", "future", far_ahead)});
  const std::vector<Record> records = ReadAll(tp);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[1].timestamp_ms, far_ahead);
}

TEST_P(LogContract, AppendingToAnUnknownTopicFails) {
  const auto writer = MakeWriter(Unique("writer"));
  ASSERT_TRUE(writer->Begin().ok());
  absl::Status status = writer->Append({To({Unique("nothing"), Partition(0)}, "k", "v")});
  if (status.ok()) status = writer->Flush().status();
  EXPECT_FALSE(status.ok());
  EXPECT_NE(RecoveryOf(status), Recovery::kNone) << status;
}

TEST_P(LogContract, OffsetsForTimes) {
  const TopicPartition tp{MakeTopic(), Partition(0)};
  WritePlain({To(tp, "k", "0", 1000), To(tp, "k", "1", 3000), To(tp, "k", "2", 2000)});
  WritePlain({To(tp, "k", "3", 5000)});
  const auto at = [&](int64_t time) {
    const auto offset = admin().OffsetForTime(tp, time);
    return offset.ok() ? offset->value() : -2;
  };
  EXPECT_EQ(at(0), 0);
  EXPECT_EQ(at(1000), 0);
  EXPECT_EQ(at(1001), 1);
  EXPECT_EQ(at(3001), 3);
  EXPECT_EQ(at(5001), 4);
  EXPECT_TRUE(absl::IsNotFound(admin().OffsetForTime({Unique("nothing"), Partition(0)}, 0).status()));
}

TEST_P(LogContract, OffsetsCommitWithTheirTransaction) {
  const std::string topic = MakeTopic(2), group = Unique("group");
  const TopicPartition a{topic, Partition(0)}, b{topic, Partition(1)};
  WritePlain(Numbered(a, 0, 50));
  const OffsetsOf offset(admin(), group, {a, b});
  const GroupToken token = Join(group);
  const auto writer = MakeWriter(Unique("writer"));
  EXPECT_EQ(offset(a), -1);
  ASSERT_TRUE(writer->Begin().ok());
  const std::string metadata = R"({"v":1,"tag":"x/1/2"})";
  ASSERT_TRUE(writer->SendOffsets(token, {OffsetPair{a, {Offset(42), metadata}}}).ok());
  ASSERT_TRUE(writer->Commit().ok());
  EXPECT_EQ(offset(a), 42);
  EXPECT_EQ(offset(b), -1);
  EXPECT_EQ(admin().StableGroupOffsets(group, {a})->at(a).metadata, metadata);
  // Aborted ones leave no trace.
  ASSERT_TRUE(writer->Begin().ok());
  ASSERT_TRUE(writer->SendOffsets(token, {OffsetPair{a, {Offset(43), ""}}, OffsetPair{b, {Offset(1), ""}}}).ok());
  ASSERT_TRUE(writer->Abort().ok());
  EXPECT_EQ(offset(a), 42);
  EXPECT_EQ(offset(b), -1);
  EXPECT_THAT(*admin().StableGroupOffsets(Unique("other"), {a}), IsEmpty());
}

TEST_P(LogContract, StableReadsWaitForPendingOffsets) {
  const std::string topic = MakeTopic(2), group = Unique("group");
  const TopicPartition a{topic, Partition(0)}, b{topic, Partition(1)};
  const GroupToken token = Join(group);
  const auto writer = MakeWriter(Unique("writer"));
  ASSERT_TRUE(writer->Begin().ok());
  ASSERT_TRUE(writer->SendOffsets(token, {OffsetPair{a, {Offset(7), ""}}}).ok());
  // A partition without pending offsets is not held up.
  EXPECT_EQ(OffsetsOf(admin(), group, {b})(b), -1);
  std::thread committing([&] {
    absl::SleepFor(backend_->quiet());
    EXPECT_TRUE(writer->Commit().ok());
  });
  EXPECT_EQ(OffsetsOf(admin(), group, {a, b})(a), 7);
  committing.join();
}

// Measured on Kafka: the offset appended last wins, not the one committed last.
TEST_P(LogContract, TheOffsetAppendedLastWins) {
  const std::string topic = MakeTopic(), group = Unique("group");
  const TopicPartition tp{topic, Partition(0)};
  const OffsetsOf offset(admin(), group, {tp});
  const GroupToken token = Join(group);
  const auto a = MakeWriter(Unique("a")), b = MakeWriter(Unique("b"));
  const auto send = [&](TransactionalWriter& writer, int64_t next) {
    ASSERT_TRUE(writer.Begin().ok());
    const absl::Status status = writer.SendOffsets(token, {OffsetPair{tp, {Offset(next), ""}}});
    ASSERT_TRUE(status.ok()) << status;
  };
  send(*b, 600);
  send(*a, 500);
  ASSERT_TRUE(a->Commit().ok());
  ASSERT_TRUE(b->Commit().ok());
  EXPECT_EQ(offset(tp), 500);
  send(*a, 100);
  send(*b, 200);
  ASSERT_TRUE(b->Commit().ok());
  ASSERT_TRUE(a->Commit().ok());
  EXPECT_EQ(offset(tp), 200);
  send(*a, 300);
  send(*b, 400);
  ASSERT_TRUE(b->Commit().ok());
  ASSERT_TRUE(a->Abort().ok());
  EXPECT_EQ(offset(tp), 400);
}

TEST_P(LogContract, StaleTokensAreRefusedAndTheWriterGoesOn) {
  const std::string topic = MakeTopic(), group = Unique("group");
  const TopicPartition tp{topic, Partition(0)};
  const GroupToken old = Join(group, "first");
  const auto writer = MakeWriter(Unique("writer"));
  const std::vector<OffsetPair> offsets = {{tp, {Offset(9), ""}}};
  const GroupToken current = Join(group, "first");
  GroupToken stranger = current;
  stranger.member_id = "nobody";
  for (const auto& [token, error] :
       std::vector<std::pair<GroupToken, std::string>>{{old, "ILLEGAL_GENERATION"}, {stranger, "UNKNOWN_MEMBER_ID"}}) {
    ASSERT_TRUE(writer->Begin().ok());
    // Members may have been given other ids by the log; only then is an old token one of an unknown member.
    const absl::Status status = writer->SendOffsets(token, offsets);
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_EQ(RecoveryOf(status), Recovery::kAbort);
    if (token.member_id != old.member_id || old.member_id == current.member_id) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(error));
    }
    ASSERT_TRUE(writer->Abort().ok());
  }
  ASSERT_TRUE(writer->Begin().ok());
  ASSERT_TRUE(writer->SendOffsets(current, offsets).ok());
  ASSERT_TRUE(writer->Commit().ok());
  EXPECT_EQ(OffsetsOf(admin(), group, {tp})(tp), 9);
}

// Measured on Kafka: generations are looked at when offsets are sent, not at the commit.
TEST_P(LogContract, OffsetsSentInOneGenerationCommitInTheNext) {
  const std::string topic = MakeTopic(), group = Unique("group");
  const TopicPartition tp{topic, Partition(0)};
  const GroupToken old = Join(group, "first");
  const auto writer = MakeWriter(Unique("writer"));
  ASSERT_TRUE(writer->Begin().ok());
  Append(*writer, Numbered(tp, 0, 1));
  ASSERT_TRUE(writer->SendOffsets(old, {OffsetPair{tp, {Offset(5), ""}}}).ok());
  Join(group, "second");
  ASSERT_TRUE(writer->Commit().ok());
  EXPECT_EQ(OffsetsOf(admin(), group, {tp})(tp), 5);
  EXPECT_EQ(ReadAll(tp).size(), 1u);
}

TEST_P(LogContract, InitDropsPendingOffsetsOfTheEarlierWriter) {
  const std::string topic = MakeTopic(), group = Unique("group"), id = Unique("writer");
  const TopicPartition tp{topic, Partition(0)};
  const GroupToken token = Join(group);
  const auto first = MakeWriter(id);
  ASSERT_TRUE(first->Begin().ok());
  ASSERT_TRUE(first->SendOffsets(token, {OffsetPair{tp, {Offset(5), ""}}}).ok());
  const auto second = MakeWriter(id);
  EXPECT_EQ(OffsetsOf(admin(), group, {tp})(tp), -1);
}

TEST_P(LogContract, MetadataIsBounded) {
  const std::string topic = MakeTopic(), group = Unique("group");
  const TopicPartition tp{topic, Partition(0)};
  const GroupToken token = Join(group);
  const auto writer = MakeWriter(Unique("writer"));
  ASSERT_TRUE(writer->Begin().ok());
  ASSERT_TRUE(writer->SendOffsets(token, {OffsetPair{tp, {Offset(5), std::string(4096, 'm')}}}).ok());
  ASSERT_TRUE(writer->Commit().ok());
  ASSERT_TRUE(writer->Begin().ok());
  EXPECT_FALSE(writer->SendOffsets(token, {OffsetPair{tp, {Offset(6), std::string(4097, 'm')}}}).ok());
  ASSERT_TRUE(writer->Abort().ok());
  EXPECT_EQ(OffsetsOf(admin(), group, {tp})(tp), 5);
}

TEST_P(LogContract, OffsetsAreSetOnlyWithoutMembersAndGroupsCanBeDeleted) {
  const std::string topic = MakeTopic(), group = Unique("group");
  const TopicPartition tp{topic, Partition(0)};
  const std::vector<OffsetPair> offsets = {{tp, {Offset(3), "by hand"}}};
  ASSERT_TRUE(admin().SetGroupOffsets(group, offsets).ok());
  EXPECT_EQ(OffsetsOf(admin(), group, {tp})(tp), 3);
  const GroupToken token = Join(group);
  EXPECT_TRUE(absl::IsFailedPrecondition(admin().SetGroupOffsets(group, offsets)));
  EXPECT_TRUE(absl::IsFailedPrecondition(admin().DeleteGroup(group)));
  const auto find = [&]() -> std::string {
    const auto groups = admin().ListGroups();
    if (!groups.ok()) return groups.status().ToString();
    for (const GroupInfo& info : *groups) {
      if (info.group == group) return info.state;
    }
    return "none";
  };
  EXPECT_EQ(find(), "Stable");
  const absl::StatusOr<GroupInfo> described = admin().DescribeGroup(group);
  ASSERT_TRUE(described.ok()) << described.status();
  EXPECT_EQ(described->state, "Stable");
  EXPECT_EQ(described->members.size(), 1u);
  EXPECT_EQ(admin().DescribeGroup(Unique("nobody"))->state, "Dead");
  backend_->LeaveGroup(token);
  EXPECT_TRUE(Eventually([&] { return find() == "Empty"; })) << find();
  ASSERT_TRUE(Eventually([&] { return admin().DeleteGroup(group).ok(); }));
  EXPECT_EQ(find(), "none");
  EXPECT_EQ(OffsetsOf(admin(), group, {tp})(tp), -1);
  EXPECT_TRUE(absl::IsNotFound(admin().DeleteGroup(group)));
}

TEST_P(LogContract, NobodysTokenSetsOffsetsOfAGroupWithoutMembers) {
  const std::string topic = MakeTopic(), group = Unique("group");
  const TopicPartition tp{topic, Partition(0)};
  const GroupToken nobody{.group = group, .member_id = "", .instance_id = "", .generation = Generation(-1)};
  const auto writer = MakeWriter(Unique("writer"));
  for (const int next : {4, 2}) {  // a group nobody knows, then an empty one
    ASSERT_TRUE(writer->Begin().ok());
    ASSERT_TRUE(writer->Append({{.to = tp, .timestamp_ms = 1, .key = "k", .value = "v", .headers = {}}}).ok());
    ASSERT_TRUE(writer->Flush().ok());
    const absl::Status sent = writer->SendOffsets(nobody, {OffsetPair{tp, {Offset(next), "by a tool"}}});
    ASSERT_TRUE(sent.ok()) << sent;
    ASSERT_TRUE(writer->Commit().ok());
    EXPECT_EQ(OffsetsOf(admin(), group, {tp})(tp), next);
  }
  // A member joins while the offsets are pending: it waits for the outcome.
  ASSERT_TRUE(writer->Begin().ok());
  ASSERT_TRUE(writer->SendOffsets(nobody, {OffsetPair{tp, {Offset(1), "by a tool"}}}).ok());
  Join(group);
  std::thread outcome([&] {
    absl::SleepFor(backend_->quiet());
    EXPECT_TRUE(writer->Commit().ok());
  });
  EXPECT_EQ(OffsetsOf(admin(), group, {tp})(tp), 1);
  outcome.join();
}

TEST_P(LogContract, AMemberThatLeftIsUnknown) {
  const std::string topic = MakeTopic(), group = Unique("group");
  const TopicPartition tp{topic, Partition(0)};
  const GroupToken token = Join(group);
  backend_->LeaveGroup(token);
  const auto writer = MakeWriter(Unique("writer"));
  ASSERT_TRUE(writer->Begin().ok());
  const absl::Status status = writer->SendOffsets(token, {OffsetPair{tp, {Offset(1), ""}}});
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("UNKNOWN_MEMBER_ID"));
}

}  // namespace
}  // namespace millstream::log
