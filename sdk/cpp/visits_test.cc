// Visits, through the test kit.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millstream/json.h"
#include "millstream/testing.h"
#include "millstream/typed_visits.h"

namespace millstream::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Number = Json<int64_t>;
const TypedStore<String, Number> accounts("accounts");
const TypedVisit<String, Number, Number> interest("interest", accounts);
const TypedOutput<String, String> reports("reports");

// What the record says, "start 2".
absl::Status Command(Context& ctx, const TypedRecord<std::string, std::string>& record) {
  const std::string& value = *record.value;
  const std::string what = value.substr(0, value.find(' '));
  const int64_t n = what == value ? 0 : std::stoll(value.substr(what.size() + 1));
  if (what == "set") return accounts.Put(ctx, n);
  if (what == "start") return interest.Start(ctx, n);
  if (what == "plain") return interest.Start(ctx);
  if (what == "resume") return interest.Resume(ctx);
  if (what == "stop") return interest.Stop(ctx);
  if (absl::Status status = interest.Start(ctx, n); !status.ok()) return status;
  return what == "pause" ? interest.Pause(ctx) : absl::InternalError("no");
}

absl::Status AddInterest(Context& ctx, const Visited<std::string, int64_t, int64_t>& row) {
  if (row.value < 0) return absl::InternalError(absl::StrCat(row.key, " is overdrawn"));
  if (row.value == 1000) return accounts.Delete(ctx, row.key + "b");
  return row.data.has_value() ? accounts.Put(ctx, row.value + *row.data) : absl::OkStatus();
}

absl::Status Report(Context& ctx, const VisitEnd<int64_t>& end) {
  EXPECT_FALSE(accounts.Get(ctx).ok()) << "there is no key";
  EXPECT_EQ(ctx.input(), "");
  EXPECT_EQ(ctx.offset(), -1);
  const std::string data = end.data.has_value() ? std::to_string(*end.data) : "none";
  return reports.Emit(ctx, "end", absl::StrCat(std::string(ctx.visit()), " ", data, " ", end.time_ms));
}

void AddBank(App& app) {
  On<String, String>(app, "in", Command);
  OnVisit(app, interest, AddInterest);
  OnVisitEnd(app, interest, Report);
}

TestSetup BankSetup(bool prefetched = true) {
  TestSetup setup{.stores = {"others"}, .outputs = {"reports"}, .visits = {{"interest", "accounts"}}};
  (prefetched ? setup.stores : setup.unfetched).push_back("accounts");
  return setup;
}

TestRecord At(int64_t time, std::string value) {
  return {.key = "a", .value = std::move(value), .timestamp_ms = time};
}

std::vector<std::string> Reports(const TestKit& kit) {
  std::vector<std::string> texts;
  for (const TestOutput& record : kit.Outputs("reports"))
    texts.push_back(absl::StrCat(*record.value, " at ", *record.timestamp_ms));
  return texts;
}

std::string Balance(const TestKit& kit, const std::string& key) {
  const auto& rows = kit.State("accounts");
  const auto row = rows.find(key);
  return row == rows.end() ? "none" : row->second;
}

std::string Told(const absl::Status& status) { return std::string(status.message()); }

class Visiting : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Prefetched, Visiting, ::testing::Bool());

TEST_P(Visiting, ComesToEveryRowAndThenToItsEnd) {
  App app;
  AddBank(app);
  TestKit kit(app, BankSetup(GetParam()));
  for (int i = 100; i < 350; ++i) kit.SetState("accounts", std::to_string(i), std::to_string(i));  // more than a page
  ASSERT_EQ(kit.Feed("in", At(5, "start 2")), absl::OkStatus());
  for (int i = 100; i < 350; ++i) EXPECT_EQ(Balance(kit, std::to_string(i)), std::to_string(i + 2));
  ASSERT_EQ(kit.Feed("in", At(6, "plain")), absl::OkStatus());
  EXPECT_THAT(Reports(kit), ElementsAre("interest 2 5 at 5", "interest none 6 at 6"));
}

TEST(VisitsTest, APausedOneWaitsUntilItIsResumed) {
  App app;
  AddBank(app);
  TestKit kit(app, BankSetup());
  ASSERT_EQ(kit.FeedBatch("in", {At(1, "set 1"), At(2, "pause 3"), At(3, "set 10")}), absl::OkStatus());
  EXPECT_EQ(Balance(kit, "a"), "10");
  EXPECT_THAT(kit.Visits(), ElementsAre("interest"));
  ASSERT_EQ(kit.Feed("in", At(4, "resume")), absl::OkStatus());
  EXPECT_EQ(Balance(kit, "a"), "13");
  ASSERT_EQ(kit.Feed("in", At(5, "pause 3")), absl::OkStatus());
  ASSERT_EQ(kit.Feed("in", At(6, "stop")), absl::OkStatus());
  EXPECT_THAT(kit.Visits(), IsEmpty());
  EXPECT_EQ(Reports(kit).size(), 1u);
}

TEST(VisitsTest, ATestStartsOne) {
  App app;
  AddBank(app);
  TestKit kit(app, BankSetup());
  kit.SetState("accounts", "b", "1");
  ASSERT_EQ(kit.StartVisit("interest", "5"), absl::OkStatus());
  EXPECT_EQ(Balance(kit, "b"), "6");
  EXPECT_THAT(Told(kit.StartVisit("other")), HasSubstr("declared are: interest"));
}

TEST(VisitsTest, ARowThatFailsIsGivenUpAndTheWalkGoesOn) {
  App app;
  AddBank(app);
  TestKit kit(app, BankSetup());
  kit.SetState("accounts", "a", "1");
  kit.SetState("accounts", "b", "-1");
  kit.SetState("accounts", "c", "1");
  EXPECT_EQ(Told(kit.Feed("in", At(1, "start 2"))), "Handler: b is overdrawn (visit \"interest\")");
  EXPECT_EQ(Balance(kit, "a"), "3");
  EXPECT_EQ(Balance(kit, "c"), "1");
  ASSERT_EQ(kit.Advance(1), absl::OkStatus());
  EXPECT_EQ(Balance(kit, "c"), "3");
}

TEST(VisitsTest, ARowThatAnEarlierOneDeletedIsPassedOver) {
  App app;
  AddBank(app);
  TestKit kit(app, BankSetup());
  kit.SetState("accounts", "a", "1000");
  kit.SetState("accounts", "ab", "-1");
  kit.SetState("accounts", "c", "1");
  ASSERT_EQ(kit.Feed("in", At(1, "start 2")), absl::OkStatus());
  EXPECT_EQ(Balance(kit, "ab"), "none");
  EXPECT_EQ(Balance(kit, "c"), "3");
}

TEST(VisitsTest, AStartThatFailsIsNone) {
  App app;
  AddBank(app);
  TestKit kit(app, BankSetup());
  EXPECT_FALSE(kit.Feed("in", At(1, "fail")).ok());
  EXPECT_THAT(kit.Visits(), IsEmpty());
  EXPECT_THAT(Reports(kit), IsEmpty());
}

TEST(VisitsTest, ThatDoNotFitTheManifest) {
  App app;
  AddBank(app);
  const auto refused = [&](std::vector<TestVisit> visits) {
    TestSetup setup = BankSetup();
    setup.visits = std::move(visits);
    return Told(TestKit(app, setup).Feed("in", At(1, "set 1")));
  };
  EXPECT_THAT(refused({}), HasSubstr("which the manifest does not declare; add {name: interest"));
  EXPECT_THAT(refused({{"interest", "accounts"}, {"audit", "others"}}), HasSubstr("declares visit \"audit\""));
  EXPECT_THAT(refused({{"interest", "nowhere"}}), HasSubstr("walks store \"nowhere\""));
}

TEST(VisitsTest, ThatCannotBe) {
  App app;
  AddBank(app);
  app.On("more", [](Context& ctx) {
    return ctx.value() == "other" ? ctx.StopVisit("other") : ctx.StartVisit("interest", ctx.value());
  });
  TestKit kit(app, BankSetup());
  EXPECT_THAT(Told(kit.Feed("more", At(1, "other"))), HasSubstr("does not declare it; declared are: interest"));
  EXPECT_EQ(kit.Feed("more", At(1, std::string(4096, '1'))).code(), absl::StatusCode::kFailedPrecondition)
      << "no number of the codec";
  EXPECT_THAT(Told(kit.Feed("more", At(1, std::string(4097, 'x')))),
              HasSubstr("its data has 4097 bytes, the limit is 4096"));
  App hooked;
  AddBank(hooked);
  hooked.OnFinalize([](Context& ctx) { return interest.Stop(ctx); });
  EXPECT_THAT(Told(TestKit(hooked, BankSetup()).Feed("in", At(1, "set 1"))), HasSubstr("hooks start and stop none"));
}

}  // namespace
}  // namespace millstream::worker
