#include "common/log/embedded/catalog.h"

#include <utility>

#include "common/base/bytes.h"
#include "common/base/strings.h"
#include "common/log/embedded/packing.h"

namespace millstream::log::embedded {
namespace {

std::string TextKey(char kind, std::string_view text) {
  std::string key(1, kind);
  key.append(text);
  return key;
}

std::string UidKey(char kind, uint32_t uid) {
  std::string key(1, kind);
  AppendBigEndian32(uid, &key);
  return key;
}

std::string SegmentKey(uint32_t uid, uint32_t segment) {
  std::string key = UidKey('s', uid);
  AppendBigEndian32(segment, &key);
  return key;
}

std::string AbortedKey(uint32_t uid, const AbortedTransaction& aborted) {
  std::string key = UidKey('x', uid);
  AppendBigEndian64(aborted.last, &key);
  AppendBigEndian64(aborted.producer_id, &key);
  return key;
}

std::string OpenKey(int64_t producer_id, uint32_t uid) {
  std::string key(1, 'o');
  AppendBigEndian64(producer_id, &key);
  AppendBigEndian32(uid, &key);
  return key;
}

std::string OffsetKey(const std::string& group, const TopicPartition& partition) {
  std::string key(1, 'g');
  AppendBigEndian32(group.size(), &key);
  key += group;
  key += partition.topic;
  key.push_back('\0');
  AppendBigEndian32(partition.partition.value(), &key);
  return key;
}

}  // namespace

void PutCounters(const CounterEntry& entry, WriteSet* set) {
  std::string value;
  Packer(&value).Varint(entry.next_uid).Signed(entry.next_producer);
  set->PutMeta("c", value);
}

void PutTopic(const TopicEntry& entry, WriteSet* set) {
  std::string value;
  Packer pack(&value);
  pack.Text(entry.id).Varint(entry.first_uid).Varint(entry.partitions).Varint(entry.settings.size());
  for (const auto& [name, setting] : entry.settings) pack.Text(name).Text(setting);
  set->PutMeta(TextKey('t', entry.name), value);
}

void DeleteTopic(const std::string& name, WriteSet* set) { set->DeleteMeta(TextKey('t', name)); }

void PutPartition(const PartitionEntry& entry, WriteSet* set) {
  std::string value;
  Packer(&value).Signed(entry.start).Signed(entry.least_end).Signed(entry.cleaned_to);
  set->PutMeta(UidKey('p', entry.uid), value);
}

void DeletePartition(uint32_t uid, WriteSet* set) { set->DeleteMeta(UidKey('p', uid)); }

void PutSegmentRef(uint32_t uid, const SegmentRef& ref, WriteSet* set) {
  std::string value;
  Packer pack(&value);
  pack.Signed(ref.first_offset)
      .Signed(ref.bytes)
      .Signed(ref.dead)
      .Signed(ref.max_timestamp_ms)
      .Signed(ref.last_append_ms);
  set->PutMeta(SegmentKey(uid, ref.segment), value);
}

void DeleteSegmentRef(uint32_t uid, uint32_t segment, WriteSet* set) { set->DeleteMeta(SegmentKey(uid, segment)); }

void PutAborted(uint32_t uid, const AbortedTransaction& aborted, WriteSet* set) {
  std::string value;
  Packer(&value).Signed(aborted.first);
  set->PutMeta(AbortedKey(uid, aborted), value);
}

void DeleteAborted(uint32_t uid, const AbortedTransaction& aborted, WriteSet* set) {
  set->DeleteMeta(AbortedKey(uid, aborted));
}

void PutOpen(const OpenEntry& entry, WriteSet* set) {
  std::string value;
  Packer(&value).Signed(entry.first);
  set->PutMeta(OpenKey(entry.producer_id, entry.uid), value);
}

void DeleteOpen(int64_t producer_id, uint32_t uid, WriteSet* set) { set->DeleteMeta(OpenKey(producer_id, uid)); }

void PutProducer(const ProducerEntry& entry, WriteSet* set) {
  std::string value;
  Packer(&value).Signed(entry.id).Signed(entry.epoch).Signed(absl::ToInt64Milliseconds(entry.timeout));
  set->PutMeta(TextKey('P', entry.transactional_id), value);
}

void PutGroup(const std::string& group, Generation generation, WriteSet* set) {
  std::string value;
  Packer(&value).Signed(generation.value());
  set->PutMeta(TextKey('G', group), value);
}

void DeleteGroup(const std::string& group, WriteSet* set) { set->DeleteMeta(TextKey('G', group)); }

void PutGroupOffset(const std::string& group, const TopicPartition& partition, const GroupOffset& offset,
                    WriteSet* set) {
  std::string value;
  Packer(&value).Signed(offset.next.value()).Text(offset.metadata);
  set->PutMeta(OffsetKey(group, partition), value);
}

void DeleteGroupOffset(const std::string& group, const TopicPartition& partition, WriteSet* set) {
  set->DeleteMeta(OffsetKey(group, partition));
}

void PutDeadBytes(uint32_t segment, int64_t bytes, WriteSet* set) {
  std::string value;
  Packer(&value).Signed(bytes);
  set->PutMeta(UidKey('z', segment), value);
}

void DeleteDeadBytes(uint32_t segment, WriteSet* set) { set->DeleteMeta(UidKey('z', segment)); }

namespace {

// Keys: false if the shape is wrong.
bool ReadTopic(std::string_view key, Unpacker in, Catalog* catalog) {
  TopicEntry& topic = catalog->topics.emplace_back();
  topic.name = key;
  topic.id = in.Text();
  topic.first_uid = in.Varint();
  topic.partitions = in.Varint();
  for (uint64_t left = in.Varint(); left > 0 && in.ok(); --left) {
    const std::string name(in.Text());
    topic.settings[name] = in.Text();
  }
  return in.ok();
}

bool ReadPartition(std::string_view key, Unpacker in, Catalog* catalog) {
  if (key.size() != 4) return false;
  PartitionEntry& partition = catalog->partitions[ReadBigEndian32(key)];
  partition.uid = ReadBigEndian32(key);
  partition.start = in.Signed();
  partition.least_end = in.Signed();
  partition.cleaned_to = in.Signed();
  return in.ok();
}

bool ReadRef(std::string_view key, Unpacker in, Catalog* catalog) {
  if (key.size() != 8) return false;
  SegmentRef& ref = catalog->refs[ReadBigEndian32(key)].emplace_back();
  ref.segment = ReadBigEndian32(key.substr(4));
  ref.first_offset = in.Signed();
  ref.bytes = in.Signed();
  ref.dead = in.Signed();
  ref.max_timestamp_ms = in.Signed();
  ref.last_append_ms = in.Signed();
  return in.ok();
}

bool ReadAborted(std::string_view key, Unpacker in, Catalog* catalog) {
  if (key.size() != 20) return false;
  AbortedTransaction& aborted = catalog->aborted[ReadBigEndian32(key)].emplace_back();
  aborted.last = static_cast<int64_t>(ReadBigEndian64(key.substr(4)));
  aborted.producer_id = static_cast<int64_t>(ReadBigEndian64(key.substr(12)));
  aborted.first = in.Signed();
  return in.ok();
}

bool ReadOpen(std::string_view key, Unpacker in, Catalog* catalog) {
  if (key.size() != 12) return false;
  catalog->open.push_back({static_cast<int64_t>(ReadBigEndian64(key)), ReadBigEndian32(key.substr(8)), in.Signed()});
  return in.ok();
}

bool ReadProducer(std::string_view key, Unpacker in, Catalog* catalog) {
  ProducerEntry& producer = catalog->producers.emplace_back();
  producer.transactional_id = key;
  producer.id = in.Signed();
  producer.epoch = static_cast<int32_t>(in.Signed());
  producer.timeout = absl::Milliseconds(in.Signed());
  return in.ok();
}

bool ReadGroupOffset(std::string_view key, Unpacker in, Catalog* catalog) {
  if (key.size() < 4) return false;
  const size_t group_size = ReadBigEndian32(key);
  key.remove_prefix(4);
  if (key.size() < group_size + 5) return false;
  OffsetChange& change = catalog->offsets.emplace_back();
  change.group = key.substr(0, group_size);
  change.partition.topic = key.substr(group_size, key.size() - group_size - 5);
  change.partition.partition = Partition(static_cast<int32_t>(ReadBigEndian32(key.substr(key.size() - 4))));
  change.offset.next = Offset(in.Signed());
  change.offset.metadata = in.Text();
  return in.ok();
}

bool ReadEntry(char kind, std::string_view key, Unpacker in, Catalog* catalog) {
  switch (kind) {
    case 'c':
      catalog->counters.next_uid = in.Varint();
      catalog->counters.next_producer = in.Signed();
      return in.ok();
    case 't':
      return ReadTopic(key, in, catalog);
    case 'p':
      return ReadPartition(key, in, catalog);
    case 's':
      return ReadRef(key, in, catalog);
    case 'x':
      return ReadAborted(key, in, catalog);
    case 'o':
      return ReadOpen(key, in, catalog);
    case 'P':
      return ReadProducer(key, in, catalog);
    case 'G':
      catalog->groups[std::string(key)] = Generation(static_cast<int32_t>(in.Signed()));
      return in.ok();
    case 'g':
      return ReadGroupOffset(key, in, catalog);
    case 'z':
      if (key.size() != 4) return false;
      catalog->dead_bytes[ReadBigEndian32(key)] = in.Signed();
      return in.ok();
    default:
      return false;
  }
}

}  // namespace

absl::Status ReadCatalog(Storage& storage, Catalog* catalog) {
  return storage.ScanMeta("", [catalog](std::string_view key, std::string_view value) {
    if (!key.empty() && ReadEntry(key[0], key.substr(1), Unpacker(value), catalog)) return absl::OkStatus();
    return absl::DataLossError(StrCat("meta entry ", Readable(key), " of the log cannot be read"));
  });
}

}  // namespace millstream::log::embedded
