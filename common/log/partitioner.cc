#include "common/log/partitioner.h"

#include <array>
#include <cstring>

#include "common/base/status.h"

namespace millstream::log {
namespace {

constexpr std::array<uint32_t, 256> MakeCrcTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0xedb88320u : crc >> 1;
    table[i] = crc;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kCrcTable = MakeCrcTable();

uint32_t LittleEndian32(const char* bytes) {
  uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

}  // namespace

uint32_t Murmur2(std::string_view bytes) {
  constexpr uint32_t kMix = 0x5bd1e995;
  constexpr int kShift = 24;
  uint32_t hash = 0x9747b28cu ^ static_cast<uint32_t>(bytes.size());
  for (; bytes.size() >= 4; bytes.remove_prefix(4)) {
    uint32_t word = LittleEndian32(bytes.data()) * kMix;
    word ^= word >> kShift;
    hash = hash * kMix ^ word * kMix;
  }
  if (!bytes.empty()) {
    for (size_t i = bytes.size(); i-- > 0;)
      hash ^= static_cast<uint32_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
    hash *= kMix;
  }
  hash ^= hash >> 13;
  hash *= kMix;
  return hash ^ hash >> 15;
}

uint32_t Crc32(std::string_view bytes) {
  uint32_t crc = ~0u;
  for (char c : bytes) crc = crc >> 8 ^ kCrcTable[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  return ~crc;
}

uint32_t Fnv1a(std::string_view bytes) {
  uint32_t hash = 0x811c9dc5u;
  for (char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x01000193u;
  return hash;
}

Partition PartitionOfKey(KeyHash hash, std::string_view key, int partitions) {
  MS_CHECK(partitions > 0);
  switch (hash) {
    // Java's Utils.toPositive: the sign bit is masked away.
    case KeyHash::kMurmur2:
      return Partition(static_cast<int32_t>((Murmur2(key) & 0x7fffffffu) % partitions));
    case KeyHash::kCrc32:
      return Partition(static_cast<int32_t>(Crc32(key) % static_cast<uint32_t>(partitions)));
    case KeyHash::kFnv1a: {
      // Sarama and librdkafka: remainder of the signed value, its sign dropped afterwards.
      const int32_t remainder = static_cast<int32_t>(Fnv1a(key)) % partitions;
      return Partition(remainder < 0 ? -remainder : remainder);
    }
  }
  return Partition(0);
}

}  // namespace millstream::log
