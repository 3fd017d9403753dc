// GET and SCAN of batches under way: answered from the batch's own writes, the overlays, then the disk.
#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "sidecar/engine/engine_impl.h"
#include "sidecar/engine/scan_merge.h"
#include "sidecar/protocol/codec.h"
#include "sidecar/protocol/error_codes.h"

namespace millstream::engine {
namespace {

constexpr char kCancelled[] = "cancelled";
constexpr uint32_t kMostRows = 10'000;
constexpr size_t kPageBytes = 1 << 20;

store::ScanRequest RequestOf(const protocol::Scan& scan, store::StoreIndex store, uint32_t frame_cap) {
  auto owned = [](const protocol::MaybeView& view) {
    return view ? std::optional<Bytes>(std::in_place, *view) : std::nullopt;
  };
  store::ScanRequest request;
  request.store = store;
  request.from = owned(scan.from);
  request.to = owned(scan.to);
  request.after = owned(scan.cursor);
  request.reverse = scan.reverse;
  request.max_rows = scan.limit == 0 ? kMostRows : std::min(scan.limit, kMostRows);
  request.max_bytes = std::min<size_t>(kPageBytes, frame_cap / 4);
  return request;
}

// The batch that `seq` of `worker` still is.
Batch* Current(Task& task, WorkerId worker, uint64_t seq) {
  Batch* batch = task.in_flight.get();
  return batch != nullptr && batch->worker == worker && batch->seq == seq ? batch : nullptr;
}

}  // namespace

ReadId EngineImpl::StartRead(Task& task, Read::Purpose purpose) {
  ++task.reads;
  return reads_.Add({task.id, std::move(purpose)});
}

void EngineImpl::ReadFailed(Task& task, const absl::Status& status) {
  if (task.leaving == Task::Leaving::kNo || !task.state_lost) Lose(task, Annotate(status, "reading state"));
}

void EngineImpl::On(KeysRead event) {
  std::optional<Read> read = reads_.Take(event.read);
  MS_CHECK(read.has_value());
  Task* task = Find(read->task);
  MS_CHECK(task != nullptr && task->reads > 0);  // it stays open as long as reads of it are under way
  --task->reads;
  Mark(*task);
  if (const auto* batch = std::get_if<BatchRead>(&read->purpose)) {
    OnBatchRead(*task, *batch, std::move(event));
  } else if (auto* get = std::get_if<GetRead>(&read->purpose)) {
    OnGetRead(*task, std::move(*get), std::move(event));
  } else if (std::holds_alternative<ClockRead>(read->purpose)) {
    OnClockRead(*task, std::move(event));
  } else if (const auto* rows = std::get_if<RowsRead>(&read->purpose)) {
    OnRowsRead(*task, *rows, std::move(event));
  } else if (const auto* timers = std::get_if<TimersRead>(&read->purpose)) {
    OnTimersRead(*task, *timers, std::move(event));
  } else {
    const auto& query = std::get<KeyQueryRead>(read->purpose);
    if (!event.values.empty()) ExpiryOutside(*task, query.store).Settle(&event.values[0]);
    Do(QueryAnswered{
        query.query, event.status, event.values.empty() ? std::nullopt : std::move(event.values[0]), {}, {}});
  }
}

// "New ops": what the worker wrote since its last frame of this batch. For its own reads only.
void EngineImpl::KeepScratch(Task& task, const protocol::StateOps& ops) {
  Batch& batch = *task.in_flight;
  for (const auto& [store, of_store] : ops) {
    for (const protocol::StateOp& op : of_store) {
      if (!batch.scratch) batch.scratch = std::make_unique<Overlay>(spec_.readables());
      batch.scratch->Put(store, op.key, op.value, kEndOfTime);  // the worker sees its own writes in any case
    }
  }
}

void EngineImpl::SendValues(WorkerId worker, protocol::Values values) {
  size_t bytes = 64;
  for (const MaybeBytes& value : values.values) bytes += 6 + (value ? value->size() : 0);
  if (bytes > options_.frame_cap) {
    values.error = StrCat("the values take ", bytes, " bytes, more than a frame of ", options_.frame_cap,
                          ": ask for fewer keys at once");
    values.values.clear();
  }
  SendFrame(worker, protocol::EncodeFrame(values));
}

void EngineImpl::OnMessage(Worker& worker, const protocol::Get& get) {
  Task* task = Holder(worker, get.seq);
  if (task == nullptr) {
    if (!worker.dropped)
      SendFrame(worker.id, protocol::EncodeFrame(protocol::Values{get.seq, get.rid, {}, kCancelled}));
    return;
  }
  auto fault = CheckStore(options_, get.store);
  if (!fault) fault = CheckOps(options_, get.new_ops);
  if (fault) return DropFaulty(worker, fault->code, fault->message);
  KeepScratch(*task, get.new_ops);
  const auto store = static_cast<store::StoreIndex>(spec_.ReadableOf(get.store));
  GetRead read{worker.id, get.seq, get.rid, store, std::vector<MaybeBytes>(get.keys.size()), {}};
  const Expiry expiry = ExpiryFor(*task, *task->in_flight, store);
  std::vector<Bytes> ask;
  for (size_t i = 0; i < get.keys.size(); ++i) {
    const size_t hash = BytesHash()(get.keys[i]);
    const Overlay* scratch = task->in_flight->scratch.get();
    const OverlayValue* known = scratch ? scratch->Find(store, get.keys[i], hash) : nullptr;
    if (known == nullptr) known = task->overlays.Find(store, get.keys[i], hash);
    if (known != nullptr) {
      if (!known->deleted && !expiry.Hides(known->timestamp_ms)) read.values[i].emplace(known->view());
    } else {
      read.slots.push_back(i);
      ask.emplace_back(get.keys[i]);
    }
  }
  if (ask.empty()) return SendValues(worker.id, {get.seq, get.rid, std::move(read.values), std::nullopt});
  // No pin is needed: a key that no layer knows is in none that could be applied before the disk is read, and nothing
  // but this batch writes to the task (a sweep deletes what is hidden from it anyway).
  const ReadId id = StartRead(*task, std::move(read));
  Do(ReadKeys{id, task->id, store, std::move(ask)});
}

void EngineImpl::OnGetRead(Task& task, GetRead read, KeysRead event) {
  Worker* worker = workers_.Find(read.worker);
  const bool answer = worker != nullptr && !worker->dropped;
  const Batch* batch = Current(task, read.worker, read.seq);
  if (batch == nullptr) {
    if (answer) SendFrame(read.worker, protocol::EncodeFrame(protocol::Values{read.seq, read.rid, {}, kCancelled}));
    return;
  }
  if (!event.status.ok()) {
    SendFrame(read.worker, protocol::EncodeFrame(protocol::Values{read.seq, read.rid, {}, kCancelled}));
    return ReadFailed(task, event.status);
  }
  MS_CHECK(event.values.size() == read.slots.size());
  const Expiry expiry = ExpiryFor(task, *batch, read.store);
  for (size_t i = 0; i < read.slots.size(); ++i) {
    expiry.Settle(&event.values[i]);
    read.values[read.slots[i]] = std::move(event.values[i]);
  }
  SendValues(read.worker, {read.seq, read.rid, std::move(read.values), std::nullopt});
}

void EngineImpl::OnMessage(Worker& worker, const protocol::Scan& scan) {
  Task* task = Holder(worker, scan.seq);
  if (task == nullptr) {
    if (!worker.dropped)
      SendFrame(worker.id, protocol::EncodeFrame(protocol::Rows{scan.seq, scan.rid, {}, std::nullopt, kCancelled}));
    return;
  }
  auto fault = CheckStore(options_, scan.store);
  if (!fault) fault = CheckOps(options_, scan.new_ops);
  if (fault) return DropFaulty(worker, fault->code, fault->message);
  KeepScratch(*task, scan.new_ops);
  store::ScanRequest request =
      RequestOf(scan, static_cast<store::StoreIndex>(spec_.ReadableOf(scan.store)), options_.frame_cap);
  const ReadId id = StartRead(*task, ScanRead{worker.id, scan.seq, scan.rid, request, task->overlays.TakePin()});
  Do(ScanRange{id, task->id, std::move(request)});
}

void EngineImpl::On(RangeScanned event) {
  std::optional<Read> read = reads_.Take(event.read);
  MS_CHECK(read.has_value());
  Task* task = Find(read->task);
  MS_CHECK(task != nullptr && task->reads > 0);
  --task->reads;
  Mark(*task);
  if (const auto* scan = std::get_if<ScanRead>(&read->purpose)) {
    OnScanRead(*task, *scan, std::move(event));
    task->overlays.ReleasePin(scan->pin);
    return;
  }
  if (const auto* due = std::get_if<DueRead>(&read->purpose)) {
    OnDueRead(*task, *due, std::move(event));
    return task->overlays.ReleasePin(due->pin);
  }
  if (const auto* sweep = std::get_if<SweepRead>(&read->purpose)) {
    OnSweepRead(*task, *sweep, std::move(event));
    return task->overlays.ReleasePin(sweep->pin);
  }
  if (const auto* visits = std::get_if<VisitsRead>(&read->purpose)) {
    OnVisitsRead(*task, *visits, std::move(event));
    return task->overlays.ReleasePin(visits->pin);
  }
  if (const auto* visited = std::get_if<VisitedRead>(&read->purpose)) {
    OnVisitedRead(*task, *visited, std::move(event));
    return task->overlays.ReleasePin(visited->pin);
  }
  if (const auto* sessions = std::get_if<SessionsRead>(&read->purpose))
    return OnSessionsRead(*task, *sessions, std::move(event));
  const auto& query = std::get<RangeQueryRead>(read->purpose);
  QueryAnswered answer;
  answer.query = query.query;
  answer.status = event.status;
  if (event.status.ok()) {
    MergedPage page = MergeScan(query.request, event.page, task->overlays.Layers(TaskOverlays::View::kCommitted),
                                ExpiryOutside(*task, query.request.store));
    answer.page.rows = std::move(page.rows);
    answer.page.more = page.cursor.has_value();
    answer.cursor = std::move(page.cursor);
  }
  task->overlays.ReleasePin(query.pin);
  Do(std::move(answer));
}

void EngineImpl::OnScanRead(Task& task, const ScanRead& read, RangeScanned event) {
  Worker* worker = workers_.Find(read.worker);
  Batch* batch = Current(task, read.worker, read.seq);
  protocol::Rows rows{read.seq, read.rid, {}, std::nullopt, std::nullopt};
  if (batch == nullptr || !event.status.ok()) {
    rows.error = kCancelled;
  } else {
    std::vector<Overlay*> layers = task.overlays.Layers(TaskOverlays::View::kAll);
    if (batch->scratch) layers.insert(layers.begin(), batch->scratch.get());
    MergedPage page = MergeScan(read.request, event.page, layers, ExpiryFor(task, *batch, read.request.store));
    rows.rows = std::move(page.rows);
    rows.cursor = std::move(page.cursor);
  }
  if (worker != nullptr && !worker->dropped) SendFrame(read.worker, protocol::EncodeFrame(rows));
  if (batch != nullptr && !event.status.ok()) ReadFailed(task, event.status);
}

}  // namespace millstream::engine
