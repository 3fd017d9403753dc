// Processors whose state is in a database of the worker's (spec.externalStore): LOAD, CHECKPOINT, STORE, STORED
// (docs/reference/protocol.md, docs/design/0005-external-store.md).
//
// A transaction is committed in the databases first, task by task: with the data goes a checkpoint that names the
// transaction and holds its offsets and outputs. Then the log follows. Whatever happens between the two, the next LOAD
// tells, and what is missing in the log is sent again, before anything else of that task.
#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/log_line.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "sidecar/engine/engine_impl.h"
#include "sidecar/protocol/codec.h"
#include "sidecar/protocol/error_codes.h"

namespace millstream::engine {
namespace {

constexpr absl::Duration kFirstReload = absl::Milliseconds(100), kLongestReload = absl::Seconds(10);
// Of STORE and CHECKPOINT, beside the checkpoint.
constexpr size_t kStoreOverhead = 64;

}  // namespace

// Whether effects of the task may join the open transaction: its checkpoint is known, and the transaction's is not
// written yet and has room.
bool EngineImpl::MayStage(const Task& task) {
  if (!task.external->loaded || HeldBack(task)) return false;
  const TaskPart* part = pipeline_.OpenPart(task.id);
  if (part == nullptr) return true;
  // A RESULT may add about three quarters of a frame.
  const bool room = part->output_bytes < options_.frame_cap / 4 && part->outputs.size() < protocol::kMaxElements / 8;
  return room && !part->finalized && part->also.empty();
}

// ---------------------------------------------------------------- LOAD

// Whenever the task comes to a worker: at the beginning, and after everything that undid something of it. Not before
// the outcome of what it had in a transaction is known: that is what the checkpoint is compared with.
void EngineImpl::LoadCheckpoint(Task& task) {
  const bool wanted = task.phase == Task::Phase::kStarting || task.phase == Task::Phase::kRunning;
  if (!wanted || task.external->loaded || task.in_flight || now_ < task.wait_until) return;
  if (pipeline_.recovering() || pipeline_.HasPart(task.id)) return;
  if (pipeline_.Full()) {  // what is sent again needs a writer
    blocked_ = true;
    return;
  }
  Worker* worker = AssignWorker(task);
  if (worker == nullptr || !worker->HasSlot(/*trace=*/false)) return;
  const uint64_t seq = NewHook(task, *worker, Batch::Hook::kLoad);
  SendFrame(worker->id, protocol::EncodeFrame(protocol::Load{seq, task.id}));
}

// A slot is free: LOAD waits for one without being in line.
void EngineImpl::WakeLoads(const Worker& worker) {
  if (!spec_.external_store) return;
  for (const auto& [id, task] : tasks_) {
    if (task->worker == worker.id && !task->Loaded()) Mark(*task);
  }
}

// The worker goes: nothing more is begun in its database.
void EngineImpl::LeaveDatabase(const Worker& worker) {
  for (const auto& [id, task] : tasks_) {
    if (task->external && task->worker == worker.id) task->external->loaded = false;
  }
}

void EngineImpl::OnMessage(Worker& worker, const protocol::Checkpoint& message) {
  Task* task = AnsweredBy(worker, message.seq, Batch::Hook::kLoad, "CHECKPOINT");
  if (task != nullptr && !worker.goodbye) OnLoaded(*task, message);
}

void EngineImpl::OnLoaded(Task& task, const protocol::Checkpoint& message) {
  // Given up meanwhile: it is the next owner's business.
  if (task.leaving != Task::Leaving::kNo || task.phase == Task::Phase::kStopped) return;
  TaskExternal& external = *task.external;
  external.fence = message.fence;
  const bool nobody_since = external.last_fence && message.fence == *external.last_fence + 1;
  external.last_fence = message.fence;
  task.error.clear();
  StoredCheckpoint stored;
  CheckpointAge age = CheckpointAge::kSame;
  if (message.checkpoint) {
    absl::StatusOr<StoredCheckpoint> decoded = DecodeCheckpoint(*message.checkpoint);
    if (!decoded.ok()) {
      return Stop(task,
                  StrCat("CheckpointUnreadable: task ", task.id.value(), ": ", decoded.status().ToString(),
                         "; repair the database and restart the task"),
                  std::nullopt);
    }
    stored = *std::move(decoded);
    std::vector<CommittedInput> committed;
    for (uint32_t i = 0; i < task.inputs.size(); ++i)
      committed.push_back({PartitionOf(task.id, i), task.inputs[i].committed, task.inputs[i].metadata});
    age = AgeOf(stored, committed);
  } else if (std::any_of(task.inputs.begin(), task.inputs.end(),
                         [](const TaskInput& input) { return OffsetTags::HasExternalStore(input.metadata); })) {
    age = CheckpointAge::kForeign;
  }
  // Offsets that were read before the fence was raised may be older than the checkpoint: another owner may have gone on
  // in between, and its transaction must not be taken for one that the log lacks. They are read once more.
  if (age != CheckpointAge::kSame && !nobody_since) {
    return Lose(task, absl::AbortedError("its offsets are read again, behind its checkpoint"));
  }
  if (age == CheckpointAge::kForeign) return Foreign(task, message.checkpoint.has_value());
  if (age == CheckpointAge::kNewer && pipeline_.Full()) {  // the writer was lost meanwhile: LOAD once more
    blocked_ = true;
    return;
  }
  external.loaded = true;
  if (age == CheckpointAge::kNewer) SendAgain(task, std::move(stored));
}

void EngineImpl::Foreign(Task& task, bool stored) {
  if (stored) {
    return Stop(task,
                StrCat("CheckpointMismatch: task ", task.id.value(), ": the offsets of group ", spec_.group,
                       " and the checkpoint in the worker's database do not belong together: one of them was set "
                       "anew (millstream reset, a backup of the database, another processor in the same table). "
                       "Nothing is skipped or repeated by itself: restore what is older and restart the task, or "
                       "empty the database's tables (checkpoints and data) and begin anew with 'millstream reset "
                       "--to start'"),
                std::nullopt);
  }
  Stop(task,
       StrCat("CheckpointLost: task ", task.id.value(), ": group ", spec_.group,
              " has committed offsets, but the worker's database has no checkpoint that belongs to them: it is "
              "another database, or an empty one. Restore it and restart the task; or begin anew with "
              "'millstream reset --to start'"),
       std::nullopt);
}

// The transaction is committed in the database and not in the log: its outputs and offsets are all that the next one of
// the task has. That one is stored as any other, so this can happen again. Nothing joins it: whoever was taken for dead
// may have committed it under its earlier name by now, and then there is nothing left to send.
void EngineImpl::SendAgain(Task& task, StoredCheckpoint checkpoint) {
  DropPrepared(task);
  task.queue.Clear();
  for (uint32_t i = 0; i < task.inputs.size(); ++i) {
    TaskInput& input = task.inputs[i];
    const TopicPartition of = PartitionOf(task.id, i);
    const auto stored = std::find_if(checkpoint.inputs.begin(), checkpoint.inputs.end(),
                                     [&](const StoredCheckpoint::Input& known) { return known.of == of; });
    if (stored != checkpoint.inputs.end()) input.staged = stored->next;
    input.queued = input.fetched = input.staged;
    input.end = std::max(input.end, input.staged);
    if (input.fetch == 0) continue;
    BeginFetch(input);
    Do(SeekFetch{task.id, i, input.fetched, input.fetch});
  }
  StageOffsets(task);
  std::vector<std::string>& also = pipeline_.OpenPart(task.id)->also;
  also = std::move(checkpoint.also);
  also.insert(also.begin(), std::move(checkpoint.metadata));
  if (also.size() > StoredCheckpoint::kMostNames) also.resize(StoredCheckpoint::kMostNames);
  LogInfo("the last transaction of the database is finished in the log",
          {{"task", task.id.value()}, {"outputs", checkpoint.outputs.size()}});
  if (checkpoint.outputs.empty()) return;
  const int64_t bytes = KeepForCheckpoint(task, checkpoint.outputs);
  pipeline_.AddOutputs(now_, std::move(checkpoint.outputs), 2 * bytes, actions_);
}

// ---------------------------------------------------------------- STORE

// Records that are about to join the open transaction will be in its checkpoint too. Gives the bytes they take there.
int64_t EngineImpl::KeepForCheckpoint(Task& task, const std::vector<log::OutgoingRecord>& records) {
  TaskPart* part = pipeline_.OpenPart(task.id);
  MS_CHECK(part != nullptr && !part->finalized);  // its offsets were staged just before
  int64_t bytes = 0;
  for (const log::OutgoingRecord& record : records) bytes += CheckpointBytes(record);
  part->outputs.insert(part->outputs.end(), records.begin(), records.end());
  part->output_bytes += bytes;
  return bytes;
}

void EngineImpl::SendStore(Task& task, Worker& worker, Transaction& transaction) {
  MS_CHECK(transaction.begun && task.external->loaded);
  TaskPart* part = transaction.FindPart(task.id);
  StoredCheckpoint checkpoint;
  checkpoint.metadata = transaction.metadata;
  for (uint32_t i = 0; i < task.inputs.size(); ++i) {
    if (part->next[i] == kNoOffset) continue;
    checkpoint.inputs.push_back({PartitionOf(task.id, i), part->next[i], task.inputs[i].metadata});
  }
  checkpoint.outputs = std::move(part->outputs);  // nothing is added once it is stored, and if it fails it is void
  part->outputs.clear();
  checkpoint.also = part->also;
  const std::string bytes = EncodeCheckpoint(checkpoint);
  const size_t elements = CheckpointElements(checkpoint);
  if (bytes.size() + kStoreOverhead > options_.frame_cap || elements > protocol::kMaxElements) {
    const absl::Status status = absl::ResourceExhaustedError(
        StrCat("task ", task.id.value(), ": with an external store the outputs of a transaction have to fit a frame (",
               options_.frame_cap, " bytes, ", protocol::kMaxElements, " elements) and take ", bytes.size(),
               " bytes and ", elements, " elements: emit less for one record, or make batch.maxRecords smaller"));
    NoteError(std::string(status.message()));
    return pipeline_.Abort(now_, status, /*closing_too=*/false);
  }
  const uint64_t seq = NewHook(task, worker, Batch::Hook::kStore);
  SendFrame(worker.id, protocol::EncodeFrame(protocol::Store{seq, task.id, task.external->fence, bytes}));
}

void EngineImpl::OnMessage(Worker& worker, const protocol::Stored& message) {
  Task* task = AnsweredBy(worker, message.seq, Batch::Hook::kStore, "STORED");
  if (task == nullptr) return;
  TaskPart* part = pipeline_.OpenPart(task->id);
  MS_CHECK(part != nullptr);  // an abort would have cancelled STORE, and without STORED it does not close
  if (message.stored) {
    part->finalized = true;
    task->external->failures = 0;
    return;
  }
  Lose(*task, absl::AbortedError("another owner has taken over its checkpoint (the fence in the database was raised)"));
}

// ---------------------------------------------------------------- answers

// The task whose LOAD or STORE that is. nullptr: none (any more), or the worker was cut off for it.
Task* EngineImpl::AnsweredBy(Worker& worker, uint64_t seq, Batch::Hook hook, const char* answer) {
  Task* task = Holder(worker, seq);
  if (task == nullptr) {
    LateAnswer(worker, seq);
    return nullptr;
  }
  if (task->in_flight->hook != hook) {
    DropFaulty(worker, protocol::kBadFrame, StrCat(answer, " for ", seq, ", which asked for something else"));
    return nullptr;
  }
  Answered(*task, worker, seq);
  ServeWaiting(worker);
  task->in_flight.reset();
  return task;
}

// The database cannot be reached, or refuses. Whether a STORE that failed was committed all the same, LOAD will tell.
void EngineImpl::OnExternalFailure(Task& task, const Batch& batch, const protocol::Failure& failure) {
  const bool load = batch.hook == Batch::Hook::kLoad;
  const std::string error = StrCat("task ", task.id.value(), ": ",
                                   load                                ? "LOAD"
                                   : batch.hook == Batch::Hook::kStore ? "STORE"
                                                                       : "a batch",
                                   " failed in the worker's database: ", failure.error, ": ", failure.message);
  NoteError(error);
  if (load) task.error = error;
  task.wait_until = std::max(task.wait_until, now_ + Backoff(kFirstReload, kLongestReload, ++task.external->failures));
  VoidDatabase(task, absl::UnavailableError(error));
}

// What the task's transaction in the database holds must not be stored: it is closed at the worker, and loaded anew.
void EngineImpl::VoidDatabase(Task& task, const absl::Status& cause) {
  if (pipeline_.HasOpenPart(task.id)) return pipeline_.Abort(now_, cause, /*closing_too=*/false);
  UnassignWorker(task);
}

// The transaction in the database is gone, with everything the task did in it: no record is to blame.
bool EngineImpl::LostDatabase(Task& task, const protocol::Result& result) {
  if (!task.external || !result.failure || result.failure->failure_class != protocol::kStoreFailure) return false;
  const std::unique_ptr<Batch> batch = std::move(task.in_flight);
  ReturnItems(task, *batch, 0);
  OnExternalFailure(task, *batch, *result.failure);
  return true;
}

}  // namespace millstream::engine
