// Hooks of transactions and what is gathered for them, through the test kit.
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millstream/gathered.h"
#include "millstream/testing.h"
#include "millstream/worker.h"

namespace millstream::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Gathered<std::map<std::string, int>> clicks;

std::vector<std::string> Sent(const TestKit& kit) {
  std::vector<std::string> sent;
  for (const TestOutput& record : kit.Outputs("out")) {
    EXPECT_EQ(record.timestamp_ms.has_value(), record.key == "late") << "a hook has no time of its own";
    sent.push_back(record.key.value_or("-") + "=" + record.value.value_or("-"));
  }
  return sent;
}

absl::Status Click(Context& ctx) {
  clicks.Change(ctx, [page = std::string(*ctx.key())](auto& pages) { ++pages[page]; });
  return ctx.value() == "fail" ? absl::InternalError("no") : absl::OkStatus();
}

absl::Status SendClicks(Context& ctx) {
  EXPECT_EQ(ctx.key(), std::nullopt);
  EXPECT_EQ(ctx.input(), "");
  EXPECT_EQ(ctx.offset(), -1);
  for (const auto& [page, n] : clicks.Take(ctx)) {
    if (page == "bad") return absl::InternalError("not this page");
    if (absl::Status status = ctx.State("counts").Put(page, std::to_string(n)); !status.ok()) return status;
    if (absl::Status status = ctx.Emit("out", page, std::to_string(n)); !status.ok()) return status;
  }
  return absl::OkStatus();
}

TEST(Hooks, WhatIsGatheredGoesOutAtFinalize) {
  App app;
  std::vector<std::string> calls;
  app.On("in", Click)
      .OnBegin([&](Context&) {
        calls.push_back("begin");
        return absl::OkStatus();
      })
      .OnFinalize(SendClicks)
      .OnCommitted([&](int32_t task) { calls.push_back("committed " + std::to_string(task)); });
  TestKit kit(app, {.stores = {"counts"}, .outputs = {"out"}});
  TestKit other(app, {.stores = {"counts"}, .outputs = {"out"}});
  ASSERT_EQ(kit.FeedBatch("in", {{.key = "a"}, {.key = "b"}, {.key = "a"}}), absl::OkStatus());
  ASSERT_EQ(other.Feed("in", {.key = "c"}), absl::OkStatus());
  ASSERT_EQ(kit.Feed("in", {.key = "b"}), absl::OkStatus());
  EXPECT_THAT(Sent(kit), ElementsAre("a=2", "b=1", "b=1"));
  EXPECT_THAT(Sent(other), ElementsAre("c=1")) << "each task has its own";
  EXPECT_EQ(kit.State("counts").at("a"), "2");
  EXPECT_THAT(calls, ElementsAre("begin", "committed 0", "begin", "committed 0", "begin", "committed 0"));
}

TEST(Hooks, ARecordThatFailsHasGatheredNothing) {
  App app;
  app.On("in", Click).OnFinalize(SendClicks);
  TestKit kit(app, {.stores = {"counts"}, .outputs = {"out"}});
  EXPECT_FALSE(kit.FeedBatch("in", {{.key = "a"}, {.key = "b", .value = "fail"}}).ok());
  ASSERT_EQ(kit.Feed("in", {.key = "c"}), absl::OkStatus());
  EXPECT_THAT(Sent(kit), ElementsAre("a=1", "c=1"));
}

TEST(Hooks, OneThatFailsHasNoEffects) {
  App app;
  app.On("in", Click).OnFinalize(SendClicks);
  TestKit kit(app, {.stores = {"counts"}, .outputs = {"out"}});
  const absl::Status failed = kit.FeedBatch("in", {{.key = "a"}, {.key = "bad"}});
  EXPECT_THAT(std::string(failed.message()), HasSubstr("Handler: not this page (hook finalize)"));
  EXPECT_THAT(Sent(kit), IsEmpty());
  EXPECT_THAT(kit.State("counts"), IsEmpty());
}

TEST(Hooks, HaveNoKeyAndNoTime) {
  const auto told = [](Handler hook) {
    App app;
    app.On("in", [](Context&) { return absl::OkStatus(); }).OnFinalize(std::move(hook));
    TestKit kit(app, {.stores = {"counts"},
                      .outputs = {"out"},
                      .windows = {{.name = "minutes", .size_ms = 60}},
                      .sessions = {{.name = "visits", .gap_ms = 60}},
                      .timers = true});
    return std::string(kit.Feed("in", {.key = "a"}).message());
  };
  EXPECT_THAT(told([](Context& ctx) { return ctx.State("counts").Put("x"); }), HasSubstr("a hook has no record"));
  EXPECT_THAT(told([](Context& ctx) { return ctx.SetTimer("t", 1, {.key = "a"}); }),
              HasSubstr("Output: timer \"t\": hooks cannot set timers"));
  EXPECT_THAT(told([](Context& ctx) { return ctx.CancelTimer("t", {.key = "a"}); }),
              HasSubstr("hooks cannot set timers"));
  EXPECT_THAT(told([](Context& ctx) { return ctx.Windows("minutes").Windows().status(); }),
              HasSubstr("hooks have no windows or sessions"));
  EXPECT_THAT(told([](Context& ctx) { return ctx.Sessions("visits").Put("x"); }),
              HasSubstr("hooks have no windows or sessions"));
  EXPECT_EQ(told([](Context& ctx) { return ctx.Emit("out", "late", "x", {.timestamp_ms = 5}); }), "");
}

}  // namespace
}  // namespace millstream::worker
