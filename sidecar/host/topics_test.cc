#include "sidecar/host/topics.h"

#include <filesystem>

#include "common/log/embedded/embedded_log.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millstream::host {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TopicsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/topics-XXXXXX";
    root_ = mkdtemp(pattern.data());
    auto log = log::EmbeddedLog::Open({.directory = root_});
    ASSERT_TRUE(log.ok()) << log.status();
    log_ = *std::move(log);
    processor_.name = "p";
    processor_.group = "g";
    processor_.inputs.push_back({.name = "in", .topic = "in", .start_from = {}, .prefetch = {}});
    processor_.stores.push_back({.name = "s", .changelog = {.enabled = true, .topic = "g-s-changelog", .config = {}}});
    processor_.outputs.push_back(
        {.name = "out",
         .topic = "out",
         .create = spec::TopicCreation{.partitions = 6, .replication_factor = {}, .config = {}}});
  }
  void TearDown() override {
    log_.reset();
    std::filesystem::remove_all(root_);
  }
  absl::StatusOr<PreparationReport> Prepare(const TopicPreparation& options = {}) {
    return PrepareTopics(&log_->admin(), {&processor_}, options);
  }
  void Make(const std::string& topic, int partitions, std::map<std::string, std::string> config = {}) {
    ASSERT_TRUE(log_->admin().CreateTopic({.name = topic, .partitions = partitions, .config = std::move(config)}).ok());
  }
  int PartitionsOf(const std::string& topic) { return log_->admin().DescribeTopic(topic)->partitions; }

  std::string root_;
  std::unique_ptr<log::EmbeddedLog> log_;
  spec::StreamProcessorSpec processor_;
};

TEST_F(TopicsTest, AChosenPartitionThatIsNotThereIsRefusedWithBothNumbers) {
  processor_.manual_partitions = {0, 5};
  ASSERT_TRUE(Prepare().ok());
  processor_.manual_partitions = {0, 6};
  const absl::Status refused = Prepare().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("partitions.manual names partition 6"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("partitions 0 to 5"));
}

TEST_F(TopicsTest, MakesWhatIsMissing) {
  const auto report = Prepare();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(PartitionsOf("in"), 6);  // the first output's create
  EXPECT_EQ(PartitionsOf("out"), 6);
  EXPECT_EQ(PartitionsOf("g-s-changelog"), 6);
  EXPECT_EQ(log_->admin().DescribeTopic("g-s-changelog")->config["cleanup.policy"], "compact");
  EXPECT_THAT(report->created, ElementsAre("out (6 partitions)", "in (6 partitions)", "g-s-changelog (6 partitions)"));
  EXPECT_EQ(report->processors[0].tasks, 6);
  EXPECT_EQ(report->processors[0].changelog_ids[0], log_->admin().DescribeTopic("g-s-changelog")->id);
  // A second time nothing is made.
  EXPECT_TRUE(Prepare()->created.empty());
}

TEST_F(TopicsTest, TheWishedNumberOfPartitionsIsForInputs) {
  ASSERT_TRUE(Prepare({.partitions = 3}).ok());
  EXPECT_EQ(PartitionsOf("in"), 3);
  EXPECT_EQ(PartitionsOf("g-s-changelog"), 3);
  EXPECT_EQ(PartitionsOf("out"), 6);
}

TEST_F(TopicsTest, NewInputsFollowThoseThatAreThere) {
  Make("other", 5);
  processor_.inputs.push_back({.name = "other", .topic = "other", .start_from = {}, .prefetch = {}});
  ASSERT_TRUE(Prepare({.partitions = 3}).ok());
  EXPECT_EQ(PartitionsOf("in"), 5);
}

TEST_F(TopicsTest, InputsThatDifferAreRefusedWithBothNumbers) {
  Make("in", 2);
  Make("other", 5);
  processor_.inputs.push_back({.name = "other", .topic = "other", .start_from = {}, .prefetch = {}});
  const auto report = Prepare();
  EXPECT_TRUE(absl::IsFailedPrecondition(report.status()));
  EXPECT_THAT(std::string(report.status().message()), HasSubstr("in has 2 and other has 5"));
}

TEST_F(TopicsTest, DriftIsRefused) {
  Make("out", 7);
  EXPECT_THAT(std::string(Prepare().status().message()), HasSubstr("out has 7 partitions, its create block says 6"));
  processor_.outputs[0].create->partitions = 7;
  Make("g-s-changelog", 2, {{"cleanup.policy", "compact"}});
  EXPECT_THAT(std::string(Prepare().status().message()),
              HasSubstr("g-s-changelog has 2 partitions, the inputs have 7"));
}

TEST_F(TopicsTest, AChangelogThatIsNotCompactedIsRefused) {
  Make("g-s-changelog", 6);
  EXPECT_THAT(std::string(Prepare().status().message()),
              HasSubstr("cleanup.policy is delete, but has to be compact (it is not compacted"));
}

TEST_F(TopicsTest, AChangelogWhoseRetentionDeletesIsRefusedToo) {
  Make("g-s-changelog", 6, {{"cleanup.policy", "compact,delete"}});
  EXPECT_THAT(std::string(Prepare().status().message()),
              HasSubstr("cleanup.policy is compact,delete, but has to be compact"));
}

TEST_F(TopicsTest, AnInternalTopicSetOtherwiseThanTheManifestSaysIsRefusedWithBothValues) {
  processor_.internal_topics.config["min.insync.replicas"] = "2";
  Make("g-s-changelog", 6, {{"cleanup.policy", "compact"}, {"min.insync.replicas", "1"}});
  const absl::Status refused = Prepare().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("min.insync.replicas is 1, but has to be 2"));
}

TEST_F(TopicsTest, ADeadLetterTopicTakesWhatItsInputsTake) {
  Make("in", 3, {{"max.message.bytes", "5000000"}});
  processor_.errors.on_failure = spec::FailureAction::kDeadLetter;
  processor_.errors.dead_letter_topic = "g-dead-letter";
  const auto report = Prepare();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(log_->admin().DescribeTopic("g-dead-letter")->config["max.message.bytes"], "5065536");
  EXPECT_EQ(report->processors[0].dead_letter_partitions, 3);
  EXPECT_TRUE(report->warnings.empty());
  EXPECT_TRUE(Prepare()->warnings.empty());
}

TEST_F(TopicsTest, LargestRecordsFollowTheTopics) {
  Make("out", 6, {{"max.message.bytes", "30000"}});
  Make("g-s-changelog", 3, {{"cleanup.policy", "compact"}, {"max.message.bytes", "40000"}});
  Make("in", 3);
  const auto report = Prepare();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->processors[0].output_max_bytes, ElementsAre(30000 - 512));
  EXPECT_THAT(report->processors[0].store_max_bytes, ElementsAre(40000 - 512));
}

TEST_F(TopicsTest, TimesThatOutputsTakeFollowTheTopics) {
  using Pair = std::pair<int64_t, int64_t>;
  const auto bounds = [&](std::map<std::string, std::string> config) {
    (void)log_->admin().DeleteTopic("out");
    Make("out", 6, std::move(config));
    auto report = Prepare();
    EXPECT_TRUE(report.ok()) << report.status();
    const engine::TimestampBounds found = report->processors[0].output_timestamps.at(0);
    return Pair(found.ahead_ms.value_or(-1), found.behind_ms.value_or(-1));
  };
  EXPECT_EQ(bounds({}), Pair(-1, -1));
  EXPECT_EQ(bounds({{"message.timestamp.after.max.ms", "1000"}}), Pair(1000, -1));
  EXPECT_EQ(bounds({{"message.timestamp.before.max.ms", "70"}, {"message.timestamp.difference.max.ms", "90"}}),
            Pair(90, 70));
}

TEST_F(TopicsTest, OnALogThatIsSomebodysInputsAreNotMade) {
  const absl::Status missing = Prepare({.partitions = {}, .create_inputs = false}).status();
  EXPECT_TRUE(absl::IsNotFound(missing)) << missing;
  EXPECT_THAT(std::string(missing.message()), HasSubstr("input topic in does not exist"));
  EXPECT_THAT(std::string(missing.message()), HasSubstr("--partitions"));
}

TEST_F(TopicsTest, AnOutputWithoutCreateMustBeThere) {
  processor_.outputs[0].create.reset();
  EXPECT_TRUE(absl::IsNotFound(Prepare().status()));
  Make("out", 2);
  const auto report = Prepare();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->processors[0].output_partitions, ElementsAre(2));
}

TEST_F(TopicsTest, OutputsOfOneProcessorAreInputsOfAnother) {
  spec::StreamProcessorSpec second;
  second.name = "q";
  second.group = "h";
  second.inputs.push_back({.name = "out", .topic = "out", .start_from = {}, .prefetch = {}});
  const auto report = PrepareTopics(&log_->admin(), {&second, &processor_}, {.partitions = 3});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->processors[0].tasks, 6);
}

}  // namespace
}  // namespace millstream::host
