#include "sidecar/store/value_cache.h"

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>

#include "common/base/strings.h"
#include "gtest/gtest.h"

namespace millstream::store {
namespace {

using Key = ValueCache::Key;

TEST(ValueCacheTest, FindsWhatWasPutUntilItIsErased) {
  ValueCache cache(ValueCache::kLeastBytes);
  EXPECT_EQ(cache.Find(Key(1, "a")), std::nullopt);
  cache.Put(Key(1, "a"), "one");
  cache.Put(Key(2, "a"), "other store");
  cache.Put(Key(1, ""), "");
  EXPECT_EQ(cache.Find(Key(1, "a")), "one");
  EXPECT_EQ(cache.Find(Key(2, "a")), "other store");
  EXPECT_EQ(cache.Find(Key(1, "")), "");
  cache.Put(Key(1, "a"), "1");
  EXPECT_EQ(cache.Find(Key(1, "a")), "1");
  cache.Put(Key(1, "a"), std::string(300, 'x'));
  EXPECT_EQ(cache.Find(Key(1, "a")), std::string(300, 'x'));
  cache.Erase(Key(1, "a"));
  cache.Erase(Key(1, "never there"));
  EXPECT_EQ(cache.Find(Key(1, "a")), std::nullopt);
  EXPECT_EQ(cache.Find(Key(2, "a")), "other store");
  EXPECT_EQ(cache.entries(), 2);
}

TEST(ValueCacheTest, TooLargeAValueIsForgottenNotKeptStale) {
  ValueCache cache(ValueCache::kLeastBytes);
  cache.Put(Key(1, "a"), "small");
  cache.Put(Key(1, "a"), std::string(ValueCache::kLargestEntry, 'x'));
  EXPECT_EQ(cache.Find(Key(1, "a")), std::nullopt);
  cache.Put(Key(1, "a"), std::string(ValueCache::kLargestEntry - 1, 'x'));
  EXPECT_EQ(cache.Find(Key(1, "a")), std::string(ValueCache::kLargestEntry - 1, 'x'));
}

TEST(ValueCacheTest, WhatIsFoundAgainAndAgainStays) {
  ValueCache cache(ValueCache::kLeastBytes);
  cache.Put(Key(1, "hot"), "value");
  cache.Put(Key(1, "cold"), "value");
  for (int i = 0; i < 100'000; ++i) {
    cache.Put(Key(1, StrCat("key ", i)), "value");
    if (i % 100 == 0) {
      ASSERT_EQ(cache.Find(Key(1, "hot")), "value") << i;
    }
  }
  EXPECT_EQ(cache.Find(Key(1, "cold")), std::nullopt);
  EXPECT_EQ(cache.Find(Key(1, "key 99999")), "value") << "the newest is there";
  EXPECT_LT(cache.entries(), 10'000);
}

TEST(ValueCacheTest, KeysThatAreNeverAskedForDriveOutLittle) {
  ValueCache cache(ValueCache::kLeastBytes);
  const auto put = [&](int i) { cache.Put(Key(1, StrCat("key ", i)), "value"); };
  int kept = 0;
  do put(kept++);
  while (cache.entries() == kept);  // until some are dropped for others
  const int64_t before = cache.entries();
  for (int i = 0; i < 10'000; ++i) EXPECT_EQ(cache.Find(Key(1, StrCat("no such key ", i))), std::nullopt);
  for (int i = 0; i < kept; ++i) put(1'000'000 + i);
  int64_t left = 0;
  for (int i = 0; i < kept; ++i) left += cache.Find(Key(1, StrCat("key ", i))).has_value();
  EXPECT_GT(left, before / 2) << "of " << before;
}

TEST(ValueCacheTest, StaysWithinItsBytes) {
  for (const int64_t bytes : {int64_t{0}, ValueCache::kLeastBytes, int64_t{1} << 20, (int64_t{3} << 20) + 17}) {
    ValueCache cache(bytes);
    EXPECT_LE(cache.bytes(), std::max(bytes, ValueCache::kLeastBytes));
    EXPECT_GT(cache.bytes(), std::max(bytes, ValueCache::kLeastBytes) / 2);
  }
}

// Never another value than the last one, whatever was dropped in between.
TEST(ValueCacheTest, AgreesWithAModel) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(StrCat("seed ", seed));
  std::mt19937 random(seed);
  for (const int keys : {1000, 30'000}) {
    ValueCache cache(1 << 20);
    std::map<std::pair<uint32_t, std::string>, std::string> model;
    for (int step = 0; step < 200'000; ++step) {
      const uint32_t space = random() % 3;
      const std::string name = StrCat("key ", random() % keys);
      const Key key(space, name);
      switch (random() % 8) {
        case 0:
          cache.Erase(key);
          model.erase({space, name});
          break;
        case 1:
        case 2:
        case 3: {
          const std::string value(random() % (random() % 50 == 0 ? 2 * ValueCache::kLargestEntry : 24),
                                  'a' + step % 26);
          cache.Put(key, value);
          model[{space, name}] = value;
          break;
        }
        default: {
          cache.PrefetchSlot(key);
          cache.PrefetchEntry(key);
          const auto found = cache.Find(key);
          const auto known = model.find({space, name});
          if (found.has_value()) {
            ASSERT_NE(known, model.end()) << step;
            ASSERT_EQ(*found, known->second) << step;
          }
        }
      }
      ASSERT_LE(cache.entries(), static_cast<int64_t>(model.size()));
    }
    int64_t found = 0;
    for (const auto& [of, value] : model) found += cache.Find(Key(of.first, of.second)).has_value();
    EXPECT_EQ(found, cache.entries());
    EXPECT_GT(found, 0);
  }
}

}  // namespace
}  // namespace millstream::store
