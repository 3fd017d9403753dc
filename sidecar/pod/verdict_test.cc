#include "sidecar/pod/verdict.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "common/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace millstream::pod {
namespace {

using Json = nlohmann::json;

TEST(VerdictTest, SaysWhatThereIsToSay) {
  const Verdict verdict{.ok = true,
                        .reason = "TopicsReady",
                        .message = "3 topics, 1 created",
                        .tasks = 4,
                        .created = {"a (4 partitions)"},
                        .deleted = {},
                        .warnings = {"b is not compacted"}};
  const Json said = Json::parse(ToJson(verdict));
  EXPECT_EQ(said.dump(),
            R"j({"created":["a (4 partitions)"],"message":"3 topics, 1 created","ok":true,"reason":"TopicsReady",)j"
            R"j("retry":false,"tasks":4,"warnings":["b is not compacted"]})j");
}

TEST(VerdictTest, NeverLongerThanTheKubeletTakes) {
  for (const std::string& unit :
       {std::string("x"), std::string("\x01"), std::string("\xc3\xa4"), std::string("\xff")}) {
    Verdict verdict{
        .ok = false, .reason = "TopicMismatch", .message = {}, .created = {}, .deleted = {}, .warnings = {}};
    for (int i = 0; i < 10'000; ++i) verdict.message += unit;
    for (int i = 0; i < 500; ++i) {
      verdict.created.push_back(StrCat("topic-", i, " of 12 partitions ", std::string(i, 'y')));
      verdict.warnings.push_back(verdict.message.substr(0, 1000));
    }
    const std::string text = ToJson(verdict);
    EXPECT_LE(text.size(), kMaxVerdictBytes);
    const Json json = Json::parse(text);
    const size_t told = json["created"].size() + json["warnings"].size();
    EXPECT_EQ(told + json["leftOut"].get<size_t>(), 1000u);
    EXPECT_EQ(json["reason"], "TopicMismatch");
    EXPECT_GT(json["message"].get<std::string>().size(), 100u);
  }
}

TEST(VerdictTest, TheExitCodeTellsWhetherAnotherAttemptIsWorthIt) {
  Verdict verdict{.ok = true, .reason = {}, .message = {}, .created = {}, .deleted = {}, .warnings = {}};
  EXPECT_EQ(ExitCodeOf(verdict), 0);
  verdict.ok = false;
  EXPECT_EQ(ExitCodeOf(verdict), 1);
  verdict.retry = true;
  EXPECT_EQ(ExitCodeOf(verdict), 3);
}

TEST(VerdictTest, TheTerminationMessageReplacesWhatIsThere) {
  std::string root = "/tmp/ms-verdict-XXXXXX";
  root = mkdtemp(root.data());
  const std::string path = root + "/log";
  std::ofstream(path) << "something much longer that was there before";
  ASSERT_TRUE(WriteTerminationMessage(path, "{}").ok());
  std::ifstream file(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "{}");
  EXPECT_FALSE(WriteTerminationMessage(root + "/no/such/folder", "{}").ok());
  EXPECT_TRUE(WriteTerminationMessage("", "{}").ok());
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace millstream::pod
