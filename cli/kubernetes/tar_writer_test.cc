#include "cli/kubernetes/tar_writer.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace millstream::cli {
namespace {

// What tar says of it.
std::string OutputOf(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  std::string out;
  for (int c = fgetc(pipe); c != EOF; c = fgetc(pipe)) out.push_back(static_cast<char>(c));
  EXPECT_EQ(pclose(pipe), 0) << command;
  return out;
}

TEST(TarWriterTest, TarReadsItBack) {
  std::string root = "/tmp/ms-tar-XXXXXX";
  root = mkdtemp(root.data());
  TarWriter tar(1700000000);
  tar.Add("bundle/empty", "");
  tar.Add("bundle/block", std::string(512, 'x'));
  tar.Add("bundle/pods/a.json", "{\"a\": 1}\n");
  std::ofstream(root + "/a.tar", std::ios::binary) << tar.Finish();
  EXPECT_EQ(OutputOf("tar -tf " + root + "/a.tar"), "bundle/empty\nbundle/block\nbundle/pods/a.json\n");
  EXPECT_EQ(OutputOf("tar -xOf " + root + "/a.tar bundle/pods/a.json"), "{\"a\": 1}\n");
  EXPECT_EQ(OutputOf("tar -xOf " + root + "/a.tar bundle/block"), std::string(512, 'x'));
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace millstream::cli
