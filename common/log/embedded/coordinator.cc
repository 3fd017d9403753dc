#include "common/log/embedded/coordinator.h"

#include <algorithm>
#include <vector>

#include "common/base/crash_point.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::log::embedded {
namespace {

constexpr absl::Duration kLongestTimeout = absl::Minutes(15);  // Kafka's default transaction.max.timeout.ms
constexpr size_t kMostMetadataBytes = 4096;                    // Kafka's default offset.metadata.max.bytes

absl::Status CheckCurrent(const ProducerHandle& handle) {
  const Producer& producer = *handle.producer;
  if (producer.epoch == handle.epoch) return absl::OkStatus();
  const bool expired = producer.expired_epoch == handle.epoch;
  return WithRecovery(
      absl::FailedPreconditionError(
          expired
              ? StrCat("PRODUCER_FENCED: the transaction of ", producer.transactional_id, " was open for more than ",
                       absl::FormatDuration(producer.timeout), " and was aborted; make a new writer")
              : StrCat("PRODUCER_FENCED: a newer writer with transactional id ", producer.transactional_id,
                       " has taken over (epoch ", producer.epoch, ", this one has ", handle.epoch, ")")),
      Recovery::kRecreate);
}

void NoteOpen(const Core& core, Producer* producer) {
  if (producer->state == Producer::State::kOpen) return;
  producer->state = Producer::State::kOpen;
  producer->opened_at = core.clock->Monotonic();
}

// The transaction's records are decided in memory too. Requires state_mutex.
void Settle(Core& core, Producer* producer, bool commit) {
  for (const auto& [partition, first] : producer->first_offsets) {
    const int64_t old_last_stable = partition->LastStable();
    std::erase_if(partition->open, [&](const auto& open) { return open.producer_id == producer->id; });
    NotifyIfMoved(*partition, partition->high_watermark, old_last_stable);
  }
  if (commit) {
    std::erase_if(producer->winning, [&](const auto& change) { return !core.topics.contains(change.partition.topic); });
    core.groups.Apply(producer->winning);
  }
  core.groups.DropPending(producer->id);
  producer->winning.clear();
  producer->first_offsets.clear();
  producer->state = Producer::State::kIdle;
  core.transaction_ended.SignalAll();
}

// Writes the markers, and everything else the end of the transaction changes on disk. Requires write_mutex.
absl::Status WriteEnd(Core& core, Producer* producer, bool commit) {
  WriteSet set = core.storage->NewWriteSet();
  AppendPlan plan(&core, &set);
  std::vector<std::pair<PartitionState*, AbortedTransaction>> aborted;
  for (const auto& [partition, first] : producer->first_offsets) {
    embedded::DeleteOpen(producer->id, partition->uid, &set);
    if (partition->deleted) continue;
    const BatchKind kind = commit ? BatchKind::kCommitMarker : BatchKind::kAbortMarker;
    const int64_t marker = plan.AddMarker(partition, kind, producer->id);
    if (commit) continue;
    aborted.push_back({partition.get(), {producer->id, first, marker}});
    PutAborted(partition->uid, aborted.back().second, &set);
  }
  std::vector<OffsetChange> winning;
  if (commit) {
    absl::MutexLock lock(&core.state_mutex);
    winning = core.groups.Winning(producer->id);
  }
  for (const OffsetChange& change : winning) PutGroupOffset(change.group, change.partition, change.offset, &set);
  if (!set.empty()) MS_RETURN_IF_ERROR(core.storage->Write(set));

  absl::MutexLock lock(&core.state_mutex);
  for (const auto& [partition, entry] : aborted) partition->aborted = partition->aborted->With(entry);
  plan.Publish();
  core.groups.MarkWritten(winning);
  producer->winning = std::move(winning);
  return absl::OkStatus();
}

// Ends by abort. Requires write_mutex.
absl::Status AbortNow(Core& core, Producer* producer) {
  MS_RETURN_IF_ERROR(WriteEnd(core, producer, /*commit=*/false));
  absl::MutexLock lock(&core.state_mutex);
  Settle(core, producer, /*commit=*/false);
  return absl::OkStatus();
}

// Ends whatever an earlier incarnation has left. Requires write_mutex.
absl::Status EndLeftOver(Core& core, Producer* producer, absl::Duration deadline) {
  Producer::State state;
  {
    absl::MutexLock lock(&core.state_mutex);
    const absl::Duration until = SystemClock().Monotonic() + deadline;
    while (producer->state == Producer::State::kCommitting) {
      const absl::Duration left = until - SystemClock().Monotonic();
      if (left <= absl::ZeroDuration()) {
        return absl::DeadlineExceededError(StrCat("a commit of ", producer->transactional_id, " is still under way"));
      }
      core.transaction_ended.WaitWithTimeout(&core.state_mutex, left);
    }
    state = producer->state;
  }
  switch (state) {
    case Producer::State::kIdle:
    case Producer::State::kCommitting:
      return absl::OkStatus();
    case Producer::State::kOpen:
      return AbortNow(core, producer);
    case Producer::State::kUnwritten:
      MS_RETURN_IF_ERROR(core.storage->Heal());
      return AbortNow(core, producer);
    case Producer::State::kUnsynced: {
      MS_RETURN_IF_ERROR(core.storage->Heal());
      absl::MutexLock lock(&core.state_mutex);
      Settle(core, producer, /*commit=*/true);
      return absl::OkStatus();
    }
  }
  return absl::OkStatus();
}

// The producer of the id, made if it is new, in its next epoch. Requires write_mutex.
ProducerHandle NextEpoch(Core& core, const std::string& transactional_id, absl::Duration timeout, WriteSet* set) {
  absl::MutexLock lock(&core.state_mutex);
  std::shared_ptr<Producer>& producer = core.producers[transactional_id];
  if (producer == nullptr) {
    producer = std::make_shared<Producer>();
    producer->transactional_id = transactional_id;
    producer->id = core.counters.next_producer++;
  }
  PutCounters(core.counters, set);
  ++producer->epoch;
  producer->timeout = timeout;
  PutProducer({transactional_id, producer->id, producer->epoch, timeout}, set);
  return {producer, producer->epoch};
}

}  // namespace

absl::StatusOr<ProducerHandle> InitProducer(Core& core, const std::string& transactional_id, absl::Duration timeout,
                                            absl::Duration deadline) {
  if (transactional_id.empty() || timeout <= absl::ZeroDuration() || timeout > kLongestTimeout) {
    return WithRecovery(
        absl::InvalidArgumentError(StrCat("a transactional writer needs an id and a transaction timeout of at most ",
                                          absl::FormatDuration(kLongestTimeout), "; got \"", transactional_id,
                                          "\" and ", absl::FormatDuration(timeout))),
        Recovery::kRecreate);
  }
  WriteSet set = core.storage->NewWriteSet();
  absl::MutexLock lock(&core.write_mutex);
  const ProducerHandle handle = NextEpoch(core, transactional_id, timeout, &set);
  absl::Status status = EndLeftOver(core, handle.producer.get(), deadline);
  if (status.ok()) status = core.storage->Write(set);
  // INTERNAL: the storage has given up, and no retry will help.
  if (absl::IsInternal(status)) return status;
  if (!status.ok()) return WithRecovery(status, Recovery::kRetry);
  return handle;
}

absl::Status AppendInTransaction(Core& core, const ProducerHandle& handle, absl::Span<PendingBatch> batches) {
  Producer& producer = *handle.producer;
  WriteSet set = core.storage->NewWriteSet();
  absl::MutexLock lock(&core.write_mutex);
  {
    absl::MutexLock state_lock(&core.state_mutex);
    MS_RETURN_IF_ERROR(CheckCurrent(handle));
  }
  if (batches.empty()) return absl::OkStatus();
  AppendPlan plan(&core, &set);
  std::vector<std::pair<std::shared_ptr<PartitionState>, int64_t>> first_offsets;
  absl::flat_hash_map<const PartitionState*, bool> seen;
  for (PendingBatch& pending : batches) {
    if (pending.partition->deleted) {
      return WithRecovery(absl::NotFoundError(StrCat("topic ", pending.partition->name.topic, " was deleted")),
                          Recovery::kAbort);
    }
    pending.batch.header().transactional = true;
    pending.batch.header().producer_id = producer.id;
    plan.Add(&pending);
    if (producer.first_offsets.contains(pending.partition) || !seen.try_emplace(pending.partition.get()).second)
      continue;
    first_offsets.emplace_back(pending.partition, pending.base);
    PutOpen({producer.id, pending.partition->uid, pending.base}, &set);
  }
  if (absl::Status status = core.storage->Write(set); !status.ok()) return WithRecovery(status, Recovery::kAbort);
  CrashPoint("log-append-written");

  absl::MutexLock state_lock(&core.state_mutex);
  NoteOpen(core, &producer);
  for (const auto& [partition, first] : first_offsets) {
    producer.first_offsets[partition] = first;
    partition->open.push_back({first, producer.id});
  }
  plan.Publish();
  return absl::OkStatus();
}

absl::Status SendOffsets(Core& core, const ProducerHandle& handle, const GroupToken& token,
                         absl::Span<const std::pair<TopicPartition, GroupOffset>> offsets) {
  absl::MutexLock lock(&core.state_mutex);
  MS_RETURN_IF_ERROR(CheckCurrent(handle));
  if (absl::Status status = core.groups.Check(token); !status.ok()) return WithRecovery(status, Recovery::kAbort);
  for (const auto& [partition, offset] : offsets) {
    if (const auto found = core.FindLocked(partition); !found.ok())
      return WithRecovery(found.status(), Recovery::kAbort);
    if (offset.metadata.size() > kMostMetadataBytes) {
      return WithRecovery(absl::InvalidArgumentError(StrCat("metadata of the offset of ", partition.ToString(),
                                                            " in group ", token.group, " has ", offset.metadata.size(),
                                                            " bytes; at most ", kMostMetadataBytes, " are allowed")),
                          Recovery::kAbort);
    }
  }
  NoteOpen(core, handle.producer.get());
  core.groups.AddPending(handle.producer->id, token.group, offsets);
  return absl::OkStatus();
}

absl::Status EndTransaction(Core& core, const ProducerHandle& handle, bool commit) {
  Producer& producer = *handle.producer;
  {
    absl::MutexLock lock(&core.write_mutex);
    {
      absl::MutexLock state_lock(&core.state_mutex);
      MS_RETURN_IF_ERROR(CheckCurrent(handle));
      if (producer.state == Producer::State::kIdle) return absl::OkStatus();
    }
    const absl::Status status = commit ? WriteEnd(core, &producer, true) : AbortNow(core, &producer);
    absl::MutexLock state_lock(&core.state_mutex);
    if (!status.ok()) {
      producer.state = Producer::State::kUnwritten;
      return WithUnknownOutcome(status);
    }
    if (!commit) return absl::OkStatus();
    producer.state = Producer::State::kCommitting;
  }
  CrashPoint("log-commit-written");
  const absl::Status synced = core.storage->Sync();
  CrashPoint("log-commit-synced");
  absl::MutexLock lock(&core.state_mutex);
  if (synced.ok()) {
    Settle(core, &producer, /*commit=*/true);
    return absl::OkStatus();
  }
  producer.state = Producer::State::kUnsynced;
  core.transaction_ended.SignalAll();
  return WithUnknownOutcome(synced);
}

absl::Status AbortExpired(Core& core) {
  absl::MutexLock lock(&core.write_mutex);
  std::vector<std::shared_ptr<Producer>> expired;
  {
    absl::MutexLock state_lock(&core.state_mutex);
    const absl::Duration now = core.clock->Monotonic();
    for (const auto& [id, producer] : core.producers) {
      if (producer->state == Producer::State::kIdle || producer->state == Producer::State::kCommitting) continue;
      if (now - producer->opened_at <= producer->timeout) continue;
      producer->expired_epoch = producer->epoch++;
      expired.push_back(producer);
    }
  }
  absl::Status first_error;
  for (const std::shared_ptr<Producer>& producer : expired) {
    first_error.Update(EndLeftOver(core, producer.get(), absl::ZeroDuration()));
  }
  return first_error;
}

}  // namespace millstream::log::embedded
