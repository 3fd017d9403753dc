#include "operator/reconcile/job_run.h"

#include "gtest/gtest.h"
#include "operator/reconcile/topics_job.h"

namespace millstream::reconcile {
namespace {

TEST(JobRunTest, AVerdictIsRead) {
  const TopicsVerdict verdict = ReadVerdict(
      R"({"ok":false,"reason":"BrokersUnreachable","message":"kafka:9092 does not answer","retry":true,"warnings":["slow"]})");
  EXPECT_TRUE(verdict.known);
  EXPECT_FALSE(verdict.ok);
  EXPECT_TRUE(verdict.retry);
  EXPECT_EQ(verdict.reason, "BrokersUnreachable");
  EXPECT_EQ(verdict.message, "kafka:9092 does not answer; slow");
}

TEST(JobRunTest, WhatIsNoVerdictIsNone) {
  EXPECT_FALSE(ReadVerdict("").known);
  EXPECT_FALSE(ReadVerdict("Segmentation fault").known);
  EXPECT_FALSE(ReadVerdict("[1]").known);
  EXPECT_FALSE(ReadVerdict(R"({"reason":"x"})").known);
}

TEST(JobRunTest, TheNewestPodOfTheJobCounts) {
  const kube::Json job = kube::Json::parse(R"({"metadata":{"uid":"j","annotations":{"millstream.dev/attempt":"3"}},
      "status":{"conditions":[{"type":"Failed","status":"True","lastTransitionTime":"2024-01-01T00:00:00Z","message":"late"}]}})");
  const auto pod = [](const char* name, const char* owner, const char* created, const char* message) {
    kube::Json object = {{"metadata", {{"name", name}, {"creationTimestamp", created}}}};
    object["metadata"]["ownerReferences"] = kube::Json::array();
    object["metadata"]["ownerReferences"].push_back(kube::Json{{"uid", owner}, {"controller", true}});
    const kube::Json ended = {{"exitCode", 1}, {"reason", "Error"}, {"message", message}};
    object["status"]["containerStatuses"] = kube::Json::array();
    object["status"]["containerStatuses"].push_back(kube::Json{{"name", "topics"}, {"state", {{"terminated", ended}}}});
    return object;
  };
  const JobRun run = ReadJob(job, {pod("a", "j", "2024-01-01T00:00:02Z", R"({"ok":false,"reason":"New"})"),
                                   pod("b", "j", "2024-01-01T00:00:01Z", R"({"ok":false,"reason":"Old"})"),
                                   pod("c", "other", "2024-01-01T00:00:09Z", R"({"ok":true})")});
  EXPECT_EQ(run.state, JobRun::State::kFailed);
  EXPECT_EQ(run.attempt, 3);
  EXPECT_EQ(run.pod, "a");
  EXPECT_EQ(run.verdict.reason, "New");
  EXPECT_EQ(run.why_failed, "late");
}

TEST(JobRunTest, RetriesComeLaterAndLaterWithinABound) {
  EXPECT_EQ(RetryDelay(1), absl::Seconds(5));
  EXPECT_EQ(RetryDelay(2), absl::Seconds(10));
  EXPECT_EQ(RetryDelay(100), absl::Minutes(5));
}

}  // namespace
}  // namespace millstream::reconcile
