// Replays what the fuzzer starts from (the golden frames) and what it once found (corpus/), with the ordinary compiler.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "gtest/gtest.h"
#include "tests/fuzz/protocol_fuzz.h"

namespace millstream {
namespace {

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(FuzzCorpusTest, GoldenFrames) {
  int count = 0;
  std::string all;
  for (const auto& entry : std::filesystem::directory_iterator("tests/conformance/frames")) {
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

}  // namespace
}  // namespace millstream
