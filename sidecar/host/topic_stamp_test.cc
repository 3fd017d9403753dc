#include "sidecar/host/topic_stamp.h"

#include "common/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millstream::host {
namespace {

using ::testing::HasSubstr;
using Role = KnownTopic::Role;
using Committed = std::map<TopicPartition, log::GroupOffset>;

const TopicPartition kOrders{"orders", Partition(1)}, kReturns{"returns", Partition(1)};

PreparedTopics Topics(const std::string& orders, const std::string& returns, const std::string& changelog) {
  PreparedTopics topics;
  topics.known = {{.role = Role::kInput, .topic = "orders", .id = orders, .partitions = 2},
                  {.role = Role::kInput, .topic = "returns", .id = returns, .partitions = 2},
                  {.role = Role::kChangelog, .topic = "g-s-changelog", .id = changelog, .partitions = 2},
                  {.role = Role::kOutput, .topic = "totals", .id = "o", .partitions = 2}};
  return topics;
}

// As a run with these topics commits it.
log::GroupOffset Offset1(const PreparedTopics& topics) {
  const std::string stamp = TopicStampOf(topics);
  return {Offset(7),
          StrCat(R"({"v":1,"owner":"local/default/p","tag":"x")", stamp.empty() ? "" : ",\"topics\":", stamp, "}")};
}

absl::Status Check(const PreparedTopics& now, const Committed& committed) {
  return CheckTopicStamp("g", now, {kOrders, kReturns}, committed);
}

TEST(TopicStampTest, NamesInputsAndChangelogs) {
  EXPECT_EQ(TopicStampOf(Topics("a", "b", "c")), R"({"g-s-changelog":"c","orders":"a","returns":"b"})");
  EXPECT_EQ(TopicStampOf(Topics("", "", "")), "");
}

TEST(TopicStampTest, TheLoopIsReadAsInputsAre) {
  PreparedTopics before = Topics("a", "b", "c");
  before.known.push_back({.role = Role::kLoop, .topic = "g-loop", .id = "l", .partitions = 2});
  PreparedTopics now = before;
  now.known.back().id = "l2";
  const TopicPartition loop{"g-loop", Partition(1)};
  const Committed committed = {{kOrders, Offset1(before)}, {kReturns, Offset1(before)}, {loop, Offset1(before)}};
  EXPECT_TRUE(Check(before, committed).ok());
  EXPECT_THAT(std::string(Check(now, committed).message()), HasSubstr("loop topic g-loop"));
  // A loop that the manifest has from now on: what was committed before says nothing of it.
  const Committed without = {{kOrders, Offset1(Topics("a", "b", "c"))}, {kReturns, Offset1(Topics("a", "b", "c"))}};
  EXPECT_TRUE(CheckTopicStamp("g", before, {kOrders, kReturns, loop}, without).ok());
}

TEST(TopicStampTest, TheSameTopicsPass) {
  const PreparedTopics topics = Topics("a", "b", "c");
  EXPECT_TRUE(Check(topics, {{kOrders, Offset1(topics)}, {kReturns, Offset1(topics)}}).ok());
  EXPECT_TRUE(Check(topics, {}).ok());
}

TEST(TopicStampTest, ATopicMadeAnewIsRefusedWithBothIds) {
  const PreparedTopics before = Topics("a", "b", "c");
  const Committed committed = {{kOrders, Offset1(before)}, {kReturns, Offset1(before)}};
  const absl::Status input = Check(Topics("a", "b2", "c"), committed);
  EXPECT_TRUE(absl::IsFailedPrecondition(input)) << input;
  for (const char* text : {"TopicRecreated", "input topic returns", "b2 now", "b then", "millstream reset"})
    EXPECT_THAT(std::string(input.message()), HasSubstr(text));
  EXPECT_THAT(std::string(Check(Topics("a", "b", "c2"), committed).message()),
              HasSubstr("changelog topic g-s-changelog"));
  // Its own offsets went with it, those of the others tell.
  EXPECT_THAT(std::string(Check(Topics("a", "b2", "c"), {{kOrders, Offset1(before)}}).message()),
              HasSubstr("input topic returns"));
}

TEST(TopicStampTest, AnOffsetThatWasSetAnewIsOfTheTopicAsItIs) {
  const PreparedTopics before = Topics("a", "b", "c");
  EXPECT_TRUE(Check(Topics("a", "b2", "c"),
                    {{kOrders, Offset1(before)}, {kReturns, {Offset(0), R"({"v":1,"owner":"x","tag":"g-reset/1/1"})"}}})
                  .ok());
}

TEST(TopicStampTest, AnOffsetThatIsMissingBesideOthersIsLost) {
  const PreparedTopics topics = Topics("a", "b", "c");
  const absl::Status lost = Check(topics, {{kOrders, Offset1(topics)}});
  EXPECT_TRUE(absl::IsFailedPrecondition(lost)) << lost;
  EXPECT_THAT(std::string(lost.message()), HasSubstr("OffsetsLost: group g has no committed offset for returns-1"));
  // An input that came into the manifest later has none yet.
  PreparedTopics earlier = topics;
  earlier.known.erase(earlier.known.begin() + 1);
  EXPECT_TRUE(Check(topics, {{kOrders, Offset1(earlier)}}).ok());
}

TEST(TopicStampTest, WithoutIdsOrWithoutAStampNothingIsSaid) {
  const PreparedTopics topics = Topics("a", "b", "c");
  EXPECT_TRUE(Check(Topics("", "", ""), {{kOrders, Offset1(topics)}, {kReturns, Offset1(topics)}}).ok());
  for (const char* metadata :
       {"", "not JSON", "[]", R"({"v":1,"owner":"x"})", R"({"topics":[1]})", R"({"topics":{"orders":5}})"})
    EXPECT_TRUE(Check(topics, {{kOrders, {Offset(7), metadata}}}).ok()) << metadata;
}

TEST(TopicStampTest, StaysWithinWhatBrokersTake) {
  PreparedTopics topics;
  for (int i = 0; i < 100; ++i) {
    topics.known.push_back({.role = i < 60 ? Role::kChangelog : Role::kInput,
                            .topic = StrCat(std::string(100, 't'), i),
                            .id = "0123456789012345678901",
                            .partitions = 1});
  }
  const std::string stamp = TopicStampOf(topics);
  EXPECT_LE(stamp.size(), 3100u);
  EXPECT_THAT(stamp, HasSubstr("t60\""));  // the first input
  EXPECT_EQ(stamp.find("t0\""), std::string::npos);
}

}  // namespace
}  // namespace millstream::host
