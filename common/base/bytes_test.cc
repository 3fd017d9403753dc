#include "common/base/bytes.h"

#include <gtest/gtest.h>

namespace millstream {
namespace {

TEST(Readable, EscapesWhatIsNotPrintableAndCutsLongInput) {
  EXPECT_EQ(Readable(std::string_view("a\0\xff\\", 4)), "a\\x00\\xff\\\\");
  EXPECT_EQ(Readable("abcdef", 3), "abc...");
  EXPECT_EQ(Readable(""), "");
}

TEST(BigEndian, ByteOrderIsNumericOrder) {
  std::string low, high;
  AppendBigEndian64(255, &low);
  AppendBigEndian64(256, &high);
  EXPECT_LT(low, high);
  EXPECT_EQ(ReadBigEndian64(high), 256u);
  std::string word;
  AppendBigEndian32(0xfffefdfc, &word);
  EXPECT_EQ(ReadBigEndian32(word), 0xfffefdfcu);
}

TEST(PrefixEnd, IsTheFirstStringBehindThePrefix) {
  EXPECT_EQ(PrefixEnd("ab"), "ac");
  EXPECT_EQ(PrefixEnd("a\xff"), "b");
  EXPECT_EQ(PrefixEnd("\xff\xff"), std::nullopt);
  EXPECT_EQ(PrefixEnd(""), std::nullopt);
}

}  // namespace
}  // namespace millstream
