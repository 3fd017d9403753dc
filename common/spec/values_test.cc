// Durations, quantities, suggestions.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/spec/duration.h"
#include "common/spec/pattern.h"
#include "common/spec/quantity.h"
#include "common/spec/schema.h"
#include "common/spec/suggest.h"

namespace millstream::spec {
namespace {

TEST(Duration, IsReadAsItsPatternSays) {
  EXPECT_EQ(ParseDuration("1h30m"), absl::Minutes(90));
  EXPECT_EQ(ParseDuration("250ms"), absl::Milliseconds(250));
  EXPECT_EQ(ParseDuration("1h1m1s1ms"), absl::Hours(1) + absl::Minutes(1) + absl::Seconds(1) + absl::Milliseconds(1));
  EXPECT_EQ(ParseDuration("0s"), absl::ZeroDuration());
  EXPECT_EQ(ParseDuration("999999999h"), absl::Hours(999'999'999));
  for (std::string_view text :
       {"", "1", "s", "1 s", "-1s", "1.5s", "1d", "1S", "1234567890s", "1s1s1s1s1s", "1us", "1s "}) {
    EXPECT_EQ(ParseDuration(text), std::nullopt) << text;
    EXPECT_FALSE(MatchesPattern(std::string(kDurationPattern), text)) << text;
  }
}

TEST(Duration, TextIsReadBack) {
  for (int64_t ms : {0L, 1L, 999L, 1000L, 1500L, 60'000L, 3'600'000L, 3'661'001L, 2'592'000'000L}) {
    EXPECT_EQ(ParseDuration(DurationText(absl::Milliseconds(ms))), absl::Milliseconds(ms));
  }
  EXPECT_EQ(DurationText(absl::Hours(720)), "720h");
}

TEST(Duration, ExplainsWhatWasMeant) {
  EXPECT_THAT(ExplainDuration("30d"), testing::HasSubstr("30d is 720h"));
  EXPECT_THAT(ExplainDuration("1 week"), testing::HasSubstr("is 168h"));
  EXPECT_THAT(ExplainDuration("1.5h"), testing::HasSubstr("is 1h30m"));
  EXPECT_THAT(ExplainDuration("1d 2hours"), testing::HasSubstr("is 26h"));
  EXPECT_THAT(ExplainDuration("10"), testing::HasSubstr("10ms or 10s"));
  EXPECT_THAT(ExplainDuration("-5s"), testing::HasSubstr("negative"));
  for (std::string_view text : {"", "soon", "1..5h", "1e400d", "99999999999999d", " "}) {
    EXPECT_THAT(ExplainDuration(text), testing::HasSubstr("for example 500ms")) << text;
  }
}

TEST(Quantity, IsReadAsKubernetesDoes) {
  EXPECT_EQ(ParseQuantity("64Mi"), int64_t{64} << 20);
  EXPECT_EQ(ParseQuantity("1.5Gi"), int64_t{3} << 29);
  EXPECT_EQ(ParseQuantity("1k"), 1000);
  EXPECT_EQ(ParseQuantity("1E"), 1'000'000'000'000'000'000);
  EXPECT_EQ(ParseQuantity("7Ei"), int64_t{7} << 60);
  EXPECT_EQ(ParseQuantity("1e3"), 1000);
  EXPECT_EQ(ParseQuantity("500m"), 1) << "rounded up";
  EXPECT_EQ(ParseQuantity("1e-30"), 1) << "rounded up";
  EXPECT_EQ(ParseQuantity("0"), 0);
  EXPECT_EQ(ParseQuantity(".5Ki"), 512);
  EXPECT_EQ(ParseQuantity("9223372036854775807"), INT64_MAX);
  for (std::string_view text :
       {"", "-1", "1 Mi", "MB", "1MB", "1.2.3", "8Ei", "9223372036854775808", "1e31", "1ki", "K", "."}) {
    EXPECT_EQ(ParseQuantity(text), std::nullopt) << text;
  }
}

TEST(Quantity, TextIsReadBack) {
  for (int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{1536}, int64_t{1} << 20, int64_t{5} << 40, INT64_MAX}) {
    EXPECT_EQ(ParseQuantity(FormatBytes(bytes)), bytes);
  }
  EXPECT_EQ(FormatBytes(int64_t{64} << 20), "64Mi");
}

TEST(Suggestion, IsTheNearestWord) {
  std::vector<std::string> words = {"inputs", "outputs", "internalTopics", "startFrom", "replicas"};
  EXPECT_EQ(Suggest("input", words), "inputs");
  EXPECT_EQ(Suggest("start_from", words), "startFrom");
  EXPECT_EQ(Suggest("INTERNAL-TOPICS", words), "internalTopics");
  EXPECT_EQ(Suggest("repilcas", words), "replicas");
  EXPECT_EQ(Suggest("stores", words), std::nullopt);
  EXPECT_EQ(Suggest("", words), std::nullopt);
  EXPECT_EQ(Suggest(std::string(1000, 'a'), words), std::nullopt);
}

TEST(BoundsRule, IsReadInItsThreeForms) {
  std::optional<Bounds> bounds =
      ParseBounds({"duration(self) >= duration('1s') && duration(self) <= duration('2h')", ""});
  ASSERT_TRUE(bounds);
  EXPECT_EQ(bounds->low, "1s");
  EXPECT_EQ(bounds->high, "2h");
  EXPECT_TRUE(
      ParseBounds({"quantity(string(self)).compareTo(quantity('1Ki')) >= 0 && "
                   "quantity(string(self)).compareTo(quantity('8Mi')) <= 0",
                   ""}));
  EXPECT_FALSE(ParseBounds({"duration(self) > duration('1s') && duration(self) <= duration('2h')", ""}));
  EXPECT_FALSE(ParseBounds({"self == 'a'", ""}));
}

// The library recurses once per character: the longest texts the schema lets through must not exhaust the stack.
TEST(Patterns, TakeTheLongestTexts) {
  const SchemaNode* servers = FindNode(StreamProcessorSchema(), {"spec", "kafka", "bootstrapServers"});
  std::string text;
  while (text.size() + 8 < 1024) text += "a-b.c:1,";
  EXPECT_TRUE(MatchesPattern(servers->pattern, text + "a:1"));
  EXPECT_FALSE(MatchesPattern(servers->pattern, text));
  const SchemaNode* endpoint = FindNode(StreamProcessorSchema(), {"spec", "kafka", "sasl", "oauth", "tokenEndpoint"});
  EXPECT_TRUE(MatchesPattern(endpoint->pattern, "https://" + std::string(2040, 'x')));
}

}  // namespace
}  // namespace millstream::spec
