#include "common/spec/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "common/base/strings.h"
#include "common/spec/manifest.h"
#include "common/spec/scalar.h"

namespace millstream::spec {
namespace {

std::string Json(std::string_view yaml) {
  ReadResult result = ReadDocuments(yaml);
  if (result.error) return StrCat("error: ", result.error->message);
  std::string out;
  for (const Value& document : result.documents) StrAppend(&out, out.empty() ? "" : "|", ToCanonicalJson(document));
  return out;
}

TEST(Scalars, MeanWhatTheyMeanToKubectl) {
  EXPECT_EQ(Json("[y, Yes, on, TRUE, n, no, Off, false]"), "[true,true,true,true,false,false,false,false]");
  EXPECT_EQ(Json("[~, null, Null, '']"), "[null,null,null,\"\"]");
  EXPECT_EQ(Json("[1, -1, +1, 0x1f, 0b11, 0o17, 017, 1_000]"), "[1,-1,1,31,3,15,15,1000]");
  EXPECT_EQ(Json("[1.5, .5, 1e3, 08]"), "[1.5,0.5,1000.0,8.0]");
  EXPECT_EQ(Json("[1.5.2, 1h, '1', \"true\", 2024-01-01, 0x, -, 9223372036854775807]"),
            "[\"1.5.2\",\"1h\",\"1\",\"true\",\"2024-01-01\",\"0x\",\"-\",9223372036854775807]");
}

TEST(Scalars, TagsDecide) {
  EXPECT_EQ(Json("[!!str 5, !!int 5, !!float 5, !!bool yes]"), "[\"5\",5,5,true]");
  EXPECT_EQ(Json("!!int five"), "error: `five` is not what its tag !!int says");
}

TEST(Keys, AreTextsAsKubectlMakesThem) {
  EXPECT_EQ(Json("on: 1\n5: 2\n'no': 3"), "{\"5\":2,\"no\":3,\"true\":1}");
  EXPECT_THAT(Json("~: 1"), testing::HasSubstr("a key is missing"));
  EXPECT_THAT(Json("on: 1\nyes: 2"), testing::HasSubstr("key `true` is there twice, first in line 1"));
}

TEST(Aliases, AndMergesAreExpanded) {
  EXPECT_EQ(Json("a: &x [1, 2]\nb: *x"), "{\"a\":[1,2],\"b\":[1,2]}");
  EXPECT_EQ(Json("base: &b {x: 1, w: 2}\nm: {<<: *b, w: 3}"), "{\"base\":{\"w\":2,\"x\":1},\"m\":{\"w\":3,\"x\":1}}");
  EXPECT_EQ(Json("a: &a {x: 1}\nb: &b {x: 2, z: 3}\nm:\n  <<: [*a, *b]"),
            "{\"a\":{\"x\":1},\"b\":{\"x\":2,\"z\":3},\"m\":{\"x\":1,\"z\":3}}");
  EXPECT_EQ(Json("'<<': 1"), "{\"<<\":1}");
}

TEST(Documents, AreSplitAndEmptyOnesLeftOut) {
  EXPECT_EQ(Json("a: 1\n---\n---\n# nothing\n---\nb: 2\n...\n"), "{\"a\":1}|{\"b\":2}");
  EXPECT_EQ(Json("{\"a\": 1} {\"b\": 2}"), "{\"a\":1}|{\"b\":2}");
  EXPECT_EQ(Json("{a: 1}"), "{\"a\":1}") << "flow style is YAML";
  EXPECT_EQ(Json("\xef\xbb\xbf"
                 "a: 1\r\nb: |\r\n  x\r\n"),
            "{\"a\":1,\"b\":\"x\\n\"}");
}

TEST(Positions, AreThoseOfTheText) {
  ReadResult result = ReadDocuments("a: 1\nb:\n  - c: x\n    d: [1,\n      2]\n");
  ASSERT_FALSE(result.error);
  const Value& b = *result.documents[0].Find("b");
  EXPECT_EQ(b.items[0].FindMember("d")->key_at, (Position{4, 5}));
  EXPECT_EQ(b.items[0].Find("d")->items[1].at, (Position{5, 7}));
  ReadResult json = ReadJson("{\n \"a\": [1,\n  2]}");
  ASSERT_FALSE(json.error);
  EXPECT_EQ(json.documents[0].Find("a")->items[1].at, (Position{3, 3}));
}

TEST(JsonReader, ReadsWhatYamlReadersStumbleOver) {
  EXPECT_EQ(Json("{\t\"a\": \"\\ud83d\\ude00\\/\\u00e9\\n\"}"), "{\"a\":\"\xf0\x9f\x98\x80/\xc3\xa9\\n\"}");
  EXPECT_EQ(Json("{\"a\": [-0, 1.5e-2, 9007199254740993, true, false, null, {}, []]}"),
            "{\"a\":[0,0.015,9007199254740993,true,false,null,{},[]]}");
}

TEST(JsonReader, RefusesWhatIsNoJson) {
  for (std::string_view text : {"{\"a\": 01}", "{\"a\": 1.}", "{\"a\": +1}", "{\"a\": \"\\x\"}", "{\"a\": \"\\ud83d\"}",
                                "{\"a\": \"\\u12\"}", "{\"a\" 1}", "{\"a\": 1,}", "{\"a\": [1 2]}", "{\"a\": tru}",
                                "{\"a\": \"\\u0000\"}", "{\"a\": 1e999}", "{", "{\"a", "{\"a\":"}) {
    EXPECT_TRUE(ReadJson(text).error) << text;
  }
}

TEST(Text, MustBeUtf8) {
  EXPECT_FALSE(CheckText("a: gr\xc3\xbcn \xf0\x9f\x98\x80"));
  for (std::string_view text :
       {"\x80", "\xc3", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff"}) {
    EXPECT_TRUE(CheckText(text)) << text.size();
  }
  EXPECT_EQ(CheckText("ab\nc\xff")->at, (Position{2, 2}));
}

// Whatever the text, reading ends soon, within its bounds, and with a value or an error. (The seed is printed on
// failure.)
TEST(AnyText, IsReadOrRefused) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(StrCat("seed ", seed));
  std::mt19937_64 random(seed);
  const std::vector<std::string> pieces = {
      "a",     ": ",  "\n", "  ", "- ",          "[",   "]",        "{",  "}",      ",",    "\"",
      "'",     "&x ", "*x", "<<", "#",           "|\n", ">\n",      "? ", "!!str ", "!t ",  "---\n",
      "...\n", "\t",  "1",  "~",  "%YAML 1.2\n", "\\",  "\xc3\xa9", "@",  "`",      "\r\n", "x: &x {a: 1}\n"};
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    size_t length = random() % 40;
    for (size_t i = 0; i < length; ++i) text += pieces[random() % pieces.size()];
    ParseResult result = ParseManifests(text, "random.yaml");
    for (const Diagnostic& d : result.diagnostics) ASSERT_FALSE(d.message.empty()) << text;
  }
}

// Texts that make naive readers slow or deep.
TEST(HostileTexts, EndWithinASecond) {
  auto repeated = [](std::string_view text) {
    std::string out;
    while (out.size() + text.size() < kMaxManifestBytes) out += text;
    return out;
  };
  for (std::string_view piece : {"[",
                                 "{",
                                 "? ",
                                 "- ",
                                 "&a ",
                                 "*a ",
                                 "!!",
                                 "\"",
                                 "'",
                                 "a: ",
                                 "a:\n ",
                                 "[a,",
                                 "{a: ",
                                 "x ",
                                 "# ",
                                 "|\n",
                                 "- - - - - - - -\n",
                                 "a: b: ",
                                 "? a\n",
                                 "- &a x\n",
                                 "{\"a\":",
                                 "[1,",
                                 "\n",
                                 "\t",
                                 "%",
                                 "---\n",
                                 "'\n",
                                 "{a: b},",
                                 "a: [b]\n",
                                 "!<",
                                 "@"}) {
    auto start = std::chrono::steady_clock::now();
    ReadDocuments(repeated(piece));
    std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    EXPECT_LT(taken.count(), 10.0) << "`" << piece << "` took " << taken.count()
                                   << " s";  // a second, on a machine that is not busy
  }
}

}  // namespace
}  // namespace millstream::spec
