#include "sidecar/host/topic_watch.h"

#include <map>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millstream::host {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Topics as the test says; nothing else is asked of it.
class ScriptedAdmin : public log::Admin {
 public:
  void Set(const std::string& topic, absl::StatusOr<log::TopicInfo> answer) {
    absl::MutexLock lock(&mutex_);
    answers_.insert_or_assign(topic, std::move(answer));
  }
  absl::StatusOr<log::TopicInfo> DescribeTopic(const std::string& topic) override {
    absl::MutexLock lock(&mutex_);
    return answers_.at(topic);
  }
  absl::StatusOr<std::vector<log::TopicInfo>> ListTopics() override { return No(); }
  absl::Status CreateTopic(const log::TopicSpec&) override { return No(); }
  absl::Status DeleteTopic(const std::string&) override { return No(); }
  absl::StatusOr<Offset> StartOffset(const TopicPartition&) override { return No(); }
  absl::StatusOr<Offset> EndOffset(const TopicPartition&, log::Isolation) override { return No(); }
  absl::StatusOr<Offset> OffsetForTime(const TopicPartition&, int64_t) override { return No(); }
  absl::StatusOr<std::map<TopicPartition, log::GroupOffset>> StableGroupOffsets(
      const std::string&, absl::Span<const TopicPartition>) override {
    return No();
  }
  absl::Status SetGroupOffsets(const std::string&,
                               absl::Span<const std::pair<TopicPartition, log::GroupOffset>>) override {
    return No();
  }
  absl::StatusOr<std::vector<log::GroupInfo>> ListGroups() override { return No(); }
  absl::Status DeleteGroup(const std::string&) override { return No(); }

 private:
  static absl::Status No() { return absl::UnimplementedError("not asked here"); }
  absl::Mutex mutex_;
  std::map<std::string, absl::StatusOr<log::TopicInfo>> answers_ ABSL_GUARDED_BY(mutex_);
};

log::TopicInfo Topic(const std::string& name, const std::string& id, int partitions) {
  log::TopicInfo info;
  info.name = name;
  info.id = id;
  info.partitions = partitions;
  return info;
}

class TopicWatchTest : public testing::Test {
 protected:
  void SetUp() override {
    admin_.Set("in", Topic("in", "A", 3));
    admin_.Set("out", Topic("out", "B", 2));
    admin_.Set("log", Topic("log", "C", 3));
    TopicWatchOptions options;
    options.topics = {{KnownTopic::Role::kInput, "in", "A", 3},
                      {KnownTopic::Role::kOutput, "out", "B", 2},
                      {KnownTopic::Role::kChangelog, "log", "C", 3}};
    options.tasks = 3;
    options.interval = absl::Milliseconds(2);
    options.patience = absl::Milliseconds(50);
    watch_ = std::make_unique<TopicWatch>(options, &admin_, &SystemClock(), [this](const absl::Status& cause) {
      absl::MutexLock lock(&mutex_);
      broken_ = cause;
    });
  }

  // The only condition, once there is one; empty if there never is.
  Condition Await() {
    const absl::Duration deadline = SystemClock().Monotonic() + absl::Seconds(30);
    while (SystemClock().Monotonic() < deadline) {
      const std::vector<Condition> conditions = watch_->Conditions();
      if (conditions.size() == 1) return conditions[0];
      absl::SleepFor(absl::Milliseconds(1));
    }
    return {};
  }
  void AwaitNothing() {
    const absl::Duration deadline = SystemClock().Monotonic() + absl::Seconds(30);
    while (!watch_->Conditions().empty() && SystemClock().Monotonic() < deadline) absl::SleepFor(absl::Milliseconds(1));
    EXPECT_THAT(watch_->Conditions(), IsEmpty());
  }
  bool AwaitBroken() {
    const auto broken = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !broken_.ok(); };
    absl::MutexLock lock(&mutex_);
    return mutex_.AwaitWithTimeout(absl::Condition(&broken), absl::Seconds(30));
  }

  ScriptedAdmin admin_;
  absl::Mutex mutex_;
  absl::Status broken_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<TopicWatch> watch_;
};

TEST_F(TopicWatchTest, MorePartitionsOfAnInputStopTheTasksWithBothNumbers) {
  admin_.Set("in", Topic("in", "A", 5));
  const Condition condition = Await();
  EXPECT_EQ(condition.reason, "PartitionsChanged");
  EXPECT_THAT(condition.message, HasSubstr("input topic in has 5 partitions now"));
  EXPECT_THAT(condition.message, HasSubstr("started with 3"));
  ASSERT_TRUE(AwaitBroken());
  absl::MutexLock lock(&mutex_);
  EXPECT_THAT(std::string(broken_.message()), HasSubstr("PartitionsChanged"));
}

TEST_F(TopicWatchTest, MorePartitionsOfAnOutputAreOnlySaid) {
  admin_.Set("out", Topic("out", "B", 4));
  const Condition condition = Await();
  EXPECT_EQ(condition.reason, "PartitionsChanged");
  EXPECT_THAT(condition.message, HasSubstr("output topic out has 4 partitions now, records are spread over 2"));
  absl::MutexLock lock(&mutex_);
  EXPECT_TRUE(broken_.ok()) << broken_;
}

TEST_F(TopicWatchTest, AChangelogMadeAnewStopsTheTasks) {
  admin_.Set("log", Topic("log", "D", 3));
  const Condition condition = Await();
  EXPECT_EQ(condition.reason, "TopicRecreated");
  EXPECT_THAT(condition.message, HasSubstr("id D, was C"));
  EXPECT_TRUE(AwaitBroken());
}

TEST_F(TopicWatchTest, ADeletedTopicIsSaidUntilItIsBack) {
  admin_.Set("out", absl::NotFoundError("no such topic"));
  EXPECT_EQ(Await().reason, "TopicDeleted");
  admin_.Set("out", Topic("out", "B", 2));
  AwaitNothing();
}

TEST_F(TopicWatchTest, BrokersThatDoNotAnswerAreSaidAfterAWhile) {
  admin_.Set("in", absl::UnavailableError("connection refused"));
  const Condition condition = Await();
  EXPECT_EQ(condition.reason, "BrokersUnreachable");
  EXPECT_THAT(condition.message, HasSubstr("connection refused"));
  admin_.Set("in", Topic("in", "A", 3));
  AwaitNothing();
}

}  // namespace
}  // namespace millstream::host
