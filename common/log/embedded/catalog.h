#ifndef MILLSTREAM_COMMON_LOG_EMBEDDED_CATALOG_H_
#define MILLSTREAM_COMMON_LOG_EMBEDDED_CATALOG_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/log/embedded/group_table.h"
#include "common/log/embedded/partition.h"
#include "common/log/embedded/storage.h"

namespace millstream::log::embedded {

// What the log keeps on disk beside the records: its meta entries. The first byte of a key tells the kind; integers in
// keys are big-endian; values are packed (packing.h).
//
//   c                                    counters: next partition uid, next producer id
//   t <name>                             topic: id, first partition uid, number of partitions, settings
//   p <uid:4>                            partition: log start, least end, compacted to
//   s <uid:4> <segment:4>                segment ref: first offset, bytes, dead bytes, highest timestamp, last append
//   x <uid:4> <last:8> <producer:8>      aborted transaction: first offset
//   o <producer:8> <uid:4>               open transaction: first offset in that partition
//   P <transactional id>                 producer: id, epoch, transaction timeout
//   G <group>                            group: generation
//   g <length:4> <group> <topic> 0 <partition:4>   group offset: next, metadata
//   z <segment:4>                        bytes deleted in the segment and not reclaimed yet
struct CounterEntry {
  uint32_t next_uid = 1;
  int64_t next_producer = 1;
};

struct TopicEntry {
  std::string name, id;
  uint32_t first_uid = 0;
  uint32_t partitions = 0;
  std::map<std::string, std::string> settings;
};

struct PartitionEntry {
  uint32_t uid = 0;
  int64_t start = 0;
  int64_t least_end = 0;  // the end is at least here, also when no record is left to tell
  int64_t cleaned_to = 0;
};

struct OpenEntry {
  int64_t producer_id = 0;
  uint32_t uid = 0;
  int64_t first = 0;
};

struct ProducerEntry {
  std::string transactional_id;
  int64_t id = 0;
  int32_t epoch = 0;
  absl::Duration timeout;
};

void PutCounters(const CounterEntry& entry, WriteSet* set);
void PutTopic(const TopicEntry& entry, WriteSet* set);
void DeleteTopic(const std::string& name, WriteSet* set);
void PutPartition(const PartitionEntry& entry, WriteSet* set);
void DeletePartition(uint32_t uid, WriteSet* set);
void PutSegmentRef(uint32_t uid, const SegmentRef& ref, WriteSet* set);
void DeleteSegmentRef(uint32_t uid, uint32_t segment, WriteSet* set);
void PutAborted(uint32_t uid, const AbortedTransaction& aborted, WriteSet* set);
void DeleteAborted(uint32_t uid, const AbortedTransaction& aborted, WriteSet* set);
void PutOpen(const OpenEntry& entry, WriteSet* set);
void DeleteOpen(int64_t producer_id, uint32_t uid, WriteSet* set);
void PutProducer(const ProducerEntry& entry, WriteSet* set);
void PutGroup(const std::string& group, Generation generation, WriteSet* set);
void DeleteGroup(const std::string& group, WriteSet* set);
void PutGroupOffset(const std::string& group, const TopicPartition& partition, const GroupOffset& offset,
                    WriteSet* set);
void DeleteGroupOffset(const std::string& group, const TopicPartition& partition, WriteSet* set);
void PutDeadBytes(uint32_t segment, int64_t bytes, WriteSet* set);
void DeleteDeadBytes(uint32_t segment, WriteSet* set);

// Everything at once, for opening. DATA_LOSS for an entry that cannot be read.
struct Catalog {
  CounterEntry counters;
  std::vector<TopicEntry> topics;
  std::map<uint32_t, PartitionEntry> partitions;
  std::map<uint32_t, std::vector<SegmentRef>> refs;
  std::map<uint32_t, std::vector<AbortedTransaction>> aborted;
  std::vector<OpenEntry> open;
  std::vector<ProducerEntry> producers;
  std::map<std::string, Generation> groups;
  std::vector<OffsetChange> offsets;
  std::map<uint32_t, int64_t> dead_bytes;  // by segment
};
absl::Status ReadCatalog(Storage& storage, Catalog* catalog);

}  // namespace millstream::log::embedded

#endif  // MILLSTREAM_COMMON_LOG_EMBEDDED_CATALOG_H_
