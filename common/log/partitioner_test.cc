#include "common/log/partitioner.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "common/base/hex.h"

namespace millstream::log {
namespace {

struct Vector {
  std::string_view key;
  uint32_t murmur2, crc32, fnv1a;
  int murmur2_of_7, crc32_of_7, fnv1a_of_7;  // partition of 7
};

// Computed by an independent implementation in Python: the Java client's murmur2 transcribed with Java's integers
// (checked against the vectors of that client's own tests), zlib's crc32, FNV-1a from its definition.
constexpr Vector kVectors[] = {
    {std::string_view("", 0), 0x106e08d9u, 0x00000000u, 0x811c9dc5u, 2, 0, 2},
    {std::string_view("\141", 1), 0xa2d0b27cu, 0xe8b7be43u, 0xe40c292cu, 5, 4, 6},
    {std::string_view("\141\142", 2), 0x12d8262au, 0x9e83486du, 0x4d2505cau, 0, 5, 2},
    {std::string_view("\141\142\143", 3), 0x1c94221bu, 0x352441c2u, 0x1a47e90bu, 4, 5, 5},
    {std::string_view("\141\142\143\144", 4), 0xb11ab5f4u, 0xed82cd11u, 0xce3479bdu, 5, 4, 1},
    {std::string_view("\062\061", 2), 0xc5f2f8ecu, 0xfd7746b4u, 0x8cf297ecu, 3, 6, 3},
    {std::string_view("\146\157\157\142\141\162", 6), 0xd0e47bbeu, 0x9ef61f95u, 0xbf9cf968u, 0, 6, 4},
    {std::string_view("\000", 1), 0x166197bcu, 0xd202ef8du, 0x050c5d1fu, 0, 2, 5},
    {std::string_view("\377\376\375", 3), 0x3b85fe24u, 0x08eaaf6du, 0x8d61d617u, 5, 4, 1},
    {std::string_view("\200\201\202\203\204", 5), 0x9cb89e59u, 0x3aebd58eu, 0x4276dd6fu, 4, 3, 2},
    {std::string_view("\147\162\303\266\303\237\145", 7), 0x230eabf4u, 0x5bd3a989u, 0xcd38f49au, 4, 3, 6},
    {std::string_view(
         "\141\055\154\151\164\164\154\145\055\142\151\164\055\154\157\156\147\055\163\164\162\151\156\147", 24),
     0xc53b1da0u, 0xee71cd62u, 0xdda30828u, 1, 3, 1},
    {std::string_view(
         "\154\153\152\150\062\063\064\154\150\071\146\151\165\150\071\060\171\062\063\157\151\165\150\163\141\146\165"
         "\152\150\141\144\157\146\062\062\071\160\150\162\071\150\061\071\150\070\071\150\070",
         48),
     0xfc7d49cdu, 0xe0abb921u, 0x1731f50eu, 3, 2, 2},
    {std::string_view("\165\163\145\162\055\064\062", 7), 0x5700682cu, 0x7d06b873u, 0x026073abu, 1, 1, 6},
    {std::string_view(
         "\000\001\002\003\004\005\006\007\010\011\012\013\014\015\016\017\020\021\022\023\024\025\026\027\030\031\032"
         "\033\034\035\036\037\040\041\042\043\044\045\046\047\050\051\052\053\054\055\056\057\060\061\062\063\064\065"
         "\066\067\070\071\072\073\074\075\076\077\100\101\102\103\104\105\106\107\110\111\112\113\114\115\116\117\120"
         "\121\122\123\124\125\126\127\130\131\132\133\134\135\136\137\140\141\142\143\144\145\146\147\150\151\152\153"
         "\154\155\156\157\160\161\162\163\164\165\166\167\170\171\172\173\174\175\176\177\200\201\202\203\204\205\206"
         "\207\210\211\212\213\214\215\216\217\220\221\222\223\224\225\226\227\230\231\232\233\234\235\236\237\240\241"
         "\242\243\244\245\246\247\250\251\252\253\254\255\256\257\260\261\262\263\264\265\266\267\270\271\272\273\274"
         "\275\276\277\300\301\302\303\304\305\306\307\310\311\312\313\314\315\316\317\320\321\322\323\324\325\326\327"
         "\330\331\332\333\334\335\336\337\340\341\342\343\344\345\346\347\350\351\352\353\354\355\356\357\360\361\362"
         "\363\364\365\366\367\370\371\372\373\374\375\376\377",
         256),
     0x8bde9476u, 0x29058c73u, 0x90a458c5u, 3, 5, 5},
};

TEST(Partitioner, HashesAsTheClientsInTheField) {
  for (const Vector& vector : kVectors) {
    SCOPED_TRACE(vector.key.size());
    EXPECT_EQ(Murmur2(vector.key), vector.murmur2);
    EXPECT_EQ(Crc32(vector.key), vector.crc32);
    EXPECT_EQ(Fnv1a(vector.key), vector.fnv1a);
    EXPECT_EQ(PartitionOfKey(KeyHash::kMurmur2, vector.key, 7), Partition(vector.murmur2_of_7));
    EXPECT_EQ(PartitionOfKey(KeyHash::kCrc32, vector.key, 7), Partition(vector.crc32_of_7));
    EXPECT_EQ(PartitionOfKey(KeyHash::kFnv1a, vector.key, 7), Partition(vector.fnv1a_of_7));
  }
}

TEST(Partitioner, KnowsTheVectorsOfTheJavaClient) {
  EXPECT_EQ(static_cast<int32_t>(Murmur2("21")), -973932308);
  EXPECT_EQ(static_cast<int32_t>(Murmur2("foobar")), -790332482);
  EXPECT_EQ(static_cast<int32_t>(Murmur2("a-little-bit-long-string")), -985981536);
  EXPECT_EQ(static_cast<int32_t>(Murmur2("a-little-bit-longer-string")), -1486304829);
  EXPECT_EQ(static_cast<int32_t>(Murmur2("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8")), -58897971);
  EXPECT_EQ(static_cast<int32_t>(Murmur2("abc")), 479470107);
}

// What the Java client, librdkafka and Sarama themselves chose (tools/partitioners).
TEST(Partitioner, ChoosesAsTheClientsThemselves) {
  std::ifstream golden("tests/golden/partitioners.txt");
  ASSERT_TRUE(golden.is_open());
  int lines = 0;
  for (std::string line; std::getline(golden, line);) {
    if (line.starts_with("#")) continue;
    std::istringstream columns(line);
    std::string hex;
    int partitions = 0, java = 0, consistent = 0, murmur2 = 0, fnv1a = 0, sarama = 0;
    ASSERT_TRUE(columns >> hex >> partitions >> java >> consistent >> murmur2 >> fnv1a >> sarama) << line;
    const std::string key = BytesOfHex(hex).value();
    SCOPED_TRACE(line);
    EXPECT_EQ(PartitionOfKey(KeyHash::kMurmur2, key, partitions), Partition(java));
    EXPECT_EQ(PartitionOfKey(KeyHash::kMurmur2, key, partitions), Partition(murmur2));
    EXPECT_EQ(PartitionOfKey(KeyHash::kCrc32, key, partitions), Partition(consistent));
    EXPECT_EQ(PartitionOfKey(KeyHash::kFnv1a, key, partitions), Partition(fnv1a));
    EXPECT_EQ(PartitionOfKey(KeyHash::kFnv1a, key, partitions), Partition(sarama));
    ++lines;
  }
  EXPECT_GT(lines, 500);
}

TEST(Partitioner, NullKeysTakeTurnsAndEmptyKeysDoNot) {
  Partitioner partitioner(KeyHash::kMurmur2, 3, /*first=*/2);
  EXPECT_EQ(partitioner.Choose(std::nullopt), Partition(2));
  EXPECT_EQ(partitioner.Choose(std::nullopt), Partition(0));
  const Partition empty = partitioner.Choose("");
  EXPECT_EQ(empty, PartitionOfKey(KeyHash::kMurmur2, "", 3));
  EXPECT_EQ(partitioner.Choose(std::nullopt), Partition(1));
  EXPECT_EQ(partitioner.Choose(""), empty);
}

TEST(Partitioner, SpreadsManyKeysOverAllPartitions) {
  for (const KeyHash hash : {KeyHash::kMurmur2, KeyHash::kCrc32, KeyHash::kFnv1a}) {
    int counts[16] = {};
    for (int i = 0; i < 16'000; ++i) ++counts[PartitionOfKey(hash, "key-" + std::to_string(i), 16).value()];
    for (int count : counts) EXPECT_NEAR(count, 1000, 250);
  }
}

}  // namespace
}  // namespace millstream::log
