#include "common/base/hex.h"

#include "gtest/gtest.h"

namespace millstream {
namespace {

TEST(Hex, BytesOfPairsOfDigits) {
  EXPECT_EQ(BytesOfHex(""), "");
  EXPECT_EQ(BytesOfHex("00fFa0"), std::string("\x00\xff\xa0", 3));
}

TEST(Hex, AnythingElseIsNone) {
  for (const char* text : {"0", "0g", "g0", "0x", "-1", "+1", " 1", "1 ", "000"}) EXPECT_FALSE(BytesOfHex(text)) << text;
}

}  // namespace
}  // namespace millstream
