// The programs beside this file, through the test kit of the installed package: exit code 0 when all is as it should
// be.
#include <millstream/testing.h>

#include <cstdio>
#include <cstdlib>
#include <string>

// Their main functions under other names.
#define main CentsMain
#include <cents.cc>
#undef main
#define main WordCountMain
#include <wordcount.cc>
#undef main
#define main HourlyMain
#include <hourly.cc>
#undef main

#define CHECK_THAT(condition)                                                      \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                                \
    }                                                                              \
  } while (false)

void TestCents() {
  ms::App app;
  AddCents(app);
  ms::TestKit kit(app, {.outputs = {"order-cents"}});
  CHECK_THAT(kit.Feed("orders", {.key = "a", .value = R"({"amount": 1.25})", .headers = {{"h", "1"}}}).ok());
  CHECK_THAT(kit.Feed("orders", {.key = "a", .value = R"({"amount": 0})"}).ok());
  CHECK_THAT(!kit.Feed("orders", {.key = "a", .value = "{}"}).ok());
  const auto cents = kit.Outputs("order-cents");
  CHECK_THAT(cents.size() == 1 && cents[0].value == "125" && cents[0].headers.size() == 1);
}

void TestWordCount() {
  ms::App app;
  AddWordCount(app);
  ms::TestKit kit(app, {.stores = {"counts"}, .outputs = {"word-counts"}});
  CHECK_THAT(kit.FeedBatch("words", {{.key = "tea"}, {.key = "milk"}, {.key = "tea"}}).ok());
  CHECK_THAT(kit.State("counts").at("tea") == "2" && kit.State("counts").at("milk") == "1");
  CHECK_THAT(kit.Outputs("word-counts").size() == 3 && kit.Outputs("word-counts")[2].value == "2");
}

void TestHourly() {
  ms::App app;
  AddHourly(app);
  ms::TestKit kit(app,
                  {.outputs = {"averages"}, .windows = {{.name = "hours", .size_ms = 3'600'000, .grace_ms = 300'000}}});
  CHECK_THAT(
      kit.FeedBatch("celsius", {{.key = "s", .value = "10", .timestamp_ms = 3'600'000},
                                {.key = "s", .value = "20", .timestamp_ms = 7'199'999},
                                {.key = "s", .value = "5", .timestamp_ms = 7'200'000},
                                {.key = "s", .value = "30", .timestamp_ms = 3'700'000},  // late, within the grace
                                {.key = "s", .value = "7", .timestamp_ms = 7'500'000},   // which ends here
                                {.key = "s", .value = "99", .timestamp_ms = 3'700'000}})
          .ok());
  const auto averages = kit.Outputs("averages");
  CHECK_THAT(averages.size() == 5 && averages[1].value == "15.0" && averages[1].timestamp_ms == 3'600'000);
  CHECK_THAT(averages[2].value == "5.0" && averages[3].value == "20.0" && averages[4].value == "6.0");
  CHECK_THAT(kit.late_records() == 1);
  CHECK_THAT(!kit.Feed("celsius", {.value = "1"}).ok());
}

int main() {
  TestCents();
  TestWordCount();
  TestHourly();
}
