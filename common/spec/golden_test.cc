// Every manifest in tests/golden/manifests against its .golden file: the exact diagnostics, each marked with the side
// that judges it (schema, cel, code), then the canonical JSON of every processor that passed.
// MILLSTREAM_UPDATE_GOLDEN=1 rewrites the .golden files.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "common/base/strings.h"
#include "common/spec/document.h"
#include "common/spec/manifest.h"

namespace millstream::spec {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = "tests/golden/manifests";

std::string Contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Texts too large or too odd to be files in a repository.
std::map<std::string, std::string> GeneratedTexts() {
  constexpr std::string_view kHead =
      "apiVersion: millstream.dev/v1alpha1\nkind: StreamProcessor\nmetadata: {name: odd}\n";
  auto repeated = [](std::string_view text, int times) {
    std::string out;
    for (int i = 0; i < times; ++i) out += text;
    return out;
  };
  std::map<std::string, std::string> texts;
  texts["generated-ten-megabytes"] =
      StrCat(kHead, "spec: {inputs: [{topic: a}]}\n", repeated("# a line that says nothing\n", 10 << 20 >> 4));
  texts["generated-deep-flow"] = StrCat(kHead, "spec: ", repeated("[", 100'000));
  texts["generated-deep-block"] = StrCat(kHead, "spec:\n  ", repeated("- ", 10'000), "x\n");
  texts["generated-deep-json"] = repeated("{\"a\":", 100'000);
  texts["generated-zero-byte"] = StrCat(kHead, "spec: {inputs: [{topic: a", std::string_view("\0", 1), "b}]}\n");
  texts["generated-not-utf8"] = StrCat(kHead, "spec: {inputs: [{topic: \"caf\xe9\"}]}\n");
  texts["generated-utf16"] = std::string(
      "\xff\xfe"
      "a\0p\0i\0",
      8);
  texts["generated-control-character"] = StrCat(kHead, "spec: {inputs: [{topic: \"a\x1b[31mb\"}]}\n");
  texts["generated-byte-order-mark"] = StrCat("\xef\xbb\xbf", kHead, "spec: {inputs: [{topic: a}]}\n");
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    std::string alias = StrCat("*a", i - 1);
    StrAppend(&bomb, "a", i, ": &a", i, " [", alias, repeated(StrCat(", ", alias), 9), "]\n");
  }
  texts["generated-alias-bomb"] = bomb;
  texts["generated-alias-fat"] =
      StrCat("big: &big \"", repeated("x", 100'000), "\"\nall: [*big", repeated(", *big", 200), "]\n");
  std::string chain = "a0: &a0 [x]\n";
  for (int i = 1; i < 100; ++i) StrAppend(&chain, "a", i, ": &a", i, " [*a", i - 1, "]\n");
  texts["generated-alias-depth"] = chain;
  texts["generated-many-documents"] = repeated("---\nkind: ConfigMap\n", 1100);
  texts["generated-many-values"] = StrCat(kHead, "spec: {inputs: [", repeated("1,", 120'000), "]}\n");
  texts["generated-many-errors"] = StrCat(kHead, "spec: {inputs: [{topic: a}], junk: 1", "}\n");
  std::string many = StrCat(kHead, "spec:\n  inputs: [{topic: a}]\n");
  for (int i = 0; i < 1500; ++i) StrAppend(&many, "  junk", i, ": 1\n");
  texts["generated-many-errors"] = many;
  return texts;
}

struct Case {
  std::string name;             // file name without extension
  std::vector<fs::path> files;  // NAME.yaml or NAME.json; several: the files of folder NAME
  std::string generated;
};

// How GoogleTest shows a failed case.
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::vector<Case> Cases() {
  if (!fs::exists(kFolder)) return {};  // not started in the root of the sources: the last tests say so
  std::vector<Case> cases;
  for (const fs::directory_entry& entry : fs::directory_iterator(kFolder)) {
    std::string extension = entry.path().extension();
    if (entry.is_directory()) {
      Case folder{entry.path().filename(), {}, ""};
      for (const fs::directory_entry& file : fs::directory_iterator(entry.path())) folder.files.push_back(file.path());
      std::sort(folder.files.begin(), folder.files.end());
      cases.push_back(folder);
    } else if (extension == ".yaml" || extension == ".json") {
      cases.push_back({entry.path().stem(), {entry.path()}, ""});
    }
  }
  for (const auto& [name, text] : GeneratedTexts()) cases.push_back({name, {}, text});
  std::sort(cases.begin(), cases.end(), [](const Case& a, const Case& b) { return a.name < b.name; });
  return cases;
}

// Diagnostics name the files as a user in that folder would.
ParseResult RunCase(const Case& c) {
  if (!c.generated.empty()) return ParseManifests(c.generated, StrCat(c.name, ".yaml"));
  if (c.files.size() == 1) return ParseManifests(Contents(c.files[0]), c.files[0].filename().string());
  std::vector<std::string> names;
  for (const fs::path& file : c.files) names.push_back(file.string());
  ParseResult result = ValidateFiles(names);
  std::string prefix = kFolder.string() + "/";
  for (Diagnostic& d : result.diagnostics) {
    for (std::string* text : {&d.file, &d.message}) {
      for (size_t at; (at = text->find(prefix)) != std::string::npos;) text->erase(at, prefix.size());
    }
  }
  return result;
}

std::string Golden(const ParseResult& result) {
  std::string out;
  constexpr size_t kMostShown = 12;
  for (size_t i = 0; i < result.diagnostics.size(); ++i) {
    if (i == kMostShown) {
      StrAppend(&out, "(", result.diagnostics.size() - i, " more, the last one:)\n");
      i = result.diagnostics.size() - 1;
    }
    StrAppend(&out, "[", ToString(result.diagnostics[i].judge), "] ", ToText(result.diagnostics[i]), "\n");
  }
  for (const Manifest& manifest : result.manifests)
    StrAppend(&out, nlohmann::json::parse(manifest.canonical_json).dump(1), "\n");
  return out;
}

class GoldenTest : public testing::TestWithParam<Case> {};

TEST_P(GoldenTest, IsAsWritten) {
  const Case& c = GetParam();
  fs::path golden = kFolder / (c.name + ".golden");
  ParseResult result = RunCase(c);
  std::string actual = Golden(result);
  if (std::getenv("MILLSTREAM_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(golden, std::ios::binary) << actual;
    return;
  }
  ASSERT_TRUE(fs::exists(golden)) << "run with MILLSTREAM_UPDATE_GOLDEN=1 and look at what it writes";
  EXPECT_EQ(actual, Contents(golden));
}

TEST_P(GoldenTest, CanonicalFormIsStable) {
  ParseResult result = RunCase(GetParam());
  for (const Manifest& manifest : result.manifests) {
    ParseResult again = ParseManifests(manifest.canonical_json, "canonical.json");
    EXPECT_TRUE(again.ok()) << ToText(again.diagnostics);
    ASSERT_EQ(again.manifests.size(), 1u);
    EXPECT_EQ(again.manifests[0].canonical_json, manifest.canonical_json);
  }
}

TEST_P(GoldenTest, EveryErrorHasAPlaceAndAMessage) {
  for (const Diagnostic& d : RunCase(GetParam()).diagnostics) {
    EXPECT_FALSE(d.file.empty());
    EXPECT_FALSE(d.message.empty());
    EXPECT_TRUE(d.line > 0 || d.path.empty()) << ToText(d);
    EXPECT_EQ(ToText(d).find('\n'), std::string::npos) << ToText(d);
  }
}

INSTANTIATE_TEST_SUITE_P(Manifests, GoldenTest, testing::ValuesIn(Cases()),
                         [](const testing::TestParamInfo<Case>& info) {
                           std::string name = info.param.name;
                           std::replace_if(
                               name.begin(), name.end(),
                               [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
                           return name;
                         });

TEST(GoldenCases, CoverEveryMirroredRuleAndAreMany) {
  EXPECT_GE(Cases().size(), 60u);
  std::string all;
  for (const Case& c : Cases()) {
    for (const Diagnostic& d : RunCase(c).diagnostics) {
      if (d.judge == Judge::kCel) StrAppend(&all, d.message, "\n");
    }
  }
  for (const std::string& message : MirroredRuleMessages())
    EXPECT_THAT(all, testing::HasSubstr(message)) << "no golden case for this rule";
}

// MILLSTREAM_WRITE_GENERATED=FOLDER writes the generated cases there: tests/operator shows them to a real API server.
TEST(GoldenCases, CanBeWrittenOut) {
  const char* folder = std::getenv("MILLSTREAM_WRITE_GENERATED");
  for (const auto& [name, text] : GeneratedTexts()) {
    EXPECT_FALSE(text.empty()) << name;
    if (folder != nullptr) std::ofstream(fs::path(folder) / (name + ".yaml"), std::ios::binary) << text;
  }
}

TEST(GoldenCases, HaveNoOrphanedGoldenFile) {
  std::set<std::string> names;
  for (const Case& c : Cases()) names.insert(c.name);
  for (const fs::directory_entry& entry : fs::directory_iterator(kFolder)) {
    if (entry.path().extension() != ".golden") continue;
    EXPECT_TRUE(names.contains(entry.path().stem())) << entry.path();
  }
}

}  // namespace
}  // namespace millstream::spec
