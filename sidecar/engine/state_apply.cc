// Where transactions and state meet: changelog records, outcomes, rollback, and committed state on its way to disk
// (R4).
#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "sidecar/engine/engine_impl.h"
#include "sidecar/store/timed_value.h"

namespace millstream::engine {
namespace {

// R4: several transactions are applied as one, up to this age and about this size per task.
constexpr absl::Duration kApplyAge = absl::Seconds(1);
constexpr int64_t kApplyBytes = 4 << 20;

std::vector<store::StoreWrite> WritesOf(const Overlay& overlay, const ExpiryRules& expiry) {
  std::vector<store::StoreWrite> writes;
  writes.reserve(static_cast<size_t>(overlay.entries()));
  for (size_t store = 0; store < overlay.stores(); ++store) {
    const bool timed = expiry.has(static_cast<store::StoreIndex>(store));
    for (const auto& [key, value] : overlay.map(static_cast<store::StoreIndex>(store))) {
      store::StoreWrite& write = writes.emplace_back();
      write.store = static_cast<store::StoreIndex>(store);
      write.key.assign(key);
      if (value.deleted) continue;
      if (timed) {
        write.value = store::TimedValue(value.timestamp_ms, value.view());
      } else {
        write.value.emplace(value.view());
      }
    }
  }
  return writes;
}

}  // namespace

// ---------------------------------------------------------------- transactions

void EngineImpl::CollectChangelog(const Transaction& transaction, std::vector<log::OutgoingRecord>* records) {
  const size_t before = records->size();
  for (const TaskPart& part : transaction.parts) {
    const Task& task = *Find(part.task);
    const Overlay* staged = task.overlays.Staged(transaction.number);
    if (staged == nullptr) continue;
    for (size_t store = 0; store < spec_.stores.size(); ++store) {
      const spec::ChangelogSpec& changelog = spec_.stores[store].changelog;
      if (!changelog.enabled) continue;
      const TopicPartition to{changelog.topic, Partition(part.task.value())};
      const Overlay::Map& map = staged->map(static_cast<store::StoreIndex>(store));
      records->reserve(records->size() + map.size());
      for (const auto& [key, value] : map) {
        log::OutgoingRecord& record = records->emplace_back();
        record.to = to;
        record.timestamp_ms = value.timestamp_ms;
        record.key.emplace(key);
        if (!value.deleted) record.value.emplace(value.view());
      }
    }
  }
  metrics_.changelog_records->Add(static_cast<double>(records->size() - before));
  if (options_.mutation == EngineOptions::Mutation::kR4) ApplyEarly(transaction);
}

void EngineImpl::OnSettled(const Transaction& transaction, const std::vector<Outcome>& outcomes) {
  bool committed = false;
  for (size_t i = 0; i < transaction.parts.size(); ++i) {
    Task* task = Find(transaction.parts[i].task);
    MS_CHECK(task != nullptr);  // none is closed while it has a part in a transaction
    Mark(*task);
    if (outcomes[i] == Outcome::kCommitted) {
      committed = true;
      Committed(*task, transaction.parts[i], transaction);
      continue;
    }
    task->overlays.Drop(transaction.number);
    if (outcomes[i] == Outcome::kLost) Lose(*task, absl::AbortedError("offsets of it were committed by somebody else"));
  }
  TellCommitted(transaction, outcomes);
  if (committed) {
    ++totals_.transactions;
    consecutive_aborts_ = 0;
  } else {
    ++totals_.aborted;
  }
}

void EngineImpl::Committed(Task& task, const TaskPart& part, const Transaction& transaction) {
  task.overlays.Commit(transaction.number);
  for (size_t i = 0; i < part.next.size(); ++i) {
    TaskInput& input = task.inputs[i];
    MS_CHECK(part.next[i] >= input.committed && part.next[i] <= input.staged);
    input.committed = part.next[i];
    input.metadata = transaction.metadata;
    // AtMostOnce: it was committed before it failed, and may be waiting still; Consume forgets it.
    if (!task.attempts.empty() && !at_most_once_) task.attempts.Committed(static_cast<uint32_t>(i), input.committed);
    if (!spec_.stores.empty()) task.unapplied.inputs[spec_.inputs[i].topic] = input.committed;
  }
  if (part.clock) task.time->committed = *part.clock;
  if (task.time) task.time->claims_committed = transaction.number;
  task.records += part.records;
  totals_.records_committed += part.records;
  if (part.records > 0) metrics_.records->Add(static_cast<double>(part.records));
  if (spec_.stores.empty()) return;
  for (size_t store = 0; store < spec_.stores.size(); ++store) {
    const spec::ChangelogSpec& changelog = spec_.stores[store].changelog;
    if (!changelog.enabled) continue;
    auto acknowledged = transaction.acknowledged.find(TopicPartition{changelog.topic, Partition(task.id.value())});
    if (acknowledged == transaction.acknowledged.end()) continue;
    task.unapplied.changelog[static_cast<store::StoreIndex>(store)] = acknowledged->second.Next();
  }
  task.apply_at = std::min(task.apply_at, now_ + kApplyAge);
}

// R9: what was read or done since the last known outcome does not count.
void EngineImpl::OnRollback(const absl::Status& cause) {
  if (totals_.first_error.empty()) totals_.first_error = StrCat("transaction aborted: ", cause.ToString());
  abort_cause_ = cause;
  for (auto& [id, task] : tasks_) {
    if (!task->open()) continue;
    task->epoch = task->epoch.Next();
    Cancel(*task);
    DropPrepared(*task);
    if (!at_most_once_) task->queue.Clear();
    if (task->time) task->time->Forget();
    UnassignWorker(*task);  // a worker may have kept values that were never committed
    Mark(*task);
  }
}

void EngineImpl::OnRecovered() {
  // The first abort costs no wait; what fails again and again is tried less and less often.
  constexpr absl::Duration kFirstWait = absl::Milliseconds(50), kLongestWait = absl::Seconds(5);
  ++consecutive_aborts_;
  for (auto& [id, task] : tasks_) {
    if (!task->open()) continue;
    if (task->leaving != Task::Leaving::kLost) Rewind(*task);
    if (task->time && task->time->loaded) {
      task->time->clock = task->time->stored = task->time->committed;
      const uint64_t committed = task->time->claims_committed;
      std::erase_if(task->time->due, [=](const Item& item) { return item.due->claim > committed; });
      task->time->Forget();
    }
    if (consecutive_aborts_ > 1) {
      task->wait_until = std::max(task->wait_until, now_ + Backoff(kFirstWait, kLongestWait, consecutive_aborts_ - 1));
    }
    Mark(*task);
  }
}

const std::string& EngineImpl::CommittedMetadata(TaskId task, uint32_t input) const {
  return tasks_.at(task)->inputs[input].metadata;
}

// ---------------------------------------------------------------- disk

void EngineImpl::MaybeApply(Task& task) {
  if (task.apply || task.state_lost || task.apply_at == absl::InfiniteDuration()) return;
  const bool leaving = task.leaving != Task::Leaving::kNo && !pipeline_.HasPart(task.id);
  const bool early = leaving || overlay_pressure_ || task.overlays.committed_bytes() >= kApplyBytes;
  if (now_ < task.apply_at && (!early || task.apply_failures > 0)) return;
  ApplyState apply;
  apply.apply = next_apply_++;
  apply.task = task.id;
  if (const Overlay* overlay = task.overlays.StartApply()) apply.writes = WritesOf(*overlay, expiry_);
  task.applying = std::exchange(task.unapplied, {});
  task.applying.wall_ms = clock_->WallMillis();
  apply.positions = task.applying;
  task.apply = apply.apply;
  task.apply_at = absl::InfiniteDuration();
  task.apply_started = now_;
  applies_.emplace(apply.apply, task.id);
  Do(std::move(apply));
}

void EngineImpl::On(StateApplied event) {
  auto of = applies_.find(event.apply);
  if (of == applies_.end()) return;
  Task* task = Find(of->second);
  applies_.erase(of);
  MS_CHECK(task != nullptr && task->apply == event.apply);
  task->apply.reset();
  Mark(*task);
  if (event.status.ok()) {
    metrics_.apply_seconds->Observe(absl::ToDoubleSeconds(now_ - task->apply_started));
    task->apply_failures = 0;
    if (task->overlays.applying()) task->overlays.ApplyDone();
    if (overlay_bytes_ > options_.overlay_bytes / 2) task->overlays.FreeCache();
    return;
  }
  if (task->overlays.applying()) task->overlays.ApplyFailed();
  store::Positions newer = std::exchange(task->unapplied, std::move(task->applying));
  for (const auto& [store, next] : newer.changelog) task->unapplied.changelog[store] = next;
  for (const auto& [topic, next] : newer.inputs) task->unapplied.inputs[topic] = next;
  const absl::Status cause = Annotate(event.status, StrCat("writing state of task ", task->id.value()));
  if (task->leaving != Task::Leaving::kNo) {
    task->state_lost = true;  // the changelog has it all
  } else if (absl::IsResourceExhausted(event.status) || absl::IsUnavailable(event.status)) {
    task->apply_at = now_ + Backoff(absl::Milliseconds(200), absl::Seconds(10), ++task->apply_failures);
    NoteError(StrCat(cause.ToString(), "; trying again"));
  } else {
    Lose(*task, cause);
  }
}

// Mutation::kR4: state that is not committed goes to disk.
void EngineImpl::ApplyEarly(const Transaction& transaction) {
  for (const TaskPart& part : transaction.parts) {
    const Overlay* staged = Find(part.task)->overlays.Staged(transaction.number);
    if (staged == nullptr) continue;
    ApplyState apply;
    apply.apply = next_apply_++;
    apply.task = part.task;
    apply.writes = WritesOf(*staged, expiry_);
    Do(std::move(apply));
  }
}

}  // namespace millstream::engine
