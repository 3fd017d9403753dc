#include "common/base/ids.h"

#include <gtest/gtest.h>

#include "absl/container/flat_hash_set.h"

namespace millstream {
namespace {

TEST(StrongInt, ComparesAndMeasures) {
  EXPECT_LT(Offset(1), Offset(2));
  EXPECT_EQ(Offset(1).Next(), Offset(2));
  EXPECT_EQ(Offset(9) - Offset(4), 5);
  static_assert(!std::is_convertible_v<Offset, Partition>);
  static_assert(!std::is_convertible_v<int64_t, Offset>);
}

TEST(TopicPartition, HashesAndPrints) {
  absl::flat_hash_set<TopicPartition> set{{"a", Partition(1)}, {"a", Partition(1)}, {"a", Partition(2)}};
  EXPECT_EQ(set.size(), 2u);
  EXPECT_EQ((TopicPartition{"orders", Partition(3)}.ToString()), "orders-3");
}

}  // namespace
}  // namespace millstream
