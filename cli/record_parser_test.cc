#include <cstdio>
#include <filesystem>
#include <fstream>

#include "cli/input_reader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millstream::cli {
namespace {

using ::testing::HasSubstr;

class RecordParserTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/input-XXXXXX";
    root_ = mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  struct Outcome {
    std::vector<ParsedRecord> records;
    std::vector<std::string> errors;
  };
  Outcome Parse(const std::string& text, const RecordParserOptions& options) {
    const std::string path = root_ + "/input";
    std::ofstream(path, std::ios::binary) << text;
    auto lines = LineReader::Open(path);
    EXPECT_TRUE(lines.ok());
    RecordParser parser(options, &*lines);
    Outcome outcome;
    while (true) {
      auto record = parser.Next();
      if (!record.ok()) {
        outcome.errors.push_back(std::string(record.status().message()));
        if (!absl::IsInvalidArgument(record.status())) return outcome;
      } else if (!record->has_value()) {
        return outcome;
      } else {
        outcome.records.push_back(**std::move(record));
      }
    }
  }
  std::string root_;
};

TEST_F(RecordParserTest, JsonValuesKeepTheirBytes) {
  const auto outcome = Parse("{\"a\": 1.50,  \"k\":\"x\"}\r\n\n[1]\n\"last\"", {});
  ASSERT_EQ(outcome.records.size(), 3u);
  EXPECT_EQ(outcome.records[0].value, "{\"a\": 1.50,  \"k\":\"x\"}");
  EXPECT_EQ(outcome.records[0].key, std::nullopt);
  EXPECT_EQ(outcome.records[2].value, "\"last\"");
}

TEST_F(RecordParserTest, KeysAndTimesComeFromFields) {
  RecordParserOptions options;
  options.key_field = "user.id";
  options.timestamp_field = "at";
  const auto outcome = Parse(
      "{\"user\":{\"id\":\"x\"},\"at\":5}\n{\"user.id\":7,\"at\":\"1970-01-01T00:00:01Z\"}\n{\"user\":{\"id\":null},"
      "\"at\":\"1970-01-02\"}\n{\"at\":1}\n"
      "{\"user\":{\"id\":1},\"at\":\"soon\"}\n",
      options);
  ASSERT_EQ(outcome.records.size(), 3u);
  EXPECT_EQ(outcome.records[0].key, "x");
  EXPECT_EQ(outcome.records[0].timestamp_ms, 5);
  EXPECT_EQ(outcome.records[1].key, "7");
  EXPECT_EQ(outcome.records[1].timestamp_ms, 1000);
  EXPECT_EQ(outcome.records[2].key, std::nullopt);
  EXPECT_EQ(outcome.records[2].timestamp_ms, 86'400'000);
  ASSERT_EQ(outcome.errors.size(), 2u);
  EXPECT_THAT(outcome.errors[0], HasSubstr("line 4: no field user.id"));
  EXPECT_THAT(outcome.errors[1], HasSubstr("line 5"));
}

TEST_F(RecordParserTest, CsvCellsBecomeWhatTheyLookLikeAndNothingElse) {
  RecordParserOptions options;
  options.format = InputFormat::kCsv;
  options.key_field = "id";
  const auto outcome = Parse("id,a\n1,007\n2,-0.5e3\n3,+1\n4,\n5,\"q\"\"q, r\"\n6,\"two\nlines\"\n7,NaN\n8\n", options);
  ASSERT_EQ(outcome.records.size(), 7u);
  const std::vector<std::string> expected = {"\"007\"",       "-0.5e3",          "\"+1\"", "null",
                                             "\"q\\\"q, r\"", "\"two\\nlines\"", "\"NaN\""};
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(outcome.records[i].value, "{\"id\":" + std::to_string(i + 1) + ",\"a\":" + expected[i] + "}");
    EXPECT_EQ(outcome.records[i].key, std::to_string(i + 1));
  }
  ASSERT_EQ(outcome.errors.size(), 1u);
  EXPECT_THAT(outcome.errors[0], HasSubstr("1 cells, the heading has 2"));
}

TEST_F(RecordParserTest, PairsAndNulls) {
  RecordParserOptions options;
  options.format = InputFormat::kKeyValue;
  options.null_text = "-";
  auto outcome = Parse("a=b=c\n-=-\n=\nnothing\n", options);
  ASSERT_EQ(outcome.records.size(), 3u);
  EXPECT_EQ(outcome.records[0].value, "b=c");
  EXPECT_EQ(outcome.records[1].key, std::nullopt);
  EXPECT_EQ(outcome.records[1].value, std::nullopt);
  EXPECT_EQ(outcome.records[2].key, "");
  EXPECT_EQ(outcome.errors.size(), 1u);
  options.format = InputFormat::kRaw;
  outcome = Parse("k\tv\n\nalone\n", options);
  ASSERT_EQ(outcome.records.size(), 3u);
  EXPECT_EQ(outcome.records[0].key, "k");
  EXPECT_EQ(outcome.records[1].value, "");
  EXPECT_EQ(outcome.records[2].key, std::nullopt);
}

TEST_F(RecordParserTest, LinesLongerThanTheReadBufferComeWhole) {
  RecordParserOptions options;
  options.format = InputFormat::kRaw;
  const std::string big(5 << 20, 'x');
  const auto outcome = Parse("a\t" + big + "\nb\t" + big + "y", options);
  ASSERT_EQ(outcome.records.size(), 2u);
  EXPECT_EQ(outcome.records[1].value, big + "y");
}

}  // namespace
}  // namespace millstream::cli
