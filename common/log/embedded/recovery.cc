// Opening: the state in memory from what is on disk.
#include <algorithm>
#include <utility>

#include "common/base/log_line.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/log/embedded/appender.h"
#include "common/log/embedded/core.h"

namespace millstream::log::embedded {
namespace {

using PartitionsByUid = absl::flat_hash_map<uint32_t, std::shared_ptr<PartitionState>>;

// Where the partition ends: behind its last batch, or where it is known to have ended before that was removed.
absl::Status FindEnd(Storage& storage, int64_t least_end, PartitionState* partition) {
  int64_t end = least_end;
  for (auto ref = partition->refs.rbegin(); ref != partition->refs.rend(); ++ref) {
    BatchCursor cursor = storage.NewCursor(ref->segment, partition->uid);
    cursor.SeekToLast();
    if (!cursor.Valid()) {
      MS_RETURN_IF_ERROR(cursor.status());
      continue;
    }
    const auto batch = BatchReader::Parse(cursor.value());
    if (!batch.ok()) return Annotate(batch.status(), StrCat("end of ", partition->name.ToString()));
    end = std::max(end, cursor.base() + batch->header().last_delta + 1);
    if (ref == partition->refs.rbegin()) {
      // The figures of the last ref are not written yet: those of its last batch tell. The highest timestamp is
      // unknown.
      ref->bytes = batch->header().segment_bytes_before + static_cast<int64_t>(cursor.value().size());
      ref->max_timestamp_ms = INT64_MAX;
      ref->last_append_ms = batch->header().append_ms;
    }
    break;
  }
  partition->next_offset = partition->high_watermark = end;
  return absl::OkStatus();
}

absl::Status LoadPartition(Core& core, Catalog& catalog, PartitionState* partition) {
  const PartitionEntry& entry = catalog.partitions[partition->uid];
  partition->start = entry.start;
  partition->cleaned_to = entry.cleaned_to;
  partition->refs = std::move(catalog.refs[partition->uid]);
  auto aborted = std::make_shared<const AbortedIndex>();
  for (const AbortedTransaction& transaction : catalog.aborted[partition->uid]) aborted = aborted->With(transaction);
  partition->aborted = std::move(aborted);
  MS_RETURN_IF_ERROR(FindEnd(*core.storage, entry.least_end, partition));
  // How much of the ref that has cleaned_to lies behind it is not known: all of it is called dirty.
  for (size_t i = partition->RefOf(entry.cleaned_to); i < partition->refs.size(); ++i) {
    partition->dirty_bytes += partition->refs[i].bytes - partition->refs[i].dead;
  }
  return absl::OkStatus();
}

absl::Status LoadTopics(Core& core, Catalog& catalog, PartitionsByUid* by_uid) {
  for (TopicEntry& entry : catalog.topics) {
    auto config = ParseTopicConfig(entry.settings);
    if (!config.ok()) return absl::DataLossError(StrCat("topic ", entry.name, ": ", config.status().message()));
    auto topic = std::make_shared<Topic>();
    topic->entry = entry;
    for (uint32_t i = 0; i < entry.partitions; ++i) {
      const TopicPartition name{entry.name, Partition(static_cast<int32_t>(i))};
      auto partition = std::make_shared<PartitionState>(entry.first_uid + i, name, *config);
      MS_RETURN_IF_ERROR(LoadPartition(core, catalog, partition.get()));
      (*by_uid)[partition->uid] = partition;
      topic->partitions.push_back(std::move(partition));
    }
    absl::MutexLock lock(&core.state_mutex);
    core.topics[entry.name] = std::move(topic);
  }
  return absl::OkStatus();
}

void LoadProducersAndGroups(Core& core, Catalog& catalog) {
  absl::MutexLock lock(&core.state_mutex);
  for (const ProducerEntry& entry : catalog.producers) {
    auto producer = std::make_shared<Producer>();
    producer->transactional_id = entry.transactional_id;
    producer->id = entry.id;
    producer->epoch = entry.epoch;
    producer->timeout = entry.timeout;
    core.producers[entry.transactional_id] = std::move(producer);
  }
  for (const auto& [group, generation] : catalog.groups) core.groups.Restore(group, generation);
  for (OffsetChange& change : catalog.offsets) {
    core.groups.RestoreOffset(change.group, change.partition, std::move(change.offset));
  }
}

// Goes on in the segment written last.
void ResumeSegment(Core& core, const Catalog& catalog, const PartitionsByUid& by_uid) {
  absl::MutexLock lock(&core.write_mutex);
  core.counters = catalog.counters;
  core.dead_bytes = catalog.dead_bytes;
  for (const auto& [uid, partition] : by_uid) {
    if (!partition->refs.empty()) core.segment = std::max(core.segment, partition->refs.back().segment);
  }
  for (const auto& [uid, partition] : by_uid) {
    if (!partition->refs.empty() && partition->refs.back().segment == core.segment) {
      core.bytes_in_segment += partition->refs.back().bytes;
    }
  }
}

// One process owns the folder, so whoever had a transaction open is gone: all of them are aborted.
absl::Status AbortOpen(Core& core, const Catalog& catalog, const PartitionsByUid& by_uid) {
  if (catalog.open.empty()) return absl::OkStatus();
  WriteSet set = core.storage->NewWriteSet();
  absl::MutexLock lock(&core.write_mutex);
  AppendPlan plan(&core, &set);
  std::vector<std::pair<PartitionState*, AbortedTransaction>> aborted;
  for (const OpenEntry& open : catalog.open) {
    DeleteOpen(open.producer_id, open.uid, &set);
    const auto partition = by_uid.find(open.uid);
    if (partition == by_uid.end()) continue;
    const int64_t marker = plan.AddMarker(partition->second, BatchKind::kAbortMarker, open.producer_id);
    aborted.push_back({partition->second.get(), {open.producer_id, open.first, marker}});
    PutAborted(open.uid, aborted.back().second, &set);
  }
  MS_RETURN_IF_ERROR(core.storage->Write(set));
  MS_RETURN_IF_ERROR(core.storage->Sync());
  absl::MutexLock state_lock(&core.state_mutex);
  for (const auto& [partition, entry] : aborted) partition->aborted = partition->aborted->With(entry);
  plan.Publish();
  LogInfo("aborted the transactions left open in the embedded log", {{"partitions", aborted.size()}});
  return absl::OkStatus();
}

}  // namespace

absl::Status Recover(Core& core) {
  Catalog catalog;
  PartitionsByUid by_uid;
  MS_RETURN_IF_ERROR(ReadCatalog(*core.storage, &catalog));
  MS_RETURN_IF_ERROR(LoadTopics(core, catalog, &by_uid));
  LoadProducersAndGroups(core, catalog);
  ResumeSegment(core, catalog, by_uid);
  return AbortOpen(core, catalog, by_uid);
}

}  // namespace millstream::log::embedded
