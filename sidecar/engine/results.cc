// What workers say: RESULT and its effects, EXTEND, GOODBYE; connections.
#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "sidecar/engine/engine_impl.h"
#include "sidecar/protocol/codec.h"
#include "sidecar/protocol/error_codes.h"

namespace millstream::engine {

void EngineImpl::On(WorkerConnected event) {
  if (workers_.connected() >= spec_.sidecar.workers.max) {
    return Do(DropWorker{event.worker, protocol::kTooManyWorkers,
                         StrCat("sidecar.workers.max of the manifest is ", spec_.sidecar.workers.max)});
  }
  Worker& worker = workers_.Add(event.worker, event.hello);
  if (spec_.external_store) {  // it has the capability: WelcomeFor refuses others
    worker.begin = false;
    worker.finalize = true;
  }
  if (goodbye_said_) {
    worker.goodbye = true;
    return Do(GoodbyeWorker{event.worker, "the sidecar stops"});
  }
  WorkersChanged();
}

void EngineImpl::On(WorkerWritable event) {
  Worker* worker = workers_.Find(event.worker);
  if (worker == nullptr) return;
  worker->writable = event.writable;
  if (!worker->usable() || !event.writable) return;
  ServeWaiting(*worker);
  WakeLoads(*worker);
}

void EngineImpl::On(WorkerDisconnected event) {
  Worker* worker = workers_.Find(event.worker);
  if (worker == nullptr) return;
  if (!worker->dropped) WorkerGone(*worker, !event.orderly, std::string(event.cause.message()));
  workers_.Remove(event.worker);
  WorkersChanged();
}

void EngineImpl::On(WorkerSent event) {
  Worker* worker = workers_.Find(event.worker);
  if (worker == nullptr || worker->dropped) return;
  buffer_ = std::move(event.buffer);
  std::visit([&](const auto& message) { OnMessage(*worker, message); }, event.message);
  buffer_.reset();
}

template <typename Other>
void EngineImpl::OnMessage(Worker& /*worker*/, const Other& /*other*/) {}

void EngineImpl::OnMessage(Worker& worker, const protocol::Goodbye& /*goodbye*/) {
  worker.goodbye = true;
  LoseGathered(worker);
  LeaveDatabase(worker);
  WorkersChanged();
}

Task* EngineImpl::Holder(Worker& worker, uint64_t seq) {
  auto out = worker.out.find(seq);
  if (out != worker.out.end()) {
    Task* task = Find(out->second);
    MS_CHECK(task != nullptr && task->in_flight && task->in_flight->seq == seq);
    return task;
  }
  if (!worker.cancelled.contains(seq)) {
    DropFaulty(worker, protocol::kUnknownBatch,
               StrCat("batch ", seq, " was not sent in this session, or was answered already"));
  }
  return nullptr;
}

void EngineImpl::OnMessage(Worker& worker, const protocol::Extend& extend) {
  Task* task = Holder(worker, extend.seq);
  if (task == nullptr) return;
  Batch& batch = *task->in_flight;
  if (extend.done > batch.FrameItems() || extend.done < batch.extended_done) {
    return DropFaulty(worker, protocol::kBadFrame,
                      StrCat("EXTEND of batch ", extend.seq, " with ", extend.done, " items done after ",
                             batch.extended_done, ", of ", batch.FrameItems()));
  }
  if (extend.done > batch.extended_done) batch.deadline = now_ + spec_.batch.deadline;
  batch.extended = true;
  batch.extended_done = extend.done;
  Mark(*task);
}

// An answer to what is not in flight any more. Nothing, if the worker was cut off for it.
void EngineImpl::LateAnswer(Worker& worker, uint64_t seq) {
  if (worker.cancelled.erase(seq) == 0) return;
  ++totals_.late_results;
  metrics_.late_results->Add();
}

// What the task has in flight was answered: its slot is free.
void EngineImpl::Answered(Task& task, Worker& worker, uint64_t seq) {
  worker.out.erase(seq);
  worker.tracing = false;
  Mark(task);
  WakeLoads(worker);
}

void EngineImpl::OnMessage(Worker& worker, const protocol::Result& result) {
  Task* task = Holder(worker, result.seq);
  if (task == nullptr) return LateAnswer(worker, result.seq);
  if (const auto fault = CheckFrame(options_, *task->in_flight, result))
    return DropFaulty(worker, fault->code, fault->message);
  const Batch::Hook hook = task->in_flight->hook;
  if ((hook == Batch::Hook::kLoad || hook == Batch::Hook::kStore) && !result.failure) {
    return DropFaulty(worker, protocol::kBadFrame,
                      StrCat("RESULT of ", result.seq, " without a failure, where ",
                             hook == Batch::Hook::kLoad ? "CHECKPOINT" : "STORED", " is the answer"));
  }
  Answered(*task, worker, result.seq);
  ServeWaiting(worker);  // the worker has something to do (of other tasks) while this result is dealt with
  if (hook != Batch::Hook::kNone) {
    const std::unique_ptr<Batch> answered = std::move(task->in_flight);
    return OnHookResult(*task, *answered, result);
  }
  if (worker.goodbye && worker.finalize) {  // what it has gathered of the batch it will not be asked for
    const std::unique_ptr<Batch> batch = std::move(task->in_flight);
    if (!at_most_once_) ReturnItems(*task, *batch, 0);
    return;
  }
  if (LostDatabase(*task, result)) return;
  metrics_.batch_seconds->Observe(absl::ToDoubleSeconds(now_ - task->in_flight->sent));
  const absl::Status limits = CheckLimits(options_, router_, *task->in_flight, result, clock_->WallMillis());
  if (limits.ok() && !result.timers.empty() && HoldForTimers(*task, result, buffer_)) return;
  const std::unique_ptr<Batch> batch = std::move(task->in_flight);
  if (!limits.ok()) return OverLimits(*task, *batch, result, limits);
  Settle(*task, *batch, result);
}

void EngineImpl::Settle(Task& task, Batch& batch, const protocol::Result& result) {
  const size_t done = batch.ItemsDone(result.done);
  if (done > 0) {
    Accept(task, batch, result, done);
  } else if (!result.failure) {
    constexpr int kMostWithoutProgress = 100;
    if (++task.no_progress >= kMostWithoutProgress) {
      ReturnItems(task, batch, 0);
      Worker* worker = workers_.Find(batch.worker);
      if (worker == nullptr || worker->dropped) return;
      return DropFaulty(*worker, protocol::kBadFrame,
                        StrCat("the last ", kMostWithoutProgress, " RESULTs of task ", task.id.value(),
                               " handled nothing and named no failure"));
    }
  }
  if (result.failure) Charge(task, batch.items[done], *result.failure, result.failure->retriable);
  ReturnItems(task, batch, done);
}

// Nothing of the batch is for the worker: late records, windows that are gone.
void EngineImpl::AcceptSilent(Task& task) {
  const std::unique_ptr<Batch> batch = std::move(task.prepared);
  task.overlays.ReleasePin(batch->pin);
  Accept(task, *batch, protocol::Result(), batch->items.size());
  Mark(task);
}

// The effects of the first `done` items join the open transaction (R1).
void EngineImpl::Accept(Task& task, Batch& batch, const protocol::Result& result, size_t done) {
  task.no_progress = 0;
  uint64_t records = 0;
  for (size_t i = 0; i < done; ++i) {
    if (batch.items[i].due != nullptr) continue;
    ++records;
    if (at_most_once_) continue;  // claimed before it was sent
    TaskInput& input = task.inputs[batch.items[i].input];
    MS_CHECK(batch.items[i].from == input.staged);
    input.staged = batch.items[i].next;
  }
  StageOffsets(task);
  Transaction& transaction = pipeline_.Open(now_);
  TaskPart& part = transaction.Part(task.id, task.inputs.size());
  part.records += records;
  if (batch.seq != 0) {  // it was at a worker
    part.worker = batch.worker;
    part.last_seq = batch.seq;
  }
  if (!result.ops.empty()) {
    const Item& last = batch.items[done - 1];
    const int64_t time = expiry_.any() ? WriteTime(last, batch.time->items[done - 1].time) : last.record.timestamp_ms;
    StageOps(task, batch, result.ops, time, transaction);
  }
  StageOutputs(task, result.outputs);
  if (!task.time) return;
  SettleTime(task, batch, result, done);
  transaction.Part(task.id, task.inputs.size()).clock = task.time->clock;
}

// A changelog record has the time of the record that wrote it: the last one with that key, or else the last one.
void EngineImpl::StageOps(Task& task, const Batch& batch, const protocol::StateOps& ops, int64_t timestamp_ms,
                          Transaction& transaction) {
  constexpr size_t kOpsAhead = 16;
  Overlay& overlay = task.overlays.Stage(transaction.number);
  for (const auto& [store, of_store] : ops) {
    std::vector<HashedBytes> keys;
    keys.reserve(of_store.size());
    for (const protocol::StateOp& op : of_store) keys.emplace_back(op.key);
    for (size_t i = 0; i < keys.size(); ++i) {
      if (i % kOpsAhead == 0) {
        for (size_t j = i; j < std::min(keys.size(), i + kOpsAhead); ++j) overlay.Prefetch(store, keys[j]);
      }
      auto key = batch.key_index.find(keys[i].bytes, keys[i].hash);
      const int64_t time = key == batch.key_index.end() ? timestamp_ms : batch.keys[key->second].timestamp_ms;
      overlay.Put(store, keys[i], of_store[i].value, time);
      transaction.bytes +=
          static_cast<int64_t>(keys[i].bytes.size() + (of_store[i].value ? of_store[i].value->size() : 0));
    }
  }
}

void EngineImpl::StageOutputs(Task& task, const std::vector<protocol::OutputRecord>& outputs) {
  if (outputs.empty()) return;
  const int64_t wall_ms = clock_->WallMillis();
  std::vector<log::OutgoingRecord> records;
  records.reserve(outputs.size());
  int64_t bytes = 0;
  for (const protocol::OutputRecord& output : outputs) {
    records.push_back(router_.Route(output, wall_ms));
    bytes += OutputRouter::SizeOf(output);
  }
  metrics_.output_records->Add(static_cast<double>(records.size()));
  if (task.external) bytes += KeepForCheckpoint(task, records);
  pipeline_.AddOutputs(now_, std::move(records), bytes, actions_);
}

// Items from `from` on are to be handled again, before everything else of the task. Those of a task that is given up
// are its next owner's: sending some of them after others were dropped would leave a gap.
void EngineImpl::ReturnItems(Task& task, Batch& batch, size_t from) {
  const bool sends = task.leaving == Task::Leaving::kNo && task.phase == Task::Phase::kRunning;
  if (from >= batch.items.size() || (!sends && !at_most_once_)) return;
  DropPrepared(task);
  PutBack(task, {std::make_move_iterator(batch.items.begin() + static_cast<ptrdiff_t>(from)),
                 std::make_move_iterator(batch.items.end())});
}

}  // namespace millstream::engine
