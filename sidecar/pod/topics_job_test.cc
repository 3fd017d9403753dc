#include "sidecar/pod/topics_job.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "common/log/embedded/embedded_log.h"
#include "common/spec/manifest.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sidecar/host/topics.h"

namespace millstream::pod {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr char kManifest[] =
    "apiVersion: millstream.dev/v1alpha1\nkind: StreamProcessor\nmetadata: {name: totals, namespace: shop}\nspec:\n"
    "  kafka: {bootstrapServers: \"127.0.0.1:1\"}\n  inputs: [{topic: orders}]\n  loop: {}\n"
    "  stores: [{name: sums}, {name: cache, changelog: {enabled: false}}]\n"
    "  outputs: [{topic: out, create: {partitions: 2}}]\n"
    "  errors: {onFailure: DeadLetter";

class TopicsJobTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = "/tmp/ms-topics-job-XXXXXX";
    root_ = mkdtemp(pattern.data());
    auto log = log::EmbeddedLog::Open({.directory = root_ + "/log"});
    ASSERT_TRUE(log.ok()) << log.status();
    log_ = *std::move(log);
  }
  void TearDown() override {
    log_.reset();
    std::filesystem::remove_all(root_);
  }

  spec::StreamProcessorSpec Processor(const std::string& errors = "") {
    const spec::ParseResult parsed = spec::ParseManifests(kManifest + errors + "}\n", "test.yaml");
    EXPECT_TRUE(parsed.ok()) << spec::ToText(parsed.diagnostics);
    return parsed.manifests.at(0).processor;
  }
  void Prepare(const spec::StreamProcessorSpec& processor) {
    const auto prepared = host::PrepareTopics(&log_->admin(), {&processor}, {.partitions = 3});
    ASSERT_TRUE(prepared.ok()) << prepared.status();
  }
  std::vector<std::string> Topics() {
    std::vector<std::string> names;
    const auto topics = log_->admin().ListTopics();
    EXPECT_TRUE(topics.ok());
    for (const log::TopicInfo& topic : *topics) names.push_back(topic.name);
    return names;
  }
  void Commit(const std::string& group) {
    const std::pair<TopicPartition, log::GroupOffset> offset = {{"orders", Partition(0)}, {Offset(0), "{}"}};
    ASSERT_TRUE(log_->admin().SetGroupOffsets(group, {&offset, 1}).ok());
  }

  std::string root_;
  std::unique_ptr<log::EmbeddedLog> log_;
};

TEST_F(TopicsJobTest, DeletesWhatIsTheProcessorsAloneAndCanBeTriedAgain) {
  const spec::StreamProcessorSpec processor = Processor();
  Prepare(processor);
  Commit("shop.totals");
  Commit("shop.totals-dead-letters");
  Commit("another");
  Verdict verdict;
  ASSERT_TRUE(DeleteInternals(log_.get(), processor, &verdict).ok());
  EXPECT_THAT(Topics(), UnorderedElementsAre("orders", "out"));
  EXPECT_THAT(verdict.deleted,
              ElementsAre("shop.totals-loop", "shop.totals-sums-changelog", "shop.totals-dead-letter"));
  EXPECT_EQ(verdict.reason, "TopicsDeleted");
  const auto groups = log_->admin().ListGroups();
  ASSERT_TRUE(groups.ok());
  ASSERT_EQ(groups->size(), 1u);
  EXPECT_EQ(groups->front().group, "another");
  Verdict again;
  EXPECT_TRUE(DeleteInternals(log_.get(), processor, &again).ok());
  EXPECT_THAT(again.deleted, IsEmpty());
}

TEST_F(TopicsJobTest, ADeadLetterTopicWithANameOfItsOwnIsKept) {
  const spec::StreamProcessorSpec processor = Processor(", deadLetterTopic: rejected");
  Prepare(processor);
  Verdict verdict;
  ASSERT_TRUE(DeleteInternals(log_.get(), processor, &verdict).ok());
  EXPECT_THAT(Topics(), UnorderedElementsAre("orders", "out", "rejected"));
  ASSERT_EQ(verdict.warnings.size(), 1u);
  EXPECT_THAT(verdict.warnings[0], HasSubstr("rejected has a name of its own and is kept"));
}

TEST_F(TopicsJobTest, NothingIsDeletedUnderAMember) {
  const spec::StreamProcessorSpec processor = Processor();
  Prepare(processor);
  const size_t before = Topics().size();
  ASSERT_TRUE(log_->JoinGroup(processor.group, "totals-0").ok());
  Verdict verdict;
  const absl::Status refused = DeleteInternals(log_.get(), processor, &verdict);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("GroupInUse: group shop.totals still has 1 member"));
  EXPECT_EQ(Topics().size(), before);
}

TEST_F(TopicsJobTest, AnInvalidManifestIsNotWorthAnotherAttempt) {
  std::ofstream(root_ + "/p.yaml") << "kind: StreamProcessor\n";
  const Verdict verdict = RunTopicsJob({.manifest = root_ + "/p.yaml", .bootstrap_servers = {}, .secrets_folder = {}});
  EXPECT_FALSE(verdict.ok);
  EXPECT_EQ(verdict.reason, "InvalidManifest");
  EXPECT_FALSE(verdict.retry);
}

TEST_F(TopicsJobTest, AMissingSecretIs) {
  std::string text = std::string(kManifest) + "}\n";
  const std::string brokers = "\"127.0.0.1:1\"";
  text.replace(text.find(brokers), brokers.size(),
               brokers + ", sasl: {mechanism: PLAIN, username: u, passwordSecretRef: {name: s, key: k}}");
  std::ofstream(root_ + "/p.yaml") << text;
  const Verdict verdict =
      RunTopicsJob({.manifest = root_ + "/p.yaml", .bootstrap_servers = {}, .secrets_folder = root_});
  EXPECT_EQ(verdict.reason, "SecretUnreadable") << verdict.message;
  EXPECT_TRUE(verdict.retry);
  EXPECT_THAT(verdict.message, HasSubstr(root_ + "/s/k"));
}

}  // namespace
}  // namespace millstream::pod
