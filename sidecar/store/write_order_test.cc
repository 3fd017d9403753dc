#include "sidecar/store/write_order.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "common/base/strings.h"
#include "gtest/gtest.h"

namespace millstream::store {
namespace {

TEST(WriteOrderTest, NothingAndOne) {
  EXPECT_TRUE(OrderOf({}).empty());
  EXPECT_EQ(OrderOf({{0, "", std::nullopt}}), std::vector<uint32_t>{0});
}

// As a stable sort by store and key, whatever the keys have in common.
TEST(WriteOrderTest, IsThatOfAStableSort) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(StrCat("seed ", seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    const std::string prefix(random() % 12, 'p');
    std::vector<StoreWrite> writes(random() % 60);
    for (StoreWrite& write : writes) {
      write.store = random() % 3;
      write.key = random() % 20 == 0 ? "" : prefix;
      // Few different bytes, zero and negative ones among them: equal heads, one key the beginning of another.
      for (size_t left = random() % 14; left > 0; --left)
        write.key.push_back(
            "\0\xff"
            "a"[random() % 3]);
    }
    std::vector<uint32_t> expected(writes.size());
    std::iota(expected.begin(), expected.end(), 0);
    std::stable_sort(expected.begin(), expected.end(), [&](uint32_t a, uint32_t b) {
      return writes[a].store != writes[b].store ? writes[a].store < writes[b].store : writes[a].key < writes[b].key;
    });
    ASSERT_EQ(OrderOf(writes), expected) << "round " << round;
  }
}

}  // namespace
}  // namespace millstream::store
