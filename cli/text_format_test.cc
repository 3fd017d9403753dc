#include "cli/text_format.h"

#include "gtest/gtest.h"

namespace millstream::cli {
namespace {

TEST(TextFormatTest, BytesAsJson) {
  EXPECT_EQ(ToJsonText(std::nullopt, ByteFormat::kAuto), "null");
  EXPECT_EQ(ToJsonText("1.50", ByteFormat::kAuto), "1.50");
  EXPECT_EQ(ToJsonText("{\n\"a\": 1}", ByteFormat::kAuto), "{\"a\":1}");
  EXPECT_EQ(ToJsonText("it's", ByteFormat::kAuto), "\"it's\"");
  EXPECT_EQ(ToJsonText("", ByteFormat::kAuto), "\"\"");
  EXPECT_EQ(ToJsonText("\xff", ByteFormat::kAuto), "{\"base64\":\"/w==\"}");
  EXPECT_EQ(ToJsonText("12", ByteFormat::kUtf8), "\"12\"");
  EXPECT_EQ(ToJsonText("\x01\xab", ByteFormat::kHex), "\"01ab\"");
  EXPECT_EQ(ToJsonText(std::string("\0\0\0\0\0\0\0\x2a", 8), ByteFormat::kInt64), "42");
}

TEST(TextFormatTest, TextAsBytes) {
  EXPECT_EQ(*FromText("01AB", ByteFormat::kHex), "\x01\xab");
  EXPECT_EQ(*FromText("/w==", ByteFormat::kBase64), "\xff");
  EXPECT_EQ(*FromText("-1", ByteFormat::kInt64), std::string(8, '\xff'));
  for (const auto& [text, format] : {std::pair("0", ByteFormat::kHex),
                                     {"zz", ByteFormat::kHex},
                                     {"!", ByteFormat::kBase64},
                                     {"1x", ByteFormat::kInt64},
                                     {"a", ByteFormat::kJson}}) {
    EXPECT_FALSE(FromText(text, format).ok()) << text;
  }
}

TEST(TextFormatTest, Utf8) {
  EXPECT_TRUE(IsUtf8("aé€😀"));
  for (const char* bad : {"\x80", "\xc0\xaf", "\xe2\x82", "\xed\xa0\x80", "\xf5\x80\x80\x80"})
    EXPECT_FALSE(IsUtf8(bad));
}

TEST(TextFormatTest, ForPeople) {
  EXPECT_EQ(WithCommas(0), "0");
  EXPECT_EQ(WithCommas(-1234567), "-1,234,567");
  EXPECT_EQ(HumanBytes(1536), "1.5 KB");
  EXPECT_EQ(HumanTime(-1), "1969-12-31T23:59:59.999Z");
  EXPECT_EQ(HumanTime(int64_t{1} << 60), std::to_string(int64_t{1} << 60));
  EXPECT_EQ(Table({{"A", "B"}, {"long", "x"}}), "A     B\nlong  x\n");
  EXPECT_EQ(ToPlainText("\"quoted\"", ByteFormat::kAuto), "quoted");
  EXPECT_EQ(ToPlainText("tab\t", ByteFormat::kUtf8), "\"tab\\t\"");
}

}  // namespace
}  // namespace millstream::cli
