// Time to live: what stores with `ttl` hide from whom, which records may share a batch, and the walk that deletes what
// is hidden. See docs/design/0004-windows-timers.md.
#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "sidecar/engine/engine_impl.h"
#include "sidecar/engine/scan_merge.h"

namespace millstream::engine {
namespace {

constexpr size_t kSweepRows = 1000;
constexpr size_t kSweepPageBytes = 1 << 20;
// Between two pages of one task: a walk over many rows leaves the disk to others.
constexpr absl::Duration kSweepPause = absl::Milliseconds(20);

}  // namespace

// What a batch sees: all its items are in one step of stream time.
Expiry EngineImpl::ExpiryFor(const Task& task, const Batch& batch, store::StoreIndex store) const {
  if (!expiry_.has(store)) return {};
  const bool items = batch.time && !batch.time->items.empty();
  return expiry_.At(store, items ? batch.time->items.front().time : task.time->clock.time());
}

// What is seen from outside: as of the last commit.
Expiry EngineImpl::ExpiryOutside(const Task& task, store::StoreIndex store) const {
  return expiry_.has(store) ? expiry_.At(store, task.time->committed.time()) : Expiry();
}

// The time of what is written by an item that is handled at `stream_time`: the record's; where something was due, that
// of the step in which it is handled. Nothing is written for the far future: it would never be forgotten.
int64_t EngineImpl::WriteTime(const Item& item, int64_t stream_time) const {
  if (item.due != nullptr && stream_time != kNoTime) return expiry_.StepEnd(stream_time);
  if (options_.mutation == EngineOptions::Mutation::kTtlTimes) return stream_time;
  const int64_t latest = AddTime(clock_->WallMillis(), absl::ToInt64Milliseconds(spec_.max_ahead));
  return std::min(item.record.timestamp_ms, latest);
}

// Whether the batch may have this item too: what is hidden must not depend on where batches are cut. The worker knows
// values as of the batch's step, its own writes for as long as the batch lasts, and of a key that several items write
// it does not say which one did.
bool EngineImpl::SharesStep(const Batch& batch, const Item& item) const {
  if (options_.mutation == EngineOptions::Mutation::kTtlSteps) return true;
  const BatchTime& time = *batch.time;
  StreamClock clock = time.clock;
  if (item.due == nullptr && !Ahead(item.record.timestamp_ms)) clock.Advance(item.input, item.record.timestamp_ms);
  if (expiry_.StepOf(clock.time()) != expiry_.StepOf(time.items.front().time)) return false;
  if (expiry_.HiddenAtOnce(WriteTime(batch.items.back(), time.items.back().time), clock.time())) return false;
  if (!item.record.key) return true;
  const auto known = batch.key_index.find(*item.record.key);
  return known == batch.key_index.end() || expiry_.StepWritten(batch.keys[known->second].timestamp_ms) ==
                                               expiry_.StepWritten(WriteTime(item, clock.time()));
}

// ---------------------------------------------------------------- the walk

// Begins a walk over the stores with `ttl`, or goes on with it by a page. It may run beside a batch: what is hidden now
// is hidden from every batch that is out or to come, and what a batch writes again lies over the tombstone.
void EngineImpl::Sweep(Task& task) {
  if (!expiry_.any() || !task.time || !task.time->loaded || task.leaving != Task::Leaving::kNo) return;
  TaskTime::Sweep& sweep = task.time->sweep;
  if (sweep.reading || pipeline_.recovering() || overlay_pressure_ || paused_ || now_ < sweep.next) return;
  if (!sweep.store) {
    const int64_t step = expiry_.StepOf(task.time->clock.time());
    if (step == kNoTime) return;
    if (sweep.begun != kNoTime && SubtractTime(step, sweep.begun) < expiry_.sweep_every_ms()) return;
    sweep.begun = step;
    sweep.store = NextToSweep(0);
  }
  if (pipeline_.Full()) {
    blocked_ = true;
    return;
  }
  sweep.reading = true;
  store::ScanRequest request;
  request.store = *sweep.store;
  request.after = sweep.after;
  request.max_rows = kSweepRows;
  request.max_bytes = kSweepPageBytes;
  const ReadId id = StartRead(task, SweepRead{task.time->look, request, task.overlays.TakePin()});
  Do(ScanRange{id, task.id, std::move(request)});
}

// The first store with `ttl` from this one on; nullopt: there is none.
std::optional<store::StoreIndex> EngineImpl::NextToSweep(store::StoreIndex from) const {
  for (store::StoreIndex store = from; store < spec_.ManifestStores(); ++store) {
    if (expiry_.has(store)) return store;
  }
  return std::nullopt;
}

void EngineImpl::OnSweepRead(Task& task, const SweepRead& read, RangeScanned event) {
  if (!task.time || read.look != task.time->look) return;  // given up since
  TaskTime::Sweep& sweep = task.time->sweep;
  sweep.reading = false;
  if (!event.status.ok()) return ReadFailed(task, event.status);
  const Expiry expiry = expiry_.At(read.request.store, task.time->clock.time());
  MergedPage page = MergeScan(read.request, event.page, task.overlays.Layers(TaskOverlays::View::kAll), expiry);
  if (!page.hidden.empty()) {
    StageOffsets(task);
    for (const Bytes& key : page.hidden) StageRow(task, read.request.store, key, std::nullopt);
    metrics_.rows_expired->Add(static_cast<double>(page.hidden.size()));
  }
  sweep.next = now_ + kSweepPause;
  if (!page.cursor) sweep.store = NextToSweep(read.request.store + 1);
  sweep.after = std::move(page.cursor);
}

}  // namespace millstream::engine
