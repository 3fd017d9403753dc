// Windows, sessions, timers, joins, lookups and the loop, through the test kit.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millstream/json.h"
#include "millstream/testing.h"
#include "millstream/typed.h"
#include "millstream/typed_time.h"

namespace millstream::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Number = Json<int64_t>;
const TypedWindowStore<String, Number> minutes("minutes");
const TypedSessionStore<String, Number> visits("visits");
const TypedStore<String, Number> log("log");
const TypedOutput<String, Number> out("out");

TestRecord At(int64_t time, std::string value = "x") {
  return {.key = "a", .value = std::move(value), .timestamp_ms = time};
}

absl::Status CountWindows(Context& ctx) {
  const auto windows = minutes.Windows(ctx);
  if (!windows.ok()) return windows.status();
  for (const Window& window : *windows) {
    const auto before = minutes.Get(ctx, window);
    if (!before.ok()) return before.status();
    if (absl::Status status = minutes.Put(ctx, window, before->value_or(0) + 1); !status.ok()) return status;
  }
  return ctx.value() == "bad" ? absl::InternalError("bad") : absl::OkStatus();
}

// The rows of a store, "key start..end=value".
std::vector<std::string> Rows(const TestKit& kit, std::string_view store) {
  std::vector<std::string> rows;
  for (const TestWindow& row : kit.Windows(store)) {
    rows.push_back(row.key + " " + std::to_string(row.window.start_ms) + ".." + std::to_string(row.window.end_ms) +
                   "=" + row.value);
  }
  return rows;
}

std::vector<std::string> Sent(const TestKit& kit, std::string_view output = "out") {
  std::vector<std::string> sent;
  for (const TestOutput& record : kit.Outputs(output))
    sent.push_back(record.key.value_or("-") + "=" + record.value.value_or("-"));
  return sent;
}

// What an error of a feed says, with the class.
std::string Told(const absl::Status& status) { return std::string(status.message()); }

class Fetching : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Prefetched, Fetching, ::testing::Bool());

TEST_P(Fetching, WindowsOverlapAndCloseToLateRecords) {
  App app;
  app.On("in", CountWindows);
  TestKit kit(app, {.windows = {{.name = "minutes",
                                 .size_ms = 60,
                                 .advance_ms = 30,
                                 .grace_ms = 10,
                                 .retention_ms = 1000,
                                 .prefetched = GetParam()}}});
  // 85: the window from 60 is over at 120 + 10.
  ASSERT_EQ(kit.FeedBatch("in", {At(100), At(95), At(130), At(85)}), absl::OkStatus());
  EXPECT_THAT(Rows(kit, "minutes"), ElementsAre("a 60..120=2", "a 90..150=3", "a 120..180=1"));
  EXPECT_FALSE(kit.Feed("in", At(135, "bad")).ok());
  EXPECT_THAT(Rows(kit, "minutes"), ElementsAre("a 60..120=2", "a 90..150=3", "a 120..180=1"));
  EXPECT_EQ(kit.watermark_ms(), 130);
  ASSERT_EQ(kit.Feed("in", {.timestamp_ms = 400}), absl::OkStatus());  // without a key: no windows
  ASSERT_EQ(kit.Feed("in", At(100)), absl::OkStatus());
  EXPECT_EQ(kit.late_records(), 2) << "85, and 100";
  EXPECT_EQ(Rows(kit, "minutes").size(), 3u);
}

TEST_P(Fetching, AWindowIsToldOnceWhenItCloses) {
  App app;
  app.On("in", CountWindows);
  OnClose(app, minutes, [](Context& ctx, const Closed<std::string, int64_t>& closed) -> absl::Status {
    const auto windows = minutes.Windows(ctx);
    EXPECT_THAT(*windows, ElementsAre(closed.window));
    EXPECT_EQ(**minutes.Get(ctx, closed.window), closed.value);
    EXPECT_EQ(ctx.input(), "");
    EXPECT_EQ(ctx.offset(), -1);
    if (absl::Status status = log.Put(ctx, closed.window.start_ms); !status.ok()) return status;
    return out.Emit(ctx, closed.key, closed.value);
  });
  TestKit kit(
      app, {.stores = {"log"},
            .outputs = {"out"},
            .windows = {{.name = "minutes", .size_ms = 60, .grace_ms = 10, .final = true, .prefetched = GetParam()}}});
  ASSERT_EQ(kit.FeedBatch("in", {At(0), At(10), At(65), At(69)}), absl::OkStatus());
  EXPECT_THAT(Sent(kit), IsEmpty());
  ASSERT_EQ(kit.FeedBatch("in", {At(70), At(200), At(10)}), absl::OkStatus());
  EXPECT_THAT(Sent(kit), ElementsAre("a=2", "a=3"));
  EXPECT_EQ(kit.Outputs("out")[0].timestamp_ms, 59);
  EXPECT_EQ(kit.Outputs("out")[1].timestamp_ms, 119);
  EXPECT_EQ(kit.State("log").at("a"), "60");
  EXPECT_THAT(Rows(kit, "minutes"), ElementsAre("a 180..240=1")) << "those that were told are behind their retention";
}

TEST(Windows, AreReadByOtherKeysAndForgotten) {
  App app;
  app.On("in", [](Context& ctx) -> absl::Status {
    if (ctx.value() == "forget") return minutes.Delete(ctx, minutes.Windows(ctx)->front());
    if (ctx.value() != "look") return CountWindows(ctx);
    const auto other = minutes.Get(ctx, "b", 60);
    const auto own = minutes.Get(ctx, "a", 0);
    if (!other.ok() || !own.ok()) return other.status();
    return out.Emit(ctx, "b", other->value_or(-1) * 100 + own->value_or(-1));
  });
  TestKit kit(app, {.outputs = {"out"}, .windows = {{.name = "minutes", .size_ms = 60, .retention_ms = 1000}}});
  ASSERT_EQ(kit.FeedBatch("in", {{.key = "b", .timestamp_ms = 61}, At(62), At(63), At(63, "look"), At(63, "forget")}),
            absl::OkStatus());
  EXPECT_THAT(Sent(kit), ElementsAre("b=99"));
  EXPECT_THAT(Rows(kit, "minutes"), ElementsAre("b 60..120=1"));
}

TEST(Windows, LateRecordsAndLateness) {
  App app;
  int calls = 0;
  app.On("in", [&](Context& ctx) {
    ++calls;
    return CountWindows(ctx);
  });
  TestSetup setup{.windows = {{.name = "minutes", .size_ms = 60, .retention_ms = 1000}}, .lateness_ms = {{"in", 50}}};
  {
    TestKit kit(app, setup);
    ASSERT_EQ(kit.FeedBatch("in", {At(100), At(5), At(110), At(5)}), absl::OkStatus());
    EXPECT_EQ(kit.watermark_ms(), 60);
    EXPECT_THAT(Rows(kit, "minutes"), ElementsAre("a 0..60=1", "a 60..120=2"));
    EXPECT_EQ(calls, 3);
    EXPECT_EQ(kit.late_records(), 1);
  }
  setup.process_late = true;
  TestKit kit(app, setup);
  ASSERT_EQ(kit.FeedBatch("in", {At(110), At(5)}), absl::OkStatus());
  EXPECT_EQ(calls, 5);
  EXPECT_THAT(Rows(kit, "minutes"), ElementsAre("a 60..120=1"));
}

App* AddVisits(App* app) {
  app->On("in", [](Context& ctx) -> absl::Status {
    if (ctx.value() == "silent") return absl::OkStatus();
    if (ctx.value() == "forget") return ctx.Sessions("visits").Delete();
    const auto before = visits.Values(ctx);
    if (!before.ok()) return before.status();
    int64_t n = 1;
    for (const int64_t value : *before) n += value;
    if (absl::Status status = visits.Put(ctx, n); !status.ok()) return status;
    EXPECT_THAT(*visits.Values(ctx), ElementsAre(n));
    const auto session = visits.Session(ctx);
    return out.Emit(ctx, "a", (*session)->end_ms - (*session)->start_ms);
  });
  return app;
}

TEST_P(Fetching, ASessionIsToldOnceWhenItCloses) {
  App app;
  AddVisits(&app);
  std::vector<std::string> told;
  OnClose(app, visits, [&told](Context& ctx, const ClosedSession<std::string, int64_t>& closed) -> absl::Status {
    told.push_back(closed.key + " " + std::to_string(closed.window.start_ms) + ".." +
                   std::to_string(closed.window.end_ms) + "=" +
                   (closed.value.has_value() ? std::to_string(*closed.value) : "-"));
    return log.Put(ctx, ctx.timestamp_ms());
  });
  TestKit kit(app, {.stores = {"log"},
                    .outputs = {"out"},
                    .sessions = {{.name = "visits",
                                  .gap_ms = 10,
                                  .grace_ms = 5,
                                  .retention_ms = 1000,
                                  .final = true,
                                  .prefetched = GetParam()}}});
  ASSERT_EQ(kit.FeedBatch("in", {At(0), At(10), At(20), At(12), At(35)}), absl::OkStatus());
  EXPECT_THAT(told, IsEmpty());
  // 30 would reach the one that is over; 31 does not.
  ASSERT_EQ(kit.FeedBatch("in", {At(50, "silent"), At(30), At(36)}), absl::OkStatus());
  EXPECT_THAT(told, ElementsAre("a 0..20=4"));
  EXPECT_EQ(kit.State("log").at("a"), "20");
  ASSERT_EQ(kit.Feed("in", At(90, "silent")), absl::OkStatus());
  EXPECT_THAT(told, ElementsAre("a 0..20=4", "a 35..36=2", "a 50..50=-"));
  EXPECT_THAT(Rows(kit, "visits"), ElementsAre("a 0..20=4", "a 35..36=2", "a 50..50=", "a 90..90="));
}

TEST_P(Fetching, SessionsGrowAndMerge) {
  const TestSetup setup{.outputs = {"out"},
                        .sessions = {{.name = "visits", .gap_ms = 10, .retention_ms = 1000, .prefetched = GetParam()}},
                        .lateness_ms = {{"in", 100}}};
  App app;
  TestKit kit(*AddVisits(&app), setup);
  ASSERT_EQ(kit.FeedBatch("in", {At(0), At(8), At(30), At(31), At(60)}), absl::OkStatus());
  EXPECT_THAT(Rows(kit, "visits"), ElementsAre("a 0..8=2", "a 30..31=2", "a 60..60=1"));
  // 40 belongs to 30..31; 19 is too far from 8.
  ASSERT_EQ(kit.FeedBatch("in", {At(40, "silent"), At(19), At(19)}), absl::OkStatus());
  EXPECT_THAT(Rows(kit, "visits"), ElementsAre("a 0..8=2", "a 19..19=2", "a 30..40=2", "a 60..60=1"));
  ASSERT_EQ(kit.Feed("in", At(10)), absl::OkStatus());
  ASSERT_EQ(kit.Feed("in", At(50)), absl::OkStatus());
  EXPECT_THAT(Rows(kit, "visits"), ElementsAre("a 0..19=5", "a 30..60=4"));
  const absl::Status failed = kit.Feed("in", At(25, "silent"));
  EXPECT_THAT(Told(failed), HasSubstr("Handler: store \"visits\": a record connects 2 sessions with values"));
  EXPECT_TRUE(absl::IsFailedPrecondition(failed)) << "no retry helps";
  EXPECT_THAT(Rows(kit, "visits"), ElementsAre("a 0..19=5", "a 30..60=4"));
  ASSERT_EQ(kit.FeedBatch("in", {At(60, "forget"), At(70, "silent"), At(79)}), absl::OkStatus());
  EXPECT_THAT(Rows(kit, "visits"), ElementsAre("a 0..19=5", "a 30..79=1"));

  MergeSessions(app, visits, [](const std::vector<int64_t>& values) { return values[0] * 10 + values[1]; });
  TestKit merging(app, setup);
  ASSERT_EQ(merging.FeedBatch("in", {At(0), At(20), At(100, "silent"), At(10, "silent"), At(105)}), absl::OkStatus());
  EXPECT_THAT(Rows(merging, "visits"), ElementsAre("a 0..20=11", "a 100..105=1"));
}

TEST(Sessions, ARecordWithoutOneCannotWriteIt) {
  App app;
  app.On("in", [](Context& ctx) -> absl::Status {
    EXPECT_EQ(*visits.Session(ctx), std::nullopt);
    EXPECT_THAT(*visits.Values(ctx), IsEmpty());
    return visits.Put(ctx, 1);
  });
  TestKit kit(app, {.sessions = {{.name = "visits", .gap_ms = 1}}, .process_late = true});
  EXPECT_THAT(Told(kit.Feed("in", {.value = "no key"})), HasSubstr("the record has no key"));
  ASSERT_FALSE(kit.Feed("in", {.timestamp_ms = 1'000'000'000'000}).ok());
}

const Timer<String> reminder("reminder");
const Timer<String> alarm("alarm", TimerClock::kWallClock);

void AddTimers(App& app) {
  app.On("in", [](Context& ctx) -> absl::Status {
    const std::string_view what = ctx.value().value_or("");
    if (what == "cancel") return reminder.Cancel(ctx);
    if (what == "other") return reminder.Set(ctx, "b", 500);
    if (what == "cancel other") return reminder.Cancel(ctx, "b");
    if (what == "alarm") return alarm.Set(ctx, 1'700'000'001'000);
    if (what == "far") return reminder.Set(ctx, -1);
    if (what == "long") return ctx.SetTimer(std::string(256, 'x'), 5);
    if (what == "bytes") return ctx.SetTimer("\xff", 5);
    if (absl::Status status = reminder.Set(ctx, ctx.timestamp_ms() + 100); !status.ok()) return status;
    return what == "fail" ? absl::InternalError("no") : absl::OkStatus();
  });
  OnTimer(app, reminder, [](Context& ctx, const Due<std::string>& due) -> absl::Status {
    if (due.key == "bad") return absl::InternalError("not this key");
    if (due.time_ms == 500) {
      if (absl::Status status = reminder.Set(ctx, 700); !status.ok()) return status;
    }
    return out.Emit(ctx, due.key, due.time_ms);
  });
  OnTimer(app, alarm, [](Context& ctx, const Due<std::string>& due) -> absl::Status {
    EXPECT_EQ(due.clock, TimerClock::kWallClock);
    return out.Emit(ctx, due.key, -1);
  });
}

TEST(Timers, MoveAreCancelledAndSetEachOther) {
  App app;
  AddTimers(app);
  TestKit kit(app, {.outputs = {"out"}, .timers = true});
  ASSERT_EQ(kit.FeedBatch("in", {At(0), At(50)}), absl::OkStatus());
  EXPECT_THAT(kit.Timers(), ElementsAre(TestTimer{150, "reminder", "a", TimerClock::kEventTime}));
  EXPECT_FALSE(kit.Feed("in", At(120, "fail")).ok());
  EXPECT_EQ(kit.Timers().at(0).time_ms, 150) << "what a failed record set does not count";
  ASSERT_EQ(kit.FeedBatch("in", {At(60, "other"), At(150, "alarm")}), absl::OkStatus());
  EXPECT_THAT(Sent(kit), ElementsAre("a=150"));
  ASSERT_EQ(kit.FeedBatch("in", {At(170), At(260, "cancel")}), absl::OkStatus());
  ASSERT_EQ(kit.Advance(999), absl::OkStatus());
  EXPECT_EQ(Sent(kit).size(), 1u);
  ASSERT_EQ(kit.Advance(1), absl::OkStatus());
  EXPECT_EQ(kit.now_ms(), 1'700'000'001'000);
  ASSERT_EQ(kit.FeedBatch("in", {At(699, "cancel"), At(700, "cancel")}), absl::OkStatus());
  EXPECT_THAT(Sent(kit), ElementsAre("a=150", "a=-1", "b=500", "b=700"));
  EXPECT_EQ(kit.Outputs("out")[2].timestamp_ms, 500);
  EXPECT_THAT(kit.Timers(), IsEmpty());
}

TEST(Timers, WhatCannotBeFailsTheRecord) {
  App app;
  AddTimers(app);
  TestKit kit(app, {.outputs = {"out"}, .timers = true});
  EXPECT_THAT(Told(kit.Feed("in", At(1, "far"))), HasSubstr("Output: timer \"reminder\": time -1 is outside 0 to"));
  EXPECT_THAT(Told(kit.Feed("in", At(1, "long"))), HasSubstr("a name is UTF-8 of at most 255 bytes"));
  EXPECT_THAT(Told(kit.Feed("in", At(1, "bytes"))), HasSubstr("a name is UTF-8"));
  EXPECT_THAT(Told(kit.Feed("in", {.timestamp_ms = 1})), HasSubstr("the record has no key"));
  EXPECT_THAT(kit.Timers(), IsEmpty());
  // One that fails is told by the call that made it due, and given up.
  ASSERT_EQ(kit.Feed("in", {.key = "bad", .timestamp_ms = 0}), absl::OkStatus());
  EXPECT_THAT(Told(kit.Feed("in", At(100, "cancel"))), HasSubstr("Handler: not this key (timer \"reminder\")"));
  EXPECT_EQ(kit.Feed("in", At(100, "cancel")), absl::OkStatus());
  // The rest of those that are due follows.
  ASSERT_EQ(kit.FeedBatch("in", {{.key = "b", .timestamp_ms = 100}, {.key = "bad", .timestamp_ms = 100}, At(100)}),
            absl::OkStatus());
  EXPECT_FALSE(kit.Feed("in", {.key = "c", .value = "cancel", .timestamp_ms = 200}).ok());
  EXPECT_EQ(kit.Feed("in", {.key = "c", .value = "cancel", .timestamp_ms = 200}), absl::OkStatus());
  EXPECT_THAT(Sent(kit), ::testing::UnorderedElementsAre("a=200", "b=200"));
}

TEST(Fits, WhatTheManifestLacksIsNamed) {
  const auto problem = [](void (*add)(App&), const TestSetup& setup) {
    App app;
    add(app);
    const absl::Status status = TestKit(app, setup).Feed("in", At(0));
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    return Told(status);
  };
  const auto counting = [](App& app) { app.On("in", CountWindows); };
  const auto closing = [](App& app) {
    app.On("in", CountWindows);
    app.OnClose("minutes", [](Context&) { return absl::OkStatus(); });
  };
  const auto merging = [](App& app) {
    MergeSessions(*AddVisits(&app), visits, [](const auto& values) { return values[0]; });
  };
  const TestWindows windows{.name = "minutes", .size_ms = 60};
  const TestWindows final{.name = "minutes", .size_ms = 60, .final = true};
  EXPECT_THAT(problem(AddTimers, {}), HasSubstr("and the manifest has none; add timers: {} under spec"));
  EXPECT_THAT(problem(closing, {.windows = {windows}}),
              HasSubstr("closing windows or sessions of \"minutes\"; stores with emit: Final in the manifest: none"));
  EXPECT_THAT(problem(counting, {.windows = {final}}), HasSubstr("add OnClose(\"minutes\", ...)"));
  EXPECT_THAT(problem(merging, {}),
              HasSubstr("merges sessions of \"visits\"; stores of type Session in the manifest: none"));
  EXPECT_THAT(problem(counting, {.windows = {{.name = "minutes"}}}), HasSubstr("a size above 0"));
  EXPECT_THAT(problem(counting, {.stores = {"minutes"}}),
              HasSubstr("there is no store of type Window named \"minutes\"; declared are: minutes"));
}

TEST(Tables, JoinsAndLookupsAreRead) {
  static const TypedJoin<String, String> people("people");
  static const TypedLookup<String, Number> rates("rates");
  static const TypedOutput<String, String> texts("out");
  App app;
  On<String, Bytes>(app, "in", [](Context& ctx, const auto& record) -> absl::Status {
    const auto own = people.Get(ctx);
    const auto other = people.Get(ctx, "b");
    const auto many = people.GetMany(ctx, {"c", "a"});
    const auto rate = rates.Get(ctx, "eur");
    const auto all = rates.Scan(ctx, {.from = "f"});
    for (const absl::Status& status : {own.status(), other.status(), many.status(), rate.status(), all.status()}) {
      if (!status.ok()) return status;
    }
    std::string text = own->value_or("nobody") + " " + other->value_or("nobody") + " " + (*many)[0].value_or("nobody") +
                       " " + (*many)[1].value_or("nobody") + " " + std::to_string(rate->value_or(0));
    for (const auto& [name, value] : *all) text += " " + name + "=" + std::to_string(value);
    return texts.Emit(ctx, record.key, text);
  });
  app.On("nowhere", [](Context& ctx) -> absl::Status {
    return ctx.value() == "join" ? ctx.Join("rates").Get("a").status() : ctx.Lookup("people").Get("a").status();
  });
  TestKit kit(app, {.outputs = {"out"}, .joins = {"people"}, .lookups = {"rates"}});
  kit.SetState("people", "a", "Anna");
  kit.SetState("people", "b", "Bob");
  kit.SetState("rates", "eur", "2");
  kit.SetState("rates", "usd", "3");
  ASSERT_EQ(kit.Feed("in", {.key = "a"}), absl::OkStatus());
  EXPECT_THAT(Sent(kit), ElementsAre("a=Anna Bob nobody Anna 2 usd=3"));
  EXPECT_THAT(Told(kit.Feed("nowhere", {.value = "join"})), HasSubstr("no join named \"rates\"; declared are: people"));
  EXPECT_THAT(Told(kit.Feed("nowhere", {})), HasSubstr("no lookup named \"people\"; declared are: rates"));
}

TEST(Loop, RecordsComeBackUntilNoneDoes) {
  static const TypedOutput<String, Number> loop("loop");
  App app;
  On<String, Number>(app, "in",
                     [](Context& ctx, const auto& record) { return loop.Emit(ctx, record.key, record.value); });
  On<String, Number>(app, "loop", [](Context& ctx, const auto& record) -> absl::Status {
    if (record.value == 13) return ctx.Emit("loop", std::nullopt, "1");
    if (record.value == 17) return ctx.Emit("loop", "a", "1", {.partition = 0});
    if (*record.value == 0) return out.Emit(ctx, record.key, 0);
    return loop.Emit(ctx, record.key, *record.value - 1);
  });
  TestKit kit(app, {.outputs = {"out", "loop"}});
  ASSERT_EQ(kit.FeedBatch("in", {At(1, "3"), At(1, "0")}), absl::OkStatus());
  EXPECT_THAT(Sent(kit), ElementsAre("a=0", "a=0"));
  EXPECT_THAT(Sent(kit, "loop"), ElementsAre("a=3", "a=0", "a=2", "a=1", "a=0"));
  EXPECT_THAT(Told(kit.Feed("in", At(1, "13"))), HasSubstr("Output: a record for the loop needs a key"));
  EXPECT_THAT(Told(kit.Feed("in", At(1, "17"))), HasSubstr("Output: a record for the loop chooses no partition"));
}

}  // namespace
}  // namespace millstream::worker
