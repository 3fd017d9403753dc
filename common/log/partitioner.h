#ifndef MILLSTREAM_COMMON_LOG_PARTITIONER_H_
#define MILLSTREAM_COMMON_LOG_PARTITIONER_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "common/base/ids.h"

namespace millstream::log {

// How a record's key chooses its partition. All are those of clients in the field, so that a topic written by
// Millstream is co-partitioned with topics written by them.
enum class KeyHash {
  kMurmur2,  // Java clients' default; librdkafka's murmur2 and murmur2_random; franz-go's default
  kCrc32,    // librdkafka's consistent and consistent_random
  kFnv1a,    // librdkafka's fnv1a and fnv1a_random; Sarama's default
};

// 32-bit MurmurHash2 with the seed of Kafka's Java client.
uint32_t Murmur2(std::string_view bytes);
// IEEE CRC-32, as in zlib.
uint32_t Crc32(std::string_view bytes);
uint32_t Fnv1a(std::string_view bytes);

// The partition of a key; the same for ever. Precondition: partitions > 0.
Partition PartitionOfKey(KeyHash hash, std::string_view key, int partitions);

// Chooses partitions for the records of one topic: by key, and in turn for those without one (null; an empty key is a
// key). Thread-compatible.
class Partitioner {
 public:
  // Precondition: partitions > 0. `first` is where the turn begins; several writers choose different ones.
  Partitioner(KeyHash hash, int partitions, uint32_t first = 0) : hash_(hash), partitions_(partitions), turn_(first) {}
  Partition Choose(const std::optional<std::string_view>& key) {
    if (key) return PartitionOfKey(hash_, *key, partitions_);
    return Partition(static_cast<int32_t>(turn_++ % static_cast<uint32_t>(partitions_)));
  }

 private:
  const KeyHash hash_;
  const int partitions_;
  uint32_t turn_;
};

}  // namespace millstream::log

#endif  // MILLSTREAM_COMMON_LOG_PARTITIONER_H_
