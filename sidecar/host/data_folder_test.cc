#include "sidecar/host/data_folder.h"

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millstream::host {
namespace {

using ::testing::HasSubstr;

class DataFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/folder-XXXXXX";
    root_ = mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  std::string root_;
};

TEST_F(DataFolderTest, KeepsItsIdAndLetsTheNextOneIn) {
  std::string id;
  {
    auto folder = DataFolder::Acquire(root_ + "/new/data", "test", true);
    ASSERT_TRUE(folder.ok()) << folder.status();
    id = (*folder)->instance_id();
    EXPECT_EQ(id.size(), 12u);
  }
  auto again = DataFolder::Acquire(root_ + "/new/data", "test", true);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*again)->instance_id(), id);
}

TEST_F(DataFolderTest, AMissingFolderIsNotMadeUnasked) {
  EXPECT_TRUE(absl::IsNotFound(DataFolder::Acquire(root_ + "/nothing", "test", false).status()));
  EXPECT_FALSE(std::filesystem::exists(root_ + "/nothing"));
}

TEST_F(DataFolderTest, ASecondProcessIsToldWhoHoldsIt) {
  auto folder = DataFolder::Acquire(root_, "millstream run", true);
  ASSERT_TRUE(folder.ok());
  const pid_t holder = getpid();
  const pid_t child = fork();
  if (child == 0) {
    const auto refused = DataFolder::Acquire(root_, "other", true);
    const bool named =
        absl::IsFailedPrecondition(refused.status()) &&
        std::string(refused.status().message()).find("millstream run (pid " + std::to_string(holder) + ")") !=
            std::string::npos;
    _exit(named ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(DataFolderTest, RemembersProcessors) {
  auto folder = DataFolder::Acquire(root_, "test", true);
  ASSERT_TRUE(folder.ok());
  const spec::ParseResult parsed = spec::ParseManifests(
      "apiVersion: millstream.dev/v1alpha1\nkind: StreamProcessor\nmetadata: {name: one}\nspec: {inputs: [{topic: "
      "in}], stores: [{name: s}]}\n",
      "one.yaml");
  ASSERT_TRUE(parsed.ok()) << spec::ToText(parsed.diagnostics);
  ASSERT_TRUE((*folder)->RememberProcessor(parsed.manifests[0]).ok());
  ASSERT_TRUE((*folder)->RememberProcessor(parsed.manifests[0]).ok());
  const std::vector<spec::Manifest> known = (*folder)->KnownProcessors();
  ASSERT_EQ(known.size(), 1u);
  EXPECT_EQ(known[0].canonical_json, parsed.manifests[0].canonical_json);
}

}  // namespace
}  // namespace millstream::host
