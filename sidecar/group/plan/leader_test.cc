#include "sidecar/group/plan/leader.h"

#include "common/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sidecar/group/plan/group_protocol.h"
#include "sidecar/group/plan/tagged_fields.h"
#include "sidecar/group/wire/consumer_protocol.h"
#include "sidecar/group/wire/message.h"

namespace millstream::group {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

MemberData DataOf(const std::string& name, int tasks) {
  MemberData data;
  data.host = name + ":8080";
  data.tasks = tasks;
  data.transactional_ids = {StrCat("orders-", name, "-0-a"), StrCat("orders-", name, "-0-b")};
  return data;
}

wire::JoinGroupResponse Joined(int generation, const std::vector<MemberData>& members) {
  wire::JoinGroupResponse joined;
  joined.generation = generation;
  for (const MemberData& data : members) {
    const std::string id = StrCat(data.host, "-id");
    joined.members.push_back({id, "", EncodeSubscription(data, {"in"}, static_cast<int>(members.size()))});
    if (joined.leader.empty()) joined.leader = joined.member_id = id;
  }
  return joined;
}

MemberData FullData() {
  MemberData data = DataOf("a", 9);
  data.draining = true;
  data.manual = {TaskId(0), TaskId(3), TaskId(4'000)};
  data.owned = {{TaskId(0), Generation(4)}, {TaskId(3), Generation(-1)}, {TaskId(900'000), Generation(INT32_MAX)}};
  data.positions = {{TaskId(0), 0, 5}, {TaskId(7), int64_t{1} << 50, -1}};
  data.roster = {.generation = Generation(5), .transactional_ids = {"", "orders-a-0-a", "orders-a-0-b", "orders-b"}};
  data.nonce = UINT64_MAX;
  return data;
}

TEST(MemberDataTest, ComesBackAsItWent) {
  for (MemberData data : {FullData(), MemberData()}) {
    const auto read = DecodeMemberData(EncodeMemberData(data, 1 << 20));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->version, kUserDataVersion);
    data.version = kUserDataVersion;
    EXPECT_EQ(*read, data);
  }
}

TEST(MemberDataTest, PositionsAreLeftOutWhereThereIsNoRoom) {
  const MemberData data = FullData();
  const std::string whole = EncodeMemberData(data, 1 << 20), cut = EncodeMemberData(data, 10);
  EXPECT_LT(cut.size(), whole.size());
  const auto read = DecodeMemberData(cut);
  ASSERT_TRUE(read.ok());
  EXPECT_THAT(read->positions, IsEmpty());
  EXPECT_EQ(read->owned, data.owned);
  EXPECT_EQ(read->roster, data.roster);
}

TEST(MemberDataTest, ANewerReleaseIsReadAsFarAsItGoes) {
  std::string bytes = EncodeMemberData(FullData(), 1 << 20);
  bytes[2] = 2;                         // its version
  bytes += std::string("\xc8\x03zzz");  // a field of its own
  auto read = DecodeMemberData(bytes);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->version, 2);
  EXPECT_EQ(read->owned, FullData().owned);
  bytes[3] = 2;  // which older ones must not miss
  read = DecodeMemberData(bytes);
  EXPECT_TRUE(absl::IsUnimplemented(read.status()));
  EXPECT_THAT(std::string(read.status().message()), HasSubstr("upgrade"));
}

TEST(MemberDataTest, NothingOfWhatIsCutOrDamagedBreaksTheReader) {
  const std::string whole = EncodeMemberData(FullData(), 1 << 20);
  for (size_t size = 0; size < whole.size(); ++size) {
    DecodeMemberData(whole.substr(0, size)).status().IgnoreError();
    std::string damaged = whole;
    for (const unsigned char byte : {0x00, 0x7f, 0xff}) {
      damaged[size] = static_cast<char>(byte);
      DecodeMemberData(damaged).status().IgnoreError();
    }
  }
  EXPECT_FALSE(DecodeMemberData("").ok());
  EXPECT_FALSE(DecodeMemberData("MX\x01\x01").ok());
}

TEST(AssignmentDataTest, ComesBackAsItWent) {
  AssignmentData data;
  data.version = kUserDataVersion;
  data.active = {TaskId(1), TaskId(2), TaskId(300)};
  data.give_up = {TaskId(0)};
  data.members = 12;
  data.plan_hash = UINT64_MAX - 4;
  data.leader_host = "pod-0:8080";
  data.roster = FullData().roster;
  const auto read = ReadAssignment(EncodeAssignment(data, {"in", "loop"}));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, data);
  EXPECT_THAT(ReadAssignment("")->active, IsEmpty());
}

TEST(AssignmentDataTest, KafkasToolsSeePartitionsOfEveryTopic) {
  AssignmentData data;
  data.active = {TaskId(1), TaskId(4)};
  const auto read = wire::DecodeMessage<wire::Assignment>(EncodeAssignment(data, {"in", "loop"}));
  ASSERT_TRUE(read.ok());
  ASSERT_EQ(read->partitions.size(), 2u);
  EXPECT_EQ(read->partitions[1].topic, "loop");
  EXPECT_THAT(read->partitions[1].partitions, ElementsAre(1, 4));
}

TEST(LeaderTest, WhoWasInTheLastPlanAndIsNotHereHasVanished) {
  MemberData a = DataOf("a", 2), b = DataOf("b", 2);
  const Roster old{.generation = Generation(3), .transactional_ids = {"orders-x-0-a"}};
  // The newest roster counts, whoever brings it.
  b.roster = {.generation = Generation(4),
              .transactional_ids = {"orders-a-0-a", "orders-a-0-b", "orders-c-0-a", "orders-c-0-b"}};
  const GenerationPlan plan = PrepareGeneration(Joined(5, {a, b}), old);
  EXPECT_THAT(plan.vanished, ElementsAre("orders-c-0-a", "orders-c-0-b"));
  EXPECT_TRUE(plan.unreadable.ok());
  // What could not be ended is the next leader's work; what was, nobody's.
  const EncodedPlan encoded = EncodePlan(plan, {"in"}, {"orders-c-0-b"}, "a:8080-id");
  EXPECT_THAT(encoded.roster.transactional_ids,
              ElementsAre("orders-a-0-a", "orders-a-0-b", "orders-b-0-a", "orders-b-0-b", "orders-c-0-b"));
  EXPECT_EQ(encoded.roster.generation, Generation(5));
  for (const auto& item : encoded.assignments) {
    const auto data = ReadAssignment(item.assignment);
    ASSERT_TRUE(data.ok());
    EXPECT_EQ(data->roster, encoded.roster);
    EXPECT_EQ(data->members, 2);
    EXPECT_EQ(data->leader_host, "a:8080");
    EXPECT_EQ(data->plan_hash, encoded.plan_hash);
  }
}

TEST(LeaderTest, BesideAMemberThatCannotBeReadNobodyGetsANewTask) {
  MemberData a = DataOf("a", 4), b = DataOf("b", 4);
  a.owned = {{TaskId(0), Generation(1)}};
  wire::JoinGroupResponse joined = Joined(2, {a, b});
  wire::Subscription foreign;
  foreign.user_data = "MS\x09\x09";
  joined.members.push_back({"newer", "", wire::EncodeMessage(foreign)});
  const GenerationPlan plan = PrepareGeneration(joined, Roster());
  EXPECT_TRUE(absl::IsUnimplemented(plan.unreadable));
  EXPECT_THAT(std::string(plan.unreadable.message()), HasSubstr("newer"));
  EXPECT_THAT(plan.members[0].plan.active, ElementsAre(TaskId(0)));
  EXPECT_THAT(plan.members[1].plan.active, IsEmpty());
  EXPECT_THAT(plan.members[2].plan.active, IsEmpty());
}

TEST(LeaderTest, ALargeGroupStaysUnderTheBrokersLimit) {
  constexpr int kMembers = 500, kTasks = 10'000;
  std::vector<MemberData> members;
  for (int i = 0; i < kMembers; ++i) {
    members.push_back(DataOf(StrCat("orders-totals-", i, ".orders-totals.production.svc"), kTasks));
    for (int task = i; task < kTasks; task += kMembers) {
      members.back().owned.push_back({TaskId(task), Generation(1'000)});
      members.back().positions.push_back({TaskId(task), 123'456'789'012, 123'456'789'999});
    }
  }
  const GenerationPlan plan = PrepareGeneration(Joined(1'001, members), Roster());
  EncodedPlan encoded = EncodePlan(plan, {"orders", "orders-totals-loop"}, {}, plan.members[0].member_id);
  EXPECT_LT(encoded.total_bytes, kMaxGroupBytes);
  // Some hold the roster; with it in their data it still fits, and the next leader learns who is gone.
  int holders = 0;
  for (int i = 0; i < kMembers; ++i) {
    members[i].roster = ReadAssignment(encoded.assignments[i].assignment)->roster;
    holders += static_cast<int>(!members[i].roster.empty());
  }
  EXPECT_EQ(holders, 3);
  members.erase(members.begin());
  const GenerationPlan next = PrepareGeneration(Joined(1'002, members), Roster());
  EXPECT_EQ(next.vanished, DataOf("orders-totals-0.orders-totals.production.svc", 0).transactional_ids);
  EXPECT_LT(EncodePlan(next, {"orders", "orders-totals-loop"}, {}, next.members[0].member_id).total_bytes,
            kMaxGroupBytes);
}

}  // namespace
}  // namespace millstream::group
