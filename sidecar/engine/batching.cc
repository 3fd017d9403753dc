// Batches from records waiting to a frame sent: cutting, reading ahead, workers and their slots, cancelling.
#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "sidecar/engine/engine_impl.h"
#include "sidecar/protocol/codec.h"
#include "sidecar/protocol/error_codes.h"

namespace millstream::engine {
namespace {

bool Traced(const Task& task, const Item& item) {
  return item.due != nullptr ? task.time->trace : item.record.offset < task.inputs[item.input].trace_until;
}
bool Single(const Task& task, const Item& item) {
  return item.due != nullptr ? task.time->single : item.record.offset < task.inputs[item.input].single_until;
}
bool HasDue(const Task& task) { return task.time && !task.time->due.empty(); }
// What is due leads. Precondition: there are items.
const Item& Front(const Task& task) { return HasDue(task) ? task.time->due.front() : task.queue.front(); }

}  // namespace

// ---------------------------------------------------------------- preparing

// Whether what is in front may be handled now. Records by time: once every other input either has one waiting, which is
// later, or is idle.
bool EngineImpl::MayTake(const Task& task) const {
  if (HasDue(task)) return true;
  if (task.queue.empty()) return false;
  for (uint32_t i = 0; merges_by_time_ && i < task.inputs.size(); ++i) {
    if (task.queue.LaneEmpty(i) && now_ < IdleAt(task, i)) return false;
  }
  return true;
}

// From when on an input without a record does not hold the others back: read to its end and silent for idleAfter; or
// nothing at all was heard of it for so long (a partition that cannot be read).
absl::Duration EngineImpl::IdleAt(const Task& task, uint32_t input) const {
  const TaskInput& of = task.inputs[input];
  return (of.at_end ? of.last_arrival : of.heard) + spec_.inputs[input].idle_after;
}

// Cuts the next batch and asks for its state: at once if none is out, else only when it will be a full one.
void EngineImpl::Prepare(Task& task) {
  if (task.leaving != Task::Leaving::kNo && !at_most_once_) return;
  if (task.prepared || !MayTake(task) || pipeline_.recovering() || now_ < task.wait_until || workers_.usable() == 0)
    return;
  if (task.external && !MayStage(task)) return;
  if (paused_ && task.leaving == Task::Leaving::kNo) return;
  if (overlay_pressure_) return;  // a prepared batch holds on to overlays
  if (task.time && task.time->looking) return;
  // What is due leads, and a batch whose records are claimed is not taken apart for it.
  const bool claims_in_time = at_most_once_ && task.time;
  if (claims_in_time && task.leaving == Task::Leaving::kNo && !HasDue(task) && DuePending(task)) return;
  if (task.in_flight) {
    if (HasDue(task) || has_sessions_ || claims_in_time || VisitPending(task)) return;  // they depend on what is out
    const Item& front = task.queue.front();
    const bool full = task.queue.size() >= static_cast<size_t>(spec_.batch.max_records + 1) / 2 ||
                      task.queue.bytes() >= spec_.batch.max_bytes;
    if (!full || !task.attempts.empty() || Traced(task, front) || Single(task, front) ||
        FrameBytes(front) + kFrameOverhead > options_.frame_cap) {
      return;
    }
  } else if (!SettleFront(task)) {
    return;
  }
  auto batch = std::make_unique<Batch>();
  batch->id = next_batch_++;
  Cut(task, batch.get());
  batch->pin = task.overlays.TakePin();
  std::vector<std::vector<Bytes>> wanted = CollectReads(prefetch_, task.overlays, batch.get());
  batch->reads_pending = static_cast<int>(wanted.size());
  if (batch->time) ReadWindows(task, *batch);
  for (size_t i = 0; i < wanted.size(); ++i) {
    const ReadId read = StartRead(task, BatchRead{batch->id, i});
    Do(ReadKeys{read, task.id, batch->reads[i].store, std::move(wanted[i])});
  }
  task.prepared = std::move(batch);
  if (at_most_once_) Claim(task);
}

// Deals with records at the front that are not to be sent (again). False: there is nothing to send now.
bool EngineImpl::SettleFront(Task& task) {
  while (MayTake(task)) {
    const Item& front = Front(task);
    const Attempts::Entry* entry = task.attempts.Find(front);
    if (entry == nullptr && FrameBytes(front) + kFrameOverhead > options_.frame_cap) {
      Charge(task, front,
             {"Decode", "RecordTooLarge",
              StrCat("its ", FrameBytes(front), " bytes do not fit a frame of ", options_.frame_cap), false},
             false);
      entry = task.attempts.Find(front);
    }
    if (entry == nullptr || !entry->final) return true;
    const Verdict verdict = VerdictFor(spec_.errors, *entry);
    if (verdict == Verdict::kStop) {
      std::optional<TaskStatus::Place> at;
      if (front.due == nullptr) at = TaskStatus::Place{front.input, front.record.offset};
      std::string why =
          StrCat(Describe(task.id, front), " failed ", entry->count, entry->count == 1 ? " time" : " times",
                 ", last with ", entry->last.failure_class, " ", entry->last.error, ": ", entry->last.message,
                 "; the task is stopped: repair the program, then 'millstream tasks restart'; or set errors.onFailure");
      Stop(task, std::move(why), at);
      return false;
    }
    if (pipeline_.Full()) {
      blocked_ = true;
      return false;
    }
    Consume(task, *entry, verdict);
  }
  return false;
}

void EngineImpl::Cut(Task& task, Batch* batch) {
  const bool single = Single(task, Front(task));
  const size_t waiting = task.queue.size() + (task.time ? task.time->due.size() : 0);
  const size_t most = single ? 1 : std::min<size_t>(waiting, static_cast<size_t>(spec_.batch.max_records));
  const int64_t limit = std::min<int64_t>(spec_.batch.max_bytes, options_.frame_cap / 4 * 3);
  batch->trace = Traced(task, Front(task));
  if (task.time) {
    batch->time = std::make_unique<BatchTime>();
    batch->time->clock = task.in_flight ? task.in_flight->time->clock : task.time->clock;
    batch->time->watermark = batch->time->clock.time();
    batch->time->row_index.resize(spec_.stores.size());
    batch->time->items.reserve(most);
  }
  batch->items.reserve(most);  // keys point into the items: they must not move
  batch->item_key.reserve(most);
  batch->key_index.reserve(most);
  double state = 0;
  while (batch->items.size() < most && MayTake(task)) {
    const Item& front = Front(task);
    const int64_t size = FrameBytes(front);
    if (!batch->items.empty()) {
      const Attempts::Entry* failed = task.attempts.Find(front);
      if (failed != nullptr && failed->final) break;
      if (Traced(task, front) != batch->trace || Single(task, front)) break;
      if (batch->frame_bytes + size + static_cast<int64_t>(state) > limit) break;
      if (expiry_.any() && !SharesStep(*batch, front)) break;
    }
    batch->frame_bytes += size;
    if (HasDue(task)) {
      batch->items.push_back(std::move(task.time->due.front()));
      task.time->due.pop_front();
    } else {
      batch->items.push_back(task.queue.PopFront());
    }
    batch->bytes += batch->items.back().bytes();
    const size_t keys = batch->keys.size();
    IndexKey(prefetch_, batch, batch->items.size() - 1);
    if (batch->keys.size() > keys && batch->keys.back().stores != 0) state += state_bytes_per_key_;
    if (batch->time) PlanTime(task, *batch);
  }
}

// AtMostOnce: the offsets of a batch are committed before it is sent, and that what is due is not pending any more.
// What comes back unhandled is claimed already.
void EngineImpl::Claim(Task& task) {
  bool moved = ClaimDue(task, *task.prepared);
  for (const Item& item : task.prepared->items) {
    if (item.due != nullptr) continue;
    TaskInput& input = task.inputs[item.input];
    if (item.next <= input.staged) continue;
    MS_CHECK(at_most_once_ ? item.from >= input.staged : item.from == input.staged);
    input.staged = item.next;
    moved = true;
  }
  if (moved) StageOffsets(task);
  task.prepared->claimed = !CoversClaim(task, *task.prepared);
}

bool EngineImpl::CoversClaim(const Task& task, const Batch& batch) const {
  if (options_.mutation == EngineOptions::Mutation::kClaims) return true;
  return std::all_of(batch.items.begin(), batch.items.end(), [&](const Item& item) {
    if (item.due != nullptr) return item.due->claim <= task.time->claims_committed;
    return item.next <= task.inputs[item.input].committed;
  });
}

// Its records go back to where they were.
void EngineImpl::DropPrepared(Task& task) {
  if (!task.prepared) return;
  const std::unique_ptr<Batch> batch = std::move(task.prepared);
  task.overlays.ReleasePin(batch->pin);
  PutBack(task, std::move(batch->items));
}

// Before everything else of the task. What is due leads; if it is not claimed it is looked for again, and so is what
// was found behind it: rows of a visit come in order.
void EngineImpl::PutBack(Task& task, std::vector<Item> items) {
  const auto records = std::find_if(items.begin(), items.end(), [](const Item& item) { return item.due == nullptr; });
  if (records != items.begin()) {
    std::deque<Item>& due = task.time->due;
    if (at_most_once_) {
      due.insert(due.begin(), std::make_move_iterator(items.begin()), std::make_move_iterator(records));
    } else {
      due.clear();
    }
    items.erase(items.begin(), records);
  }
  task.queue.PutBack(std::move(items));
}

void EngineImpl::OnBatchRead(Task& task, const BatchRead& read, KeysRead event) {
  Batch* batch = task.prepared.get();
  if (batch == nullptr || batch->id != read.batch) return;  // dropped since
  if (!event.status.ok()) return ReadFailed(task, event.status);
  Batch::StoreRead& of = batch->reads[read.index];
  MS_CHECK(event.values.size() == of.slots.size());
  of.values = std::move(event.values);
  --batch->reads_pending;
}

// ---------------------------------------------------------------- sending

bool EngineImpl::MaySend(const Task& task) {
  if (!task.prepared || task.prepared->reads_pending > 0 || task.in_flight) return false;
  if (task.phase != Task::Phase::kRunning || now_ < task.wait_until || pipeline_.recovering()) return false;
  if (paused_ && task.leaving == Task::Leaving::kNo) return false;
  if (HeldBack(task) || (task.external && !MayStage(task))) return false;
  return !at_most_once_ || CoversClaim(task, *task.prepared);
}

void EngineImpl::TrySend(Task& task) {
  if (!MaySend(task)) return;
  if (pipeline_.Full() || overlay_pressure_) {
    blocked_ = true;
    return;
  }
  task.prepared->claimed = false;
  if (task.prepared->time && !task.prepared->time->finished) FinishTime(task, *task.prepared);
  if (task.prepared->FrameItems() == 0) return AcceptSilent(task);
  Worker* worker = AssignWorker(task);
  if (worker == nullptr) return;
  if (!task.Loaded()) return Mark(task);  // it moved there just now
  if (!task.waits_for_slot) {
    task.waits_for_slot = true;
    worker->waiting.push_back(task.id);
  }
  ServeWaiting(*worker);
}

// Sends what is ready, in the order it became so. A traced batch at the front waits until the worker has no other.
void EngineImpl::ServeWaiting(Worker& worker) {
  while (!worker.waiting.empty()) {
    Task* task = Find(worker.waiting.front());
    const bool still = task != nullptr && task->waits_for_slot && task->worker == worker.id;
    const bool ready = still && MaySend(*task) && !(pipeline_.Full() || overlay_pressure_) &&
                       (!task->prepared->time || task->prepared->time->finished);
    if (ready && !worker.HasSlot(task->prepared->trace)) return;
    worker.waiting.pop_front();
    if (still) task->waits_for_slot = false;
    if (ready) Send(*task, worker);
    if (still && !ready) blocked_ = true;  // it comes again when it is looked at
  }
}

void EngineImpl::Send(Task& task, Worker& worker) {
  MS_CHECK(!task.in_flight && (!at_most_once_ || CoversClaim(task, *task.prepared)));
  if (NeedsBegin(task, worker)) return SendHook(task, worker, Batch::Hook::kBegin);
  task.in_flight = std::move(task.prepared);
  Batch& batch = *task.in_flight;
  batch.seq = next_seq_++;
  batch.worker = worker.id;
  batch.sent = now_;
  batch.deadline = now_ + spec_.batch.deadline;
  BatchEncoding how{
      &prefetch_, &task.overlays, std::min<int64_t>(spec_.batch.max_bytes, options_.frame_cap / 4 * 3), {}, {}};
  for (store::StoreIndex store = 0; expiry_.any() && store < spec_.ManifestStores(); ++store)
    how.expiry.push_back(ExpiryFor(task, batch, store));
  if (!task.attempts.empty()) {
    for (const Item& item : batch.items) how.attempts.push_back(task.attempts.Next(item));
  }
  int64_t state_bytes = 0;
  std::string frame = EncodeBatch(batch, task.id, how, &state_bytes);
  MS_CHECK(frame.size() <= static_cast<size_t>(options_.frame_cap) + 4);
  if (!batch.keys.empty()) {
    state_bytes_per_key_ +=
        (static_cast<double>(state_bytes) / static_cast<double>(batch.keys.size()) - state_bytes_per_key_) / 16;
  }
  task.overlays.ReleasePin(batch.pin);
  batch.reads.clear();
  worker.out.emplace(batch.seq, task.id);
  worker.tracing = batch.trace;
  SendFrame(worker.id, std::move(frame));
  Mark(task);  // the next one may be prepared
}

void EngineImpl::SendFrame(WorkerId worker, std::string frame) { Do(SendToWorker{worker, std::move(frame)}); }

void EngineImpl::Cancel(Task& task) {
  if (!task.in_flight) return;
  const std::unique_ptr<Batch> batch = std::move(task.in_flight);
  if (batch->held) return task.overlays.ReleasePin(batch->held->pin);  // the worker is done with it
  Worker* worker = workers_.Find(batch->worker);
  if (worker == nullptr || worker->dropped) return;
  worker->out.erase(batch->seq);
  worker->tracing = false;
  worker->Cancelled(batch->seq);
  SendFrame(worker->id, protocol::EncodeFrame(protocol::Cancel{batch->seq}));
  for (const TaskId waiting : worker->waiting) Mark(waiting);
  WakeLoads(*worker);
}

void EngineImpl::CheckDeadlines(Task& task) {
  if (!task.in_flight || task.in_flight->held || now_ < task.in_flight->deadline) return;
  Worker* worker = workers_.Find(task.in_flight->worker);
  MS_CHECK(worker != nullptr);
  DropFaulty(
      *worker, protocol::kDeadlineExceeded,
      StrCat("batch ", task.in_flight->seq, " of task ", task.id.value(), " with ", task.in_flight->items.size(),
             " records was not answered within ", absl::FormatDuration(spec_.batch.deadline), " (batch.deadline)"));
}

// ---------------------------------------------------------------- tasks and workers

// The worker the task is open at: the one it was at, unless another has two tasks less. nullptr if there is none.
Worker* EngineImpl::AssignWorker(Task& task) {
  Worker* current = workers_.Find(task.worker);
  Worker* best = workers_.LeastLoaded();
  // What it has gathered for the open transaction would be lost with a move.
  const bool bound = current != nullptr && current->hooked() && pipeline_.HasOpenPart(task.id);
  if (current != nullptr && current->usable() && (bound || current->tasks <= best->tasks + 1)) return current;
  UnassignWorker(task);
  if (best == nullptr) return nullptr;
  task.worker = best->id;
  ++best->tasks;
  SendFrame(best->id, protocol::EncodeFrame(protocol::Open{task.id}));
  return best;
}

void EngineImpl::UnassignWorker(Task& task) {
  task.waits_for_slot = false;
  if (task.external) task.external->loaded = false;
  if (task.worker == 0) return;
  Worker* worker = workers_.Find(std::exchange(task.worker, 0));
  if (worker == nullptr) return;
  --worker->tasks;
  if (!worker->dropped) SendFrame(worker->id, protocol::EncodeFrame(protocol::Close{task.id}));
}

void EngineImpl::WorkersChanged() { MarkAll(); }

}  // namespace millstream::engine
