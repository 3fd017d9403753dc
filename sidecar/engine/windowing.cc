// Windows and sessions of the records of a batch: which they belong to, which are late, and what their rows become.
#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "sidecar/engine/engine_impl.h"
#include "sidecar/engine/scan_merge.h"

namespace millstream::engine {
namespace {

constexpr size_t kSessionPage = 64;

bool HasKey(const Batch& batch, size_t item) { return batch.item_key[item] >= 0; }

}  // namespace

// ---------------------------------------------------------------- preparing

// The last item of the batch: stream time with it, its windows.
void EngineImpl::PlanTime(Task& /*task*/, Batch& batch) {
  BatchTime& time = *batch.time;
  const size_t index = batch.items.size() - 1;
  const Item& item = batch.items[index];
  BatchTime::OfItem& of = time.items.emplace_back();
  if (item.due != nullptr) {
    of.time = time.clock.time();
    if (!HasKey(batch, index)) return;  // the end of a visit
    if (expiry_.any()) batch.keys[batch.item_key[index]].timestamp_ms = WriteTime(item, of.time);
    if (item.due->what == DueItem::What::kClosing) {
      IndexRow(spec_.stores[item.due->store], item.due->store, batch.item_key[index], item.due->bounds, &batch);
    }
    return;
  }
  of.ahead = Ahead(item.record.timestamp_ms);
  if (!of.ahead) time.clock.Advance(item.input, item.record.timestamp_ms);
  of.time = time.clock.time();
  if (!HasKey(batch, index)) return;
  if (expiry_.any()) batch.keys[batch.item_key[index]].timestamp_ms = WriteTime(item, of.time);
  for (uint32_t store = 0; store < spec_.ManifestStores(); ++store) {
    const spec::StoreSpec& spec = spec_.stores[store];
    if (!spec.window) continue;
    bool open = false;
    for (const Bounds& bounds : WindowsOf(*spec.window, item.record.timestamp_ms)) {
      if (ClosesAt(spec, bounds) <= of.time) continue;
      open = true;
      of.windows.push_back({store, bounds.start, bounds.end, false, {}});
      IndexRow(spec, store, batch.item_key[index], bounds, &batch);
      batch.frame_bytes += kFrameBytesOfWindow;
    }
    if (!open) of.late |= uint32_t{1} << store;
  }
}

// Asks for the rows of windows and the sessions that the batch needs.
void EngineImpl::ReadWindows(Task& task, Batch& batch) {
  std::vector<std::vector<Bytes>> wanted = CollectRowReads(task.overlays, &batch);
  for (size_t i = 0; i < wanted.size(); ++i) {
    const ReadId id = StartRead(task, RowsRead{batch.id, i});
    Do(ReadKeys{id, task.id, batch.time->row_reads[i].store, std::move(wanted[i])});
    ++batch.reads_pending;
  }
  if (!has_sessions_) return;
  PlanSessionReads(batch);
  for (size_t i = 0; i < batch.time->session_reads.size(); ++i) ReadSessions(task, batch, i, std::nullopt);
}

// Per key the stretches of time its records reach: a record reaches a gap to either side.
void EngineImpl::PlanSessionReads(Batch& batch) {
  for (uint32_t store = 0; store < spec_.ManifestStores(); ++store) {
    if (!spec_.stores[store].session) continue;
    const int64_t gap = absl::ToInt64Milliseconds(spec_.stores[store].session->gap);
    std::vector<std::pair<int32_t, int64_t>> times;
    for (size_t i = 0; i < batch.items.size(); ++i) {
      if (batch.items[i].due == nullptr && HasKey(batch, i))
        times.emplace_back(batch.item_key[i], batch.items[i].record.timestamp_ms);
    }
    std::sort(times.begin(), times.end());
    std::vector<BatchTime::SessionRead>& reads = batch.time->session_reads;
    const size_t first = reads.size();
    for (const auto& [key, at] : times) {
      const int64_t low = SubtractTime(at, gap), high = AddTime(at, gap);
      if (reads.size() > first && reads.back().key_index == key && low <= reads.back().high) {
        reads.back().high = high;
      } else {
        reads.push_back({store, key, low, high, {}});
      }
    }
  }
}

// From the last session that begins within reach down to the first that ends there.
void EngineImpl::ReadSessions(Task& task, Batch& batch, size_t index, std::optional<Bytes> after) {
  const BatchTime::SessionRead& read = batch.time->session_reads[index];
  const spec::StoreSpec& store = spec_.stores[read.store];
  const std::string_view key = batch.keys[read.key_index].bytes;
  store::ScanRequest request;
  request.store = read.store;
  request.from = RowKey(store, key, {kNoTime, kNoTime});
  request.to = RowKey(store, key, {read.high, kEndOfTime}) + '\0';
  request.reverse = true;
  request.after = std::move(after);
  request.max_rows = kSessionPage;
  const ReadId id = StartRead(task, SessionsRead{batch.id, index, request});
  Do(ScanRange{id, task.id, std::move(request)});
  ++batch.reads_pending;
}

void EngineImpl::OnRowsRead(Task& task, const RowsRead& read, KeysRead event) {
  Batch* batch = task.prepared.get();
  if (batch == nullptr || batch->id != read.batch) return;  // dropped since
  if (!event.status.ok()) return ReadFailed(task, event.status);
  const BatchTime::RowRead& of = batch->time->row_reads[read.index];
  MS_CHECK(event.values.size() == of.slots.size());
  for (size_t i = 0; i < of.slots.size(); ++i) batch->time->rows[of.slots[i]].disk = std::move(event.values[i]);
  --batch->reads_pending;
}

void EngineImpl::OnSessionsRead(Task& task, const SessionsRead& read, RangeScanned event) {
  Batch* batch = task.prepared.get();
  if (batch == nullptr || batch->id != read.batch) return;  // dropped since
  if (!event.status.ok()) return ReadFailed(task, event.status);
  --batch->reads_pending;
  BatchTime::SessionRead& of = batch->time->session_reads[read.index];
  const spec::StoreSpec& store = spec_.stores[of.store];
  const std::string_view key = batch->keys[of.key_index].bytes;
  // No batch is out while one with sessions is prepared: the layers are those it will be sent with.
  MergedPage page = MergeScan(read.request, event.page, task.overlays.Layers(TaskOverlays::View::kAll));
  for (auto& [row, value] : page.rows) {
    const std::optional<RowParts> parts = ParseRowKey(store, row);
    if (!parts || parts->key != key) continue;  // a longer key that begins alike
    if (parts->bounds.end < of.low) return;
    of.found.emplace_back(parts->bounds, std::move(value));
  }
  if (page.cursor) ReadSessions(task, *batch, read.index, std::move(page.cursor));
}

// ---------------------------------------------------------------- before sending

// Everything is read, and nothing will change before the batch is out: sessions, what is late, what is gone.
void EngineImpl::FinishTime(Task& task, Batch& batch) {
  BatchTime& time = *batch.time;
  if (has_sessions_) PlanSessions(batch);
  uint32_t windowed = prefetch_.windowed;
  for (size_t i = 0; i < batch.items.size(); ++i) {
    BatchTime::OfItem& of = time.items[i];
    const Item& item = batch.items[i];
    if (item.due != nullptr && item.due->what == DueItem::What::kClosing) {
      const auto row = time.row_index[item.due->store].find(item.due->row_key);
      of.silent = !RowValue(task.overlays, time.rows[row->second]).has_value();
    } else if (item.due == nullptr && windowed != 0 && HasKey(batch, i)) {
      of.silent = of.late == windowed && spec_.late_policy != spec::LatePolicy::kProcess;
    }
    if (!of.silent) time.sent.push_back(static_cast<uint32_t>(i));
  }
  for (BatchTime::Row& row : time.rows) row.exists = RowValue(task.overlays, row).has_value();
  time.finished = true;
}

void EngineImpl::PlanSessions(Batch& batch) {
  BatchTime& time = *batch.time;
  // Per store and key what there is, by start.
  std::map<std::pair<uint32_t, int32_t>, std::vector<Bounds>> sessions;
  for (BatchTime::SessionRead& read : time.session_reads) {
    std::vector<Bounds>& known = sessions[{read.store, read.key_index}];
    for (auto found = read.found.rbegin(); found != read.found.rend(); ++found) {
      if (!known.empty() && found->first.start <= known.back().start) continue;  // reached from both stretches
      known.push_back(found->first);
      const spec::StoreSpec& store = spec_.stores[read.store];
      IndexRow(store, read.store, read.key_index, found->first, &batch);  // one that closes is there already
      const Bytes row_key = RowKey(store, batch.keys[read.key_index].bytes, found->first);
      time.rows[time.row_index[read.store].find(row_key)->second].disk = std::move(found->second);
    }
  }
  for (size_t i = 0; i < batch.items.size(); ++i) {
    if (batch.items[i].due != nullptr || !HasKey(batch, i)) continue;
    BatchTime::OfItem& of = time.items[i];
    for (uint32_t store = 0; store < spec_.ManifestStores(); ++store) {
      const spec::StoreSpec& spec = spec_.stores[store];
      if (!spec.session) continue;
      std::vector<Bounds>& known = sessions[{store, batch.item_key[i]}];
      // Its row may still be there: it must not matter when it is deleted.
      std::erase_if(known, [&](const Bounds& bounds) { return ExpiresAt(spec, bounds) <= of.time; });
      SessionStep step = Join(*spec.session, known, batch.items[i].record.timestamp_ms);
      // One that was given, or is about to be, stays as it is. Who reaches it is behind stream time by more than grace.
      const bool keeps = spec.session->final && options_.mutation != EngineOptions::Mutation::kGiven;
      const bool over = keeps && std::any_of(step.merged.begin(), step.merged.end(),
                                             [&](const Bounds& of_it) { return ClosesAt(spec, of_it) <= of.time; });
      if (over || ClosesAt(spec, step.bounds) <= of.time) {
        of.late |= uint32_t{1} << store;
        continue;
      }
      protocol::ItemWindow window{store, step.bounds.start, step.bounds.end, true, {}};
      for (const Bounds& merged : step.merged) window.merged.emplace_back(merged.start, merged.end);
      of.windows.push_back(std::move(window));
      Replace(step, &known);
    }
  }
}

// ---------------------------------------------------------------- effects

// What the first `done` items did to event time: stream time, what was due, rows of windows and their ends.
void EngineImpl::SettleTime(Task& task, Batch& batch, const protocol::Result& result, size_t done) {
  const int64_t before = task.time->clock.time();
  bool due = false;
  for (size_t i = 0; i < done; ++i) {
    const Item& item = batch.items[i];
    const BatchTime::OfItem& of = batch.time->items[i];
    if (item.due != nullptr) {
      due = true;
    } else if (of.ahead) {
      metrics_.ahead->Add();
    } else {
      task.time->clock.Advance(item.input, item.record.timestamp_ms);
    }
    if (of.late != 0) Late(task, item, of);
  }
  StageClock(task);
  if (has_sessions_) StageSessions(task, batch, done);
  for (size_t i = 0; i < done; ++i) {
    if (batch.items[i].due == nullptr) break;  // they lead
    const bool last = i + 1 == done || batch.items[i + 1].due == nullptr;
    if (batch.items[i].due->what == DueItem::What::kVisit && !last) {
      PassVisited(task, batch.items[i]);
    } else {
      SettleDue(task, batch.items[i]);
    }
  }
  StageTimers(task, batch, result.timers);
  StageVisits(task, result.visits, batch.items[done - 1].record.timestamp_ms);
  StageEnds(task, batch, result.ops, before);
  if (due) task.time->trace = task.time->single = false;
  task.time->ForgetDue();  // found before this batch changed timers; looked for again
}

void EngineImpl::Late(Task& task, const Item& item, const BatchTime::OfItem& of) {
  metrics_.late->Add(__builtin_popcount(of.late));
  if (!of.silent || spec_.late_policy != spec::LatePolicy::kDeadLetter) return;
  Attempts::Entry entry;
  entry.last = {"Late", "RecordLate",
                StrCat("its windows had closed: stream time was ", of.time, " ms, the record's ",
                       item.record.timestamp_ms, " ms"),
                false};
  pipeline_.AddRecord(now_, DeadLetter(options_, task.id, item, entry), item.bytes());
  ++totals_.dead_letters;
  metrics_.dead_letters->Add();
}

// Windows that were written to for the first time get the row by which they end.
void EngineImpl::StageEnds(Task& task, const Batch& batch, const protocol::StateOps& ops, int64_t before) {
  for (const auto& [store, of_store] : ops) {
    const spec::StoreSpec& spec = spec_.stores[store];
    if (spec.type == spec::StoreType::kKeyValue) continue;
    for (const protocol::StateOp& op : of_store) {
      const auto row = batch.time->row_index[store].find(op.key);
      if (row != batch.time->row_index[store].end() && batch.time->rows[row->second].exists) continue;
      const OverlayValue* now = task.overlays.Find(store, op.key, BytesHash()(op.key));
      if (now == nullptr || now->deleted) continue;  // merged since, or expired
      StageEnd(task, store, op.key, ParseRowKey(spec, op.key)->bounds, before);
    }
  }
}

// Sessions of the items done: the rows that were merged go, the one that is left has a value, if only an empty one.
void EngineImpl::StageSessions(Task& task, const Batch& batch, size_t done) {
  std::map<std::pair<uint32_t, Bytes>, std::pair<Bounds, int64_t>> live;  // by store and row, with the record's time
  for (size_t i = 0; i < done; ++i) {
    const BatchTime::OfItem& of = batch.time->items[i];
    if (of.silent) continue;
    const std::string_view key = HasKey(batch, i) ? batch.keys[batch.item_key[i]].bytes : std::string_view();
    const int64_t timestamp = batch.items[i].record.timestamp_ms;
    for (const protocol::ItemWindow& window : of.windows) {
      if (!window.session) continue;
      const spec::StoreSpec& store = spec_.stores[window.store];
      const Bounds bounds{window.start_ms, window.end_ms};
      for (const auto& [start, end] : window.merged) {
        const Bounds merged{start, end};
        if (merged == bounds) continue;
        const Bytes row_key = RowKey(store, key, merged);
        live.erase({window.store, row_key});
        StageRow(task, window.store, row_key, std::nullopt, timestamp);
        const auto row = batch.time->row_index[window.store].find(row_key);
        if (row == batch.time->row_index[window.store].end()) continue;  // of this batch: it has no end yet
        // It was open: if it is to be given, that is still to come.
        StageRow(task, internal_store_,
                 store.final() ? WindowEndRow(ClosesAt(store, merged), WindowEnd::kClose, store.name, row_key)
                               : WindowEndRow(ExpiresAt(store, merged), WindowEnd::kExpire, store.name, row_key),
                 std::nullopt);
      }
      live[{window.store, RowKey(store, key, bounds)}] = {bounds, timestamp};
    }
  }
  for (const auto& [row, of] : live) {
    const auto& [store, row_key] = row;
    const auto known = batch.time->row_index[store].find(row_key);
    const bool existed = known != batch.time->row_index[store].end() && batch.time->rows[known->second].exists;
    const OverlayValue* now = task.overlays.Find(store, row_key, BytesHash()(row_key));
    const bool written = now != nullptr && !now->deleted;
    if (existed && (now == nullptr || written)) continue;
    if (!written) StageRow(task, store, row_key, Bytes(), of.second);
    StageEnd(task, store, row_key, of.first, kNoTime);
  }
}

}  // namespace millstream::engine
