// Crashed and misbehaving workers, failed records: who is charged, and what becomes of them.
#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "sidecar/engine/engine_impl.h"

namespace millstream::engine {

// Closes the connection; what it held has no effect.
void EngineImpl::DropFaulty(Worker& worker, std::string_view code, const std::string& message) {
  MS_CHECK(!worker.dropped);
  NoteError(StrCat("worker ", worker.id, worker.name.empty() ? "" : " (", worker.name, worker.name.empty() ? "" : ")",
                   " is cut off: ", code, ": ", message));
  Do(DropWorker{worker.id, std::string(code), message});
  WorkerGone(worker, /*crashed=*/true, StrCat(code, ": ", message));
  worker.dropped = true;
  WorkersChanged();
}

void EngineImpl::WorkerGone(Worker& worker, bool crashed, const std::string& cause) {
  worker.goodbye = true;
  if (crashed && !worker.out.empty()) metrics_.worker_crashes->Add();
  for (const auto& [seq, id] : std::exchange(worker.out, {})) {
    Task* task = Find(id);
    MS_CHECK(task != nullptr && task->in_flight && task->in_flight->seq == seq);
    const std::unique_ptr<Batch> batch = std::move(task->in_flight);
    if (at_most_once_) continue;  // they had their one try
    if (crashed) Suspect(*task, *batch, cause);
    ReturnItems(*task, *batch, 0);
  }
  for (auto& [id, task] : tasks_) {
    if (task->worker != worker.id) continue;
    task->worker = 0;
    task->waits_for_slot = false;
    if (task->external) task->external->loaded = false;
    Mark(*task);
  }
  worker.tasks = 0;
  worker.waiting.clear();
  LoseGathered(worker);
}

// protocol.md, "Poison": the records that were out may have crashed the worker. Now they are traced: the worker names
// each before it touches it. If it was traced already, the one it named is charged, and the rest come one at a time.
void EngineImpl::Suspect(Task& task, const Batch& batch, const std::string& cause) {
  if (batch.trace && batch.extended && batch.extended_done < batch.FrameItems()) {
    Charge(task, batch.items[batch.ItemOf(batch.extended_done)],
           {"Handler", "WorkerCrashed",
            StrCat("the worker ended or was cut off while it handled this record (", cause, ")"), true},
           true);
  }
  for (const Item& item : batch.items) {
    if (item.due != nullptr) {
      task.time->trace = true;
      continue;
    }
    TaskInput& input = task.inputs[item.input];
    input.trace_until = std::max(input.trace_until, item.record.offset.Next());
  }
  if (batch.trace) Isolate(task, batch, batch.items.size());
}

void EngineImpl::Isolate(Task& task, const Batch& batch, size_t items) {
  for (size_t i = 0; i < items; ++i) {
    if (batch.items[i].due != nullptr) {
      task.time->single = true;
      continue;
    }
    TaskInput& input = task.inputs[batch.items[i].input];
    input.single_until = std::max(input.single_until, batch.items[i].record.offset.Next());
  }
}

// A value or output beyond the limits: which item wrote it is known only if there was one. Otherwise they come one by
// one; with AtMostOnce all of them have failed, as each was handled.
void EngineImpl::OverLimits(Task& task, Batch& batch, const protocol::Result& result, const absl::Status& limits) {
  const uint32_t done = result.done;
  if (done == 1 || at_most_once_) {
    std::string message(limits.message());
    if (done > 1) StrAppend(&message, " (one of ", done, " that were handled together; none is handled again)");
    for (uint32_t i = 0; i < done; ++i)
      Charge(task, batch.items[batch.ItemOf(i)], {"Output", "OverLimit", message, true}, true);
    if (at_most_once_ && result.failure) Charge(task, batch.items[batch.ItemOf(done)], *result.failure, false);
  } else {
    Isolate(task, batch, batch.ItemsDone(done));
  }
  ReturnItems(task, batch, 0);
  if (task.external) VoidDatabase(task, limits);
}

void EngineImpl::Charge(Task& task, const Item& item, protocol::Failure failure, bool retriable) {
  metrics_.Failures(failure.failure_class)->Add();
  // Some SDKs begin the message with the error's name; it is shown once.
  if (const std::string named = StrCat(failure.error, ": "); failure.message.starts_with(named))
    failure.message.erase(0, named.size());
  const Attempts::Entry& entry =
      task.attempts.Charge(spec_.errors, item, std::move(failure), retriable && !at_most_once_);
  const int failures = entry.count;
  if (!entry.final) task.wait_until = now_ + Backoff(spec_.errors.backoff_initial, spec_.errors.backoff_max, failures);
  NoteError(StrCat(Describe(task.id, item), ": attempt ", failures, " of ", spec_.errors.max_attempts,
                   " failed: ", entry.last.failure_class, " ", entry.last.error, ": ", entry.last.message));
}

// What is at the front is done with, without having been handled: in the open transaction, as any other effect.
void EngineImpl::Consume(Task& task, const Attempts::Entry& entry, Verdict verdict) {
  const bool due = task.time && !task.time->due.empty();
  Item item;
  if (due) {
    item = std::move(task.time->due.front());
    task.time->due.pop_front();
  } else {
    item = task.queue.PopFront();
    TaskInput& input = task.inputs[item.input];
    if (item.next > input.staged) {
      MS_CHECK(at_most_once_ ? item.from >= input.staged : item.from == input.staged);
      input.staged = item.next;
    }
    if (task.time && !Ahead(item.record.timestamp_ms)) task.time->clock.Advance(item.input, item.record.timestamp_ms);
  }
  StageOffsets(task);
  if (task.time) StageClock(task);
  pipeline_.Open(now_).Part(task.id, task.inputs.size()).records += due ? 0 : 1;
  if (verdict == Verdict::kDeadLetter) {
    log::OutgoingRecord letter = DeadLetter(options_, task.id, item, entry);
    if (task.external) KeepForCheckpoint(task, {letter});
    pipeline_.AddRecord(now_, std::move(letter), item.bytes());
    ++totals_.dead_letters;
    metrics_.dead_letters->Add();
  } else {
    ++totals_.skipped;
    metrics_.skipped->Add();
  }
  Warn(StrCat(Describe(task.id, item),
              verdict == Verdict::kDeadLetter ? " is given to the dead-letter topic" : " is skipped", " after ",
              entry.count, entry.count == 1 ? " attempt" : " attempts"));
  // `entry` ends here.
  if (due) SettleDue(task, item);
  if (!due && at_most_once_) task.attempts.Forget(item.input, item.record.offset);
}

}  // namespace millstream::engine
