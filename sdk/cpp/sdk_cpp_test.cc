// What programs use beside the bare worker: codecs, typed handles, the test kit, loggers.
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millstream/json.h"
#include "millstream/testing.h"
#include "millstream/typed.h"

namespace millstream::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

template <typename C>
std::optional<std::string> Encoded(const C& codec, const typename C::Value& value) {
  std::string bytes = "before ";
  if (!codec.Encode(value, &bytes).ok()) return std::nullopt;
  return bytes.substr(7);
}

TEST(Codecs, BytesAndValues) {
  EXPECT_EQ(Encoded(Bytes(), std::string("\xff\0", 2)), std::string("\xff\0", 2));
  EXPECT_EQ(Encoded(String(), "h\xc3\xa4"), "h\xc3\xa4");
  EXPECT_EQ(Encoded(String(), "\xff"), std::nullopt);
  EXPECT_FALSE(String().Decode("\xed\xa0\x80").ok());
  EXPECT_EQ(*String().Decode(""), "");
  EXPECT_EQ(Encoded(Int64(), -2), "\xff\xff\xff\xff\xff\xff\xff\xfe");
  EXPECT_EQ(*Int64().Decode(std::string_view("\x80\0\0\0\0\0\0\0", 8)), std::numeric_limits<int64_t>::min());
  EXPECT_FALSE(Int64().Decode("1").ok());
  EXPECT_EQ(Encoded(Json<std::vector<int>>(), {1, 2}), "[1,2]");
  EXPECT_EQ(Encoded(Json<>(), nlohmann::json("\xff")), std::nullopt);
  EXPECT_FALSE(Json<int>().Decode("{").ok());
  EXPECT_FALSE(Json<int>().Decode("\"x\"").ok());
}

const TypedStore<String, Int64> counts("counts");
const TypedOutput<String, Json<int64_t>> totals("totals");

App* AddCounting(App* app) {
  On<String, Bytes>(*app, "words", [](Context& ctx, const TypedRecord<std::string, std::string>& word) -> absl::Status {
    if (word.value == "reject") return RejectRecord("not this one");
    auto count = counts.Get(ctx);
    if (!count.ok()) return count.status();
    if (absl::Status status = counts.Put(ctx, count->value_or(0) + 1); !status.ok()) return status;
    if (absl::Status status = totals.Emit(ctx, word.key, count->value_or(0) + 1); !status.ok()) return status;
    return word.value == "fail" ? absl::InternalError("no luck") : absl::OkStatus();
  });
  return app;
}

TEST(TestKitTest, CountsAndUndoesWhatFails) {
  App app;
  TestKit kit(*AddCounting(&app), {.stores = {"counts"}, .outputs = {"totals"}});
  EXPECT_EQ(kit.FeedBatch("words", {{.key = "a"}, {.key = "b"}, {.key = "a"}}), absl::OkStatus());
  const absl::Status failed = kit.FeedBatch("words", {{.key = "a"}, {.key = "a", .value = "fail"}, {.key = "a"}});
  EXPECT_EQ(failed.code(), absl::StatusCode::kAborted) << failed;
  EXPECT_THAT(std::string(failed.message()), HasSubstr("Handler: no luck"));
  const absl::Status rejected = kit.Feed("words", {.key = "a", .value = "reject"});
  EXPECT_EQ(rejected.code(), absl::StatusCode::kFailedPrecondition) << rejected;

  std::vector<std::pair<std::string, int64_t>> state;
  for (const auto& [key, value] : kit.State("counts")) state.emplace_back(key, *Int64().Decode(value));
  EXPECT_THAT(state, ElementsAre(Pair("a", 3), Pair("b", 1)));
  std::vector<std::string> values;
  for (const TestOutput& output : kit.Outputs("totals")) values.push_back(*output.key + *output.value);
  EXPECT_THAT(values, ElementsAre("a1", "b1", "a2", "a3"));
  EXPECT_EQ(kit.Outputs("totals")[0].timestamp_ms, 1'700'000'000'000);
}

TEST(TestKitTest, WhatACodecRefusesFailsItsRecord) {
  App app;
  TestKit kit(*AddCounting(&app), {.stores = {"counts"}, .outputs = {"totals"}});
  const absl::Status undecodable = kit.Feed("words", {.key = "\xff"});
  EXPECT_EQ(undecodable.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(undecodable.message()), HasSubstr("Decode: input words: the key is not UTF-8 text"));
  kit.SetState("counts", "a", "three");
  const absl::Status stored = kit.Feed("words", {.key = "a"});
  EXPECT_EQ(stored.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(stored.message()), HasSubstr("store counts: the value is not a 64-bit integer"));
  EXPECT_THAT(kit.Outputs("totals"), IsEmpty());

  App other;
  const TypedOutput<String, String> text("totals");
  On<Bytes, Bytes>(other, "words", [&](Context& ctx, const auto& record) {
    text.Emit(ctx, record.key, record.value).IgnoreError();  // fails the record all the same
    return absl::OkStatus();
  });
  TestKit other_kit(other, {.outputs = {"totals"}});
  EXPECT_THAT(std::string(other_kit.Feed("words", {.value = "\xff"}).message()),
              HasSubstr("Output: output totals: the value is not UTF-8 text"));
}

TEST(TestKitTest, ReadsThatAreAskedForSeeTheBatchsWrites) {
  const TypedStore<String, String> archive("archive");
  std::vector<std::pair<std::string, std::string>> rows;
  std::vector<std::optional<std::string>> seen;
  App app;
  On<String, String>(app, "in", [&](Context& ctx, const auto& record) -> absl::Status {
    auto value = archive.Get(ctx, *record.value);
    if (!value.ok()) return value.status();
    seen.push_back(*value);
    if (absl::Status status = archive.Put(ctx, "new"); !status.ok()) return status;
    if (absl::Status status = archive.Delete(ctx, "old"); !status.ok()) return status;
    auto found = archive.Scan(ctx, {.limit = 2, .reverse = true});
    if (!found.ok()) return found.status();
    rows = *std::move(found);
    return absl::OkStatus();
  });
  TestKit kit(app, {.unfetched = {"archive"}});
  kit.SetState("archive", "old", "1");
  kit.SetState("archive", "b", "2");
  kit.SetState("archive", "a", "3");
  EXPECT_EQ(kit.FeedBatch("in", {{.key = "k", .value = "old"}, {.key = "k", .value = "old"}}), absl::OkStatus());
  EXPECT_THAT(seen, ElementsAre("1", std::nullopt));
  EXPECT_THAT(rows, ElementsAre(Pair("k", "new"), Pair("b", "2")));
  EXPECT_THAT(kit.State("archive"), UnorderedElementsAre(Pair("a", "3"), Pair("b", "2"), Pair("k", "new")));
}

TEST(TestKitTest, WhatARecordIsReachesTheHandler) {
  App app;
  app.On("in", [](Context& ctx) {
    EXPECT_EQ(ctx.input(), "in");
    EXPECT_EQ(ctx.topic(), "in");
    EXPECT_EQ(ctx.processor(), "test");
    EXPECT_EQ(ctx.key(), std::nullopt);
    EXPECT_EQ(ctx.value(), "");
    EXPECT_EQ(ctx.header("h"), "2");
    EXPECT_EQ(ctx.header("none"), std::nullopt);
    EXPECT_EQ(ctx.attempt(), 1u);
    EXPECT_FALSE(ctx.Cancelled());
    EmitOptions options{.timestamp_ms = 5, .headers = ctx.headers(), .partition = 3};
    return ctx.Emit("out", std::nullopt, ctx.value(), options);
  });
  TestKit kit(app, {.outputs = {"out"}, .max_bytes = 10});
  EXPECT_EQ(kit.Feed("in", {.value = "", .headers = {{"h", "1"}, {"h", "2"}}}), absl::OkStatus());
  const TestOutput expected{std::nullopt, "", 5, {{"h", "1"}, {"h", "2"}}, 3};
  EXPECT_THAT(kit.Outputs("out"), ElementsAre(expected));
  EXPECT_EQ(kit.Feed("elsewhere", {}).code(), absl::StatusCode::kInvalidArgument);
}

TEST(Loggers, LinesSayWhatWasSaid) {
  ::testing::internal::CaptureStderr();
  JsonLogger()(LogSeverity::kWarning, "a \"line\"\n", {{"reason", "\\ \x01"}});
  TextLogger()(LogSeverity::kInfo, "hello", {{"n", "1"}});
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "{\"level\":\"warning\",\"message\":\"a \\\"line\\\"\\u000a\",\"reason\":\"\\\\ \\u0001\"}\n"
            "millstream: hello n=1\n");
}

}  // namespace
}  // namespace millstream::worker
