#include "operator/model/status.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace millstream::model {
namespace {

constexpr auto kTrue = Condition::Status::kTrue;
constexpr auto kFalse = Condition::Status::kFalse;

const absl::Time kNoon = absl::FromUnixSeconds(1'700'000'000);  // 2023-11-14T22:13:20Z

TEST(ConditionsTest, TransitionTimesMoveWhenTheStatusFlips) {
  const Json first = ConditionsOf(nullptr, {{"Ready", kFalse, "Starting", "Pods start."}}, 1, kNoon);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].at("lastTransitionTime"), "2023-11-14T22:13:20Z");
  EXPECT_EQ(first[0].at("observedGeneration"), 1);
  // Another reason, the same status.
  const Json second =
      ConditionsOf(first, {{"Ready", kFalse, "Restoring", "State is restored."}}, 2, kNoon + absl::Minutes(1));
  EXPECT_EQ(second[0].at("lastTransitionTime"), "2023-11-14T22:13:20Z");
  EXPECT_EQ(second[0].at("reason"), "Restoring");
  EXPECT_EQ(second[0].at("observedGeneration"), 2);
  const Json third = ConditionsOf(second, {{"Ready", kTrue, "Running", ""}}, 2, kNoon + absl::Minutes(2));
  EXPECT_EQ(third[0].at("lastTransitionTime"), "2023-11-14T22:15:20Z");
}

TEST(ConditionsTest, ReconcilingAndStalledOnlyWhileTrue) {
  const std::vector<Condition> steady = {
      {"Ready", kTrue, "Running", ""}, {"Reconciling", kFalse, "Done", ""}, {"Stalled", kFalse, "Done", ""}};
  EXPECT_EQ(ConditionsOf(nullptr, steady, 1, kNoon).size(), 1u);
  EXPECT_EQ(ConditionsOf(nullptr, {{"Stalled", kTrue, "InvalidSpec", "x"}}, 1, kNoon).size(), 1u);
}

TEST(ConditionsTest, MessagesHaveABound) {
  std::string message = std::string((32 << 10) - 1, 'x') + "\xc3\xa9";
  const Json conditions = ConditionsOf(nullptr, {{"Ready", kFalse, "Error", message}}, 1, kNoon);
  EXPECT_EQ(conditions[0].at("message").get<std::string>().size(), size_t{(32 << 10) - 1});
}

TEST(ConditionsTest, WhatWasReadMayBeAnything) {
  for (const char* before : {"5", "{}", "[5]", "[{\"type\":5}]", "[{\"type\":\"Ready\",\"status\":\"True\"}]"}) {
    EXPECT_EQ(ConditionsOf(Json::parse(before), {{"Ready", kTrue, "Running", ""}}, 1, kNoon).size(), 1u) << before;
  }
}

Json Status(int64_t lag, int64_t bytes_left, int running = 4) {
  Json status = {{"observedGeneration", 1}};
  status["tasks"] = Json{{"running", running}, {"total", 4}};
  status["lag"] = Json{{"records", lag}, {"seconds", 0}};
  status["restore"] = Json{{"bytesLeft", bytes_left}, {"etaSeconds", 0}};
  return status;
}

TEST(StatusToWriteTest, ASteadyProcessorCostsNothing) {
  EXPECT_EQ(StatusToWrite(Status(100, 0), Status(100, 0), absl::Hours(1)), std::nullopt);
  EXPECT_EQ(StatusToWrite(Status(100, 0), Status(109, 0), absl::Hours(1)), std::nullopt);
}

TEST(StatusToWriteTest, NumbersSeldomAndOnlyWhenTheyTellSomething) {
  EXPECT_EQ(StatusToWrite(Status(100, 0), Status(200, 0), absl::Seconds(29)), std::nullopt);
  EXPECT_EQ(StatusToWrite(Status(100, 0), Status(200, 0), absl::Seconds(30)), Status(200, 0));
  EXPECT_EQ(StatusToWrite(Status(100, 0), Status(111, 0), absl::Seconds(30)), Status(111, 0));
  EXPECT_EQ(StatusToWrite(Status(0, 0), Status(1, 0), absl::Seconds(30)), Status(1, 0));
  EXPECT_EQ(StatusToWrite(Status(5, 7), Status(5, 0), absl::Seconds(30)), Status(5, 0));
}

TEST(StatusToWriteTest, AnythingElseAtOnce) {
  EXPECT_EQ(StatusToWrite(Status(100, 0), Status(101, 0, 3), absl::ZeroDuration()), Status(101, 0, 3));
  EXPECT_EQ(StatusToWrite(nullptr, Status(0, 0), absl::ZeroDuration()), Status(0, 0));
}

}  // namespace
}  // namespace millstream::model
