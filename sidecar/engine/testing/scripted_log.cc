#include "sidecar/engine/testing/scripted_log.h"

#include <algorithm>

#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::engine::testing {

std::vector<ScriptedLog::Entry>& ScriptedLog::At(const TopicPartition& partition) {
  auto topic = partitions_.find(partition.topic);
  MS_CHECK(topic != partitions_.end() && partition.partition.value() >= 0 &&
           partition.partition.value() < topic->second);
  return entries_[partition];
}

const std::vector<ScriptedLog::Entry>* ScriptedLog::Find(const TopicPartition& partition) const {
  auto it = entries_.find(partition);
  return it == entries_.end() ? nullptr : &it->second;
}

Offset ScriptedLog::Append(const log::OutgoingRecord& record) {
  std::vector<Entry>& entries = At(record.to);
  const Offset offset(static_cast<int64_t>(entries.size()));
  entries.push_back({{offset, record.timestamp_ms, record.key, record.value, record.headers}, false, nullptr});
  return offset;
}

ScriptedLog::Handle ScriptedLog::Init(const std::string& id) {
  Producer& producer = producers_[id];
  if (producer.open != nullptr) End(&producer, /*commit=*/false);
  return {id, ++producer.epoch};
}

absl::StatusOr<ScriptedLog::Producer*> ScriptedLog::Check(const Handle& handle, bool needs_open) {
  Producer& producer = producers_[handle.id];
  if (producer.epoch != handle.epoch) {
    return WithRecovery(absl::FailedPreconditionError(StrCat("producer ", handle.id, " is fenced")),
                        Recovery::kRecreate);
  }
  if (needs_open != (producer.open != nullptr)) {
    return WithRecovery(absl::FailedPreconditionError(
                            StrCat("producer ", handle.id, needs_open ? " has no" : " has a", " transaction")),
                        Recovery::kAbort);
  }
  return &producer;
}

absl::Status ScriptedLog::Begin(const Handle& handle, absl::Duration now) {
  MS_ASSIGN_OR_RETURN(Producer * producer, Check(handle, false));
  producer->open = std::make_shared<Transaction>();
  producer->open->begun = now;
  return absl::OkStatus();
}

absl::Status ScriptedLog::Append(const Handle& handle, const log::OutgoingRecord& record, Offset* offset) {
  MS_ASSIGN_OR_RETURN(Producer * producer, Check(handle, true));
  *offset = Append(record);
  At(record.to).back().transaction = producer->open;
  producer->open->touched.insert(record.to);
  return absl::OkStatus();
}

absl::Status ScriptedLog::SendOffsets(const Handle& handle, const log::GroupToken& token,
                                      const std::vector<std::pair<TopicPartition, log::GroupOffset>>& offsets) {
  MS_ASSIGN_OR_RETURN(Producer * producer, Check(handle, true));
  if (token.generation.value() != -1) {  // -1 is not fenced at all
    if (!members_.contains(token.member_id)) {
      return WithRecovery(absl::FailedPreconditionError("UNKNOWN_MEMBER_ID"), Recovery::kAbort);
    }
    if (token.generation.value() != generation_) {
      return WithRecovery(absl::FailedPreconditionError("ILLEGAL_GENERATION"), Recovery::kAbort);
    }
  }
  for (const auto& offset : offsets) {
    producer->open->offsets.push_back(offset);
    producer->open->offset_order.push_back(next_order_++);
  }
  return absl::OkStatus();
}

absl::Status ScriptedLog::Commit(const Handle& handle) {
  MS_ASSIGN_OR_RETURN(Producer * producer, Check(handle, true));
  End(producer, true);
  return absl::OkStatus();
}

absl::Status ScriptedLog::Abort(const Handle& handle) {
  MS_ASSIGN_OR_RETURN(Producer * producer, Check(handle, true));
  End(producer, false);
  return absl::OkStatus();
}

void ScriptedLog::AbortOpenSince(absl::Duration then) {
  for (auto& [id, producer] : producers_) {
    if (producer.open == nullptr || producer.open->begun > then || id.starts_with("upstream")) continue;
    End(&producer, false);
    ++producer.epoch;
  }
}

void ScriptedLog::End(Producer* producer, bool commit) {
  const std::shared_ptr<Transaction> transaction = std::move(producer->open);
  transaction->state = commit ? Transaction::State::kCommitted : Transaction::State::kAborted;
  for (const TopicPartition& partition : transaction->touched) {
    std::vector<Entry>& entries = At(partition);
    Entry& marker = entries.emplace_back();
    marker.record.offset = Offset(static_cast<int64_t>(entries.size() - 1));
    marker.control = true;
  }
  if (!commit) return;
  for (size_t i = 0; i < transaction->offsets.size(); ++i) {
    const auto& [partition, offset] = transaction->offsets[i];
    GroupEntry& entry = group_[partition];
    if (transaction->offset_order[i] > entry.order) entry = {offset, transaction->offset_order[i]};
  }
}

Offset ScriptedLog::EndOffset(const TopicPartition& of, log::Isolation isolation) const {
  const std::vector<Entry>* entries = Find(of);
  if (entries == nullptr) return Offset(0);
  if (isolation == log::Isolation::kReadCommitted) {
    for (const Entry& entry : *entries) {
      if (entry.transaction && entry.transaction->state == Transaction::State::kOpen) return entry.record.offset;
    }
  }
  return Offset(static_cast<int64_t>(entries->size()));
}

bool ScriptedLog::HasOpenTransaction(const TopicPartition& of) const {
  return EndOffset(of, log::Isolation::kReadCommitted) != EndOffset(of, log::Isolation::kReadUncommitted);
}

ScriptedLog::ReadResult ScriptedLog::Read(const TopicPartition& from, Offset start, size_t most,
                                          log::Isolation isolation) const {
  ReadResult result;
  const Offset end = EndOffset(from, isolation);
  result.next = start;
  const std::vector<Entry>* entries = Find(from);
  while (result.next < end && result.records.size() < most) {
    const Entry& entry = (*entries)[static_cast<size_t>(result.next.value())];
    const bool visible = !entry.control && (isolation == log::Isolation::kReadUncommitted || !entry.transaction ||
                                            entry.transaction->state == Transaction::State::kCommitted);
    if (visible) result.records.push_back(entry.record);
    result.next = result.next.Next();
  }
  result.at_end = result.next >= end;
  return result;
}

std::vector<log::Record> ScriptedLog::CommittedRecords(const TopicPartition& of) const {
  std::vector<log::Record> records;
  const std::vector<Entry>* entries = Find(of);
  if (entries == nullptr) return records;
  for (const Entry& entry : *entries) {
    const bool committed = !entry.transaction || entry.transaction->state == Transaction::State::kCommitted;
    if (!entry.control && committed) records.push_back(entry.record);
  }
  return records;
}

int ScriptedLog::NewGeneration(const std::set<std::string>& members) {
  members_ = members;
  return ++generation_;
}

bool ScriptedLog::HasPendingOffset(const TopicPartition& of) const {
  return std::any_of(producers_.begin(), producers_.end(), [&](const auto& producer) {
    if (producer.second.open == nullptr) return false;
    const auto& offsets = producer.second.open->offsets;
    return std::any_of(offsets.begin(), offsets.end(), [&](const auto& offset) { return offset.first == of; });
  });
}

std::optional<log::GroupOffset> ScriptedLog::Committed(const TopicPartition& of) const {
  auto it = group_.find(of);
  if (it == group_.end()) return std::nullopt;
  return it->second.offset;
}

}  // namespace millstream::engine::testing
