#include "common/log/partitioner_check.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace millstream::log {
namespace {

constexpr KeyHash kAll[] = {KeyHash::kMurmur2, KeyHash::kCrc32, KeyHash::kFnv1a};

void FeedKeys(PartitionerCheck& check, KeyHash actual, int partitions, int from, int count) {
  for (int i = from; i < from + count; ++i) {
    const std::string key = "key-" + std::to_string(i);
    check.Feed(key, PartitionOfKey(actual, key, partitions));
  }
}

TEST(PartitionerCheck, AgreesWithWhatWasDeclared) {
  for (const KeyHash hash : kAll) {
    PartitionerCheck check(hash, 8);
    FeedKeys(check, hash, 8, 0, 100'000);
    EXPECT_EQ(check.disagreement(), std::nullopt);
    EXPECT_EQ(check.Describe("orders"), "");
  }
}

TEST(PartitionerCheck, NamesThePartitionerThatFits) {
  for (const int partitions : {2, 3, 8, 100}) {
    for (const KeyHash declared : kAll) {
      for (const KeyHash actual : kAll) {
        if (declared == actual) continue;
        PartitionerCheck check(declared, partitions);
        FeedKeys(check, actual, partitions, 0, 200);
        const auto found = check.disagreement();
        ASSERT_TRUE(found.has_value()) << ToString(declared) << " " << ToString(actual) << " of " << partitions;
        EXPECT_EQ(found->samples, 200);
        EXPECT_EQ(found->fits, actual);
      }
    }
  }
}

TEST(PartitionerCheck, OnePartitionProvesNothing) {
  PartitionerCheck check(KeyHash::kCrc32, 1);
  FeedKeys(check, KeyHash::kMurmur2, 1, 0, 1000);
  EXPECT_EQ(check.disagreement(), std::nullopt);
}

TEST(PartitionerCheck, AFewRecordsPlacedByHandAreNoDisagreement) {
  PartitionerCheck check(KeyHash::kMurmur2, 8);
  for (int i = 0; i < 50; ++i) check.Feed("by hand", Partition((i + 3) % 8));
  FeedKeys(check, KeyHash::kMurmur2, 8, 0, 206);
  EXPECT_EQ(check.disagreement(), std::nullopt);
}

TEST(PartitionerCheck, EmptyKeysCountForNothing) {
  PartitionerCheck check(KeyHash::kMurmur2, 8);
  for (int i = 0; i < 10'000; ++i) check.Feed("", Partition(i % 8));
  EXPECT_EQ(check.disagreement(), std::nullopt);
}

TEST(PartitionerCheck, SaysSoWhenNothingFits) {
  PartitionerCheck check(KeyHash::kMurmur2, 8);
  for (int i = 0; i < 200; ++i) check.Feed("key-" + std::to_string(i), Partition(i % 8));
  const auto found = check.disagreement();
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->fits, std::nullopt);
  EXPECT_NE(check.Describe("orders").find("None that Millstream knows"), std::string::npos);
}

TEST(PartitionerCheck, TellsWhatToDeclare) {
  PartitionerCheck check(KeyHash::kMurmur2, 8);
  FeedKeys(check, KeyHash::kCrc32, 8, 0, 64);
  const std::string text = check.Describe("orders");
  EXPECT_NE(text.find("topic orders: "), std::string::npos) << text;
  EXPECT_NE(text.find("of 64 sampled keys"), std::string::npos) << text;
  EXPECT_NE(text.find("declare partitioner: Crc32"), std::string::npos) << text;
}

// Producers that are changed are noticed; and that they were changed back is, too.
TEST(PartitionerCheck, OldEvidenceFades) {
  PartitionerCheck check(KeyHash::kMurmur2, 8);
  FeedKeys(check, KeyHash::kMurmur2, 8, 0, 100'000);
  FeedKeys(check, KeyHash::kFnv1a, 8, 0, 50'000);
  ASSERT_TRUE(check.disagreement().has_value());
  EXPECT_EQ(check.disagreement()->fits, KeyHash::kFnv1a);
  FeedKeys(check, KeyHash::kMurmur2, 8, 0, 50'000);
  EXPECT_EQ(check.disagreement(), std::nullopt);
}

}  // namespace
}  // namespace millstream::log
