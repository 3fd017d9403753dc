// Hooks of workers that want to see the transactions their effects become part of: BEGIN, FINALIZE, COMMITTED
// (docs/reference/protocol.md). A hook is a batch without items: reads, deadlines and CANCEL are those of any batch.
// With an external store STORE takes the place of FINALIZE (external.cc).
#include <map>
#include <utility>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "sidecar/engine/engine_impl.h"
#include "sidecar/protocol/codec.h"

namespace millstream::engine {

// A transaction holds whole batches of a hooked worker, and what it gathered over them.
bool EngineImpl::MayClose(Transaction& transaction) {
  bool ready = true;
  for (TaskPart& part : transaction.parts) {
    Task* task = Find(part.task);
    MS_CHECK(task != nullptr);  // none is closed while it has a part in a transaction
    Worker* worker = workers_.Find(task->worker);
    if (task->external && !part.finalized && (worker == nullptr || part.worker != worker->id)) {
      pipeline_.Abort(now_, absl::AbortedError(StrCat("the worker of task ", task->id.value(), " did not store it")),
                      /*closing_too=*/false);
      return false;
    }
    if (worker == nullptr || !worker->hooked()) continue;
    if (!task->in_flight && Gathered(*worker, task->id) && worker->HasSlot(/*trace=*/false)) {
      if (task->external) {
        SendStore(*task, *worker, transaction);
        if (pipeline_.recovering()) return false;  // it could not be
      } else {
        SendHook(*task, *worker, Batch::Hook::kFinalize);
      }
    }
    ready = ready && !task->in_flight && !Gathered(*worker, task->id);
  }
  const bool waited = std::exchange(closing_for_, ready ? 0 : transaction.number) != 0;
  if (ready && waited) MarkAll();
  return ready;
}

// Its next batch belongs to the next transaction.
bool EngineImpl::HeldBack(const Task& task) {
  if (closing_for_ == 0 || pipeline_.open_number() != closing_for_) return false;
  const Worker* worker = workers_.Find(task.worker);
  return worker != nullptr && worker->hooked();
}

bool EngineImpl::NeedsBegin(Task& task, const Worker& worker) {
  if (!worker.begin) return false;
  const TaskPart* part = pipeline_.OpenPart(task.id);
  return part == nullptr || part->begun != worker.id;
}

void EngineImpl::SendHook(Task& task, Worker& worker, Batch::Hook hook) {
  StageOffsets(task);  // the task has a part in the transaction from here on
  const uint64_t seq = NewHook(task, worker, hook);
  SendFrame(worker.id, hook == Batch::Hook::kBegin
                           ? protocol::EncodeFrame(protocol::BeginTransaction{seq, task.id})
                           : protocol::EncodeFrame(protocol::FinalizeTransaction{seq, task.id}));
}

// It is in flight from here on; its frame is the caller's to send. Gives its sequence number.
uint64_t EngineImpl::NewHook(Task& task, Worker& worker, Batch::Hook hook) {
  MS_CHECK(!task.in_flight);
  auto batch = std::make_unique<Batch>();
  batch->id = next_batch_++;
  batch->hook = hook;
  batch->seq = next_seq_++;
  batch->worker = worker.id;
  batch->sent = now_;
  batch->deadline = now_ + spec_.batch.deadline;
  worker.out.emplace(batch->seq, task.id);
  task.in_flight = std::move(batch);
  Mark(task);
  return task.in_flight->seq;
}

void EngineImpl::OnHookResult(Task& task, Batch& batch, const protocol::Result& result) {
  if (batch.hook == Batch::Hook::kLoad || batch.hook == Batch::Hook::kStore) {
    return OnExternalFailure(task, batch, *result.failure);  // there is one: OnMessage has looked
  }
  const char* const name = batch.hook == Batch::Hook::kBegin ? "BEGIN" : "FINALIZE";
  absl::Status status = CheckLimits(options_, router_, batch, result, clock_->WallMillis());
  if (result.failure) status = absl::UnknownError(StrCat(result.failure->error, ": ", result.failure->message));
  if (!status.ok()) {
    status = Annotate(status, StrCat("task ", task.id.value(), ": ", name, " failed"));
    NoteError(status.ToString());
    return pipeline_.Abort(now_, status, /*closing_too=*/false);
  }
  Transaction& transaction = pipeline_.Open(now_);
  TaskPart* part = transaction.FindPart(task.id);
  MS_CHECK(part != nullptr);  // staged when the hook was sent, and not closed since
  if (batch.hook == Batch::Hook::kBegin) {
    part->begun = batch.worker;
  } else {
    part->finalized = true;
  }
  if (!result.ops.empty()) {
    const bool by_stream = expiry_.any() && task.time->clock.time() != kNoTime;
    StageOps(task, batch, result.ops, by_stream ? task.time->clock.time() : clock_->WallMillis(), transaction);
    // It may have written between rows of a visit that were found: they are read again.
    if (VisitPending(task)) {
      DropPrepared(task);
      task.time->ForgetDue();
    }
  }
  StageOutputs(task, result.outputs);
}

// The worker may hold something of the task that belongs into the open transaction and is not in it yet.
bool EngineImpl::Gathered(const Worker& worker, TaskId task) {
  if (!worker.finalize) return false;
  const TaskPart* part = pipeline_.OpenPart(task);
  return part != nullptr && part->worker == worker.id && !part->finalized;
}

// The worker goes, and what it had gathered with it.
void EngineImpl::LoseGathered(const Worker& worker) {
  for (const auto& [id, task] : tasks_) {
    if (!Gathered(worker, id)) continue;
    return pipeline_.Abort(
        now_,
        absl::AbortedError(StrCat("a worker ended before it ", task->external ? "had stored" : "was asked to FINALIZE",
                                  " task ", id.value())),
        /*closing_too=*/false);
  }
}

// As Cancel, where nothing else makes the worker forget the task: it may have gathered something of the batch already.
void EngineImpl::Void(Task& task) {
  const Worker* worker = task.in_flight ? workers_.Find(task.in_flight->worker) : nullptr;
  // LOAD has no part in any transaction.
  const bool hook =
      task.in_flight && task.in_flight->hook != Batch::Hook::kNone && task.in_flight->hook != Batch::Hook::kLoad;
  Cancel(task);
  if (worker == nullptr || !worker->hooked()) return;
  if (hook || Gathered(*worker, task.id)) {
    pipeline_.Abort(now_,
                    absl::AbortedError(
                        StrCat("task ", task.id.value(), " is given up before ", task.external ? "STORE" : "FINALIZE")),
                    /*closing_too=*/false);
  } else {
    UnassignWorker(task);
  }
}

void EngineImpl::TellCommitted(const Transaction& transaction, const std::vector<Outcome>& outcomes) {
  std::map<WorkerId, protocol::Committed> by_worker;
  for (size_t i = 0; i < transaction.parts.size(); ++i) {
    const TaskPart& part = transaction.parts[i];
    const Worker* worker = workers_.Find(part.worker);
    if (outcomes[i] != Outcome::kCommitted || worker == nullptr || worker->dropped || !worker->committed) continue;
    by_worker[part.worker].tasks.emplace_back(part.task, part.last_seq);
  }
  for (const auto& [worker, committed] : by_worker) SendFrame(worker, protocol::EncodeFrame(committed));
}

}  // namespace millstream::engine
