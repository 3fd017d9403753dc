// Replays what the fuzzer starts from (the golden frames) and what it once found (corpus/), with the ordinary compiler.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "gtest/gtest.h"
#include "sidecar/group/plan/assignment_data.h"
#include "sidecar/group/plan/leader.h"
#include "sidecar/group/wire/message.h"
#include "tests/fuzz/group_fuzz.h"
#include "tests/fuzz/protocol_fuzz.h"
#include "tests/fuzz/watch_fuzz.h"

namespace millstream {
namespace {

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(FuzzCorpusTest, GoldenFrames) {
  int count = 0;
  std::string all;
  for (const auto& entry : std::filesystem::recursive_directory_iterator("tests/conformance/frames")) {
    if (entry.path().extension() != ".json") continue;
    SCOPED_TRACE(entry.path());
    const std::string hex = nlohmann::json::parse(ReadFile(entry.path()))["frame"];
    std::string frame;
    for (size_t i = 0; i + 1 < hex.size(); i += 2)
      frame.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
    for (const char piece : {'\x00', '\x01', '\xff'}) FuzzProtocol(piece + frame);
    all += frame;
    ++count;
  }
  FuzzProtocol('\x03' + all);
  EXPECT_GT(count, 50);
}

TEST(FuzzCorpusTest, WhatWasFound) {
  for (const auto& entry : std::filesystem::directory_iterator("tests/fuzz/corpus")) {
    SCOPED_TRACE(entry.path());
    FuzzProtocol(ReadFile(entry.path()));
  }
}

TEST(FuzzCorpusTest, GroupMessages) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("tests/fuzz/corpus-group")) {
    SCOPED_TRACE(entry.path());
    const std::string input = ReadFile(entry.path());
    for (size_t size = 0; size <= input.size(); ++size) FuzzGroup(std::string_view(input).substr(0, size));
    ++count;
  }
  EXPECT_GT(count, 10);
  // The seeds are good ones.
  const auto joined =
      group::wire::DecodeMessage<group::wire::JoinGroupResponse>(ReadFile("tests/fuzz/corpus-group/seed-2").substr(1));
  ASSERT_TRUE(joined.ok()) << joined.status();
  const group::GenerationPlan plan = group::PrepareGeneration(*joined, group::Roster());
  EXPECT_TRUE(plan.unreadable.ok()) << plan.unreadable;
  EXPECT_EQ(plan.members.at(0).plan.active.size(), 12u);
  EXPECT_EQ(plan.vanished.size(), 1u);
  EXPECT_TRUE(group::DecodeAssignmentData(ReadFile("tests/fuzz/corpus-group/seed-13").substr(1)).ok());
}

TEST(FuzzCorpusTest, Watches) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("tests/fuzz/corpus-watch")) {
    SCOPED_TRACE(entry.path());
    const std::string input = ReadFile(entry.path());
    for (size_t size = 0; size <= input.size(); ++size) FuzzWatch(std::string_view(input).substr(0, size));
    ++count;
  }
  EXPECT_GE(count, 4);
}

}  // namespace
}  // namespace millstream
