#include "common/log/kafka/assignment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

namespace millstream::kafka {
namespace {

using namespace std::string_literals;

// Version 1, [("in", [0, 2]), ("b", [7])], user data "x".
const std::string kAssignment = "\0\1\0\0\0\2\0\2in\0\0\0\2\0\0\0\0\0\0\0\2\0\1b\0\0\0\1\0\0\0\7\0\0\0\1x"s;

TEST(AssignmentTest, DecodesTopicsAndPartitions) {
  EXPECT_THAT(DecodeAssignment(kAssignment),
              testing::ElementsAre(TopicPartition{"in", Partition(0)}, TopicPartition{"in", Partition(2)},
                                   TopicPartition{"b", Partition(7)}));
}

TEST(AssignmentTest, WhatIsCutOffOrDamagedIsNoAssignment) {
  for (size_t size = 0; size + 6 < kAssignment.size(); ++size)
    EXPECT_THAT(DecodeAssignment(kAssignment.substr(0, size)), testing::IsEmpty()) << size;
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 20'000; ++i) {
    std::string damaged = kAssignment;
    damaged[random() % damaged.size()] = static_cast<char>(random());
    DecodeAssignment(damaged);  // ends, and reads nothing beyond
  }
}

}  // namespace
}  // namespace millstream::kafka
