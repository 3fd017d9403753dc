// What becomes due: stream time of a task, timers, ends of windows. See docs/design/0004-windows-timers.md.
#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "sidecar/engine/engine_impl.h"
#include "sidecar/engine/scan_merge.h"

namespace millstream::engine {
namespace {

constexpr size_t kDuePageBytes = 1 << 20;
constexpr absl::Duration kLongestWallWait = absl::Seconds(1);  // the wall clock may jump

}  // namespace

// ---------------------------------------------------------------- stream time

void EngineImpl::LoadClock(Task& task) {
  if (!spec_.KeepsEventTime()) return;
  task.time = std::make_unique<TaskTime>();
  task.time->clock = StreamClock(spec_);
  const ReadId id = StartRead(task, ClockRead{});
  Do(ReadKeys{id, task.id, internal_store_, {StreamTimeRow()}});
}

void EngineImpl::OnClockRead(Task& task, KeysRead event) {
  if (!event.status.ok()) return ReadFailed(task, event.status);
  TaskTime& time = *task.time;
  if (!event.values.empty() && event.values[0] && !time.clock.Decode(*event.values[0], spec_)) {
    return ReadFailed(task, absl::DataLossError("the record of stream time cannot be read; was it written by a newer "
                                                "version?"));
  }
  time.committed = time.stored = time.clock;
  time.loaded = true;
}

bool EngineImpl::Ahead(int64_t timestamp_ms) const {
  return timestamp_ms > AddTime(clock_->WallMillis(), absl::ToInt64Milliseconds(spec_.max_ahead));
}

// Stream time as of now joins the open transaction.
void EngineImpl::StageClock(Task& task) {
  TaskTime& time = *task.time;
  if (time.clock == time.stored) return;
  time.stored = time.clock;
  StageRow(task, internal_store_, StreamTimeRow(), time.clock.Encode(spec_));
}

void EngineImpl::StageRow(Task& task, store::StoreIndex store, std::string_view key,
                          std::optional<std::string_view> value, std::optional<int64_t> timestamp_ms) {
  Transaction& transaction = pipeline_.Open(now_);
  task.overlays.Stage(transaction.number).Put(store, key, value, timestamp_ms ? *timestamp_ms : clock_->WallMillis());
  transaction.bytes += static_cast<int64_t>(key.size() + (value ? value->size() : 0));
}

// An input that brought nothing for a while, with nothing of it waiting, does not hold the others back.
void EngineImpl::UpdateIdle(Task& task) {
  if (task.inputs.size() < 2 || task.prepared || task.in_flight) return;
  TaskTime& time = *task.time;
  for (size_t i = 0; i < task.inputs.size(); ++i) {
    const TaskInput& input = task.inputs[i];
    const bool waiting = input.queued != input.staged || input.paused || input.fetched < input.end;
    if (!waiting && now_ >= input.last_record + spec_.inputs[i].idle_after && !time.clock.idle(i)) {
      const int64_t before = time.clock.time();
      time.clock.SetIdle(i);
      if (time.clock.time() == before) continue;
      StageOffsets(task);
      StageClock(task);
    }
  }
}

// ---------------------------------------------------------------- finding what is due

int64_t EngineImpl::DueNow(const Task& task, DueFeed feed) const {
  return feed == DueFeed::kWallTimers ? clock_->WallMillis() : task.time->clock.time();
}

std::optional<DueFeed> EngineImpl::DuePending(const Task& task) const {
  for (size_t i = 0; i < kDueFeeds; ++i) {
    const auto feed = static_cast<DueFeed>(i);
    if (feed != DueFeed::kWindows && !spec_.timers) continue;
    const int64_t now = DueNow(task, feed);
    if (now != kNoTime && task.time->floor[i] <= now) return feed;
  }
  return std::nullopt;
}

// Looks for rows that are due, if there may be any. Never while a batch is out or holds such rows: it may change them.
void EngineImpl::LookForDue(Task& task) {
  if (!task.time || !task.time->loaded || task.time->looking || !task.time->due.empty() || task.in_flight) return;
  if (task.leaving != Task::Leaving::kNo || pipeline_.recovering() || now_ < task.wait_until || overlay_pressure_ ||
      workers_.usable() == 0 || (task.prepared && (at_most_once_ || task.prepared->HasDue()))) {
    return;
  }
  UpdateIdle(task);
  const std::optional<DueFeed> feed = DuePending(task);
  if (!feed && !VisitPending(task)) return;
  if (pipeline_.Full()) {
    blocked_ = true;
    return;
  }
  DropPrepared(task);  // what is due leads
  if (feed) return StartLook(task, *feed, std::nullopt);
  LookForVisits(task);
}

void EngineImpl::StartLook(Task& task, DueFeed feed, std::optional<Bytes> after) {
  TaskTime& time = *task.time;
  time.looking = true;
  store::ScanRequest request;
  request.store = internal_store_;
  const auto i = static_cast<size_t>(feed);
  auto [from, to] = DueRange(feed, time.floor[i]);
  request.from = std::max(std::move(from), time.first[i]);
  request.to = std::move(to);
  request.after = std::move(after);
  request.max_rows = static_cast<size_t>(spec_.batch.max_records) + 1;
  request.max_bytes = kDuePageBytes;
  const ReadId id = StartRead(task, DueRead{feed, time.look, request, task.overlays.TakePin()});
  Do(ScanRange{id, task.id, std::move(request)});
}

void EngineImpl::OnDueRead(Task& task, const DueRead& read, RangeScanned event) {
  if (!task.time || read.look != task.time->look) return;  // forgotten since
  TaskTime& time = *task.time;
  time.looking = false;
  if (!event.status.ok()) return ReadFailed(task, event.status);
  MergedPage page = MergeScan(read.request, event.page, task.overlays.Layers(TaskOverlays::View::kAll));
  if (page.rows.empty() && page.cursor) return StartLook(task, read.feed, std::move(page.cursor));
  const int64_t now = DueNow(task, read.feed);
  time.floor[static_cast<size_t>(read.feed)] = kEndOfTime;
  time.first[static_cast<size_t>(read.feed)] = *read.request.to;
  for (auto& row : page.rows) {
    const std::optional<DueRow> due = ParseDueRow(read.feed, row.first);
    if (!due) return ReadFailed(task, absl::DataLossError("a row of the internal store cannot be read"));
    if (due->time > now) {
      time.Pending(read.feed, due->time, row.first);
      break;
    }
    TakeDue(task, read.feed, row.first, *due);
    // There is more behind a page that is not the last.
    if (page.cursor && &row == &page.rows.back()) time.Pending(read.feed, due->time, row.first);
  }
  // Rows that were taken stay until they are done.
  if (!time.due.empty()) time.Pending(read.feed, time.due.front().due->time, time.due.front().due->row);
}

void EngineImpl::TakeDue(Task& task, DueFeed feed, const Bytes& row, const DueRow& due) {
  Item item;
  auto what = std::make_shared<DueItem>();
  what->row = row;
  what->time = due.time;
  if (feed != DueFeed::kWindows) {
    what->what = DueItem::What::kTimer;
    what->clock = feed == DueFeed::kEventTimers ? protocol::TimerClock::kEventTime : protocol::TimerClock::kWallClock;
    what->name = std::string(due.name);
    item.record.key.emplace(due.key);
    item.record.timestamp_ms = due.time;
  } else {
    const spec::StoreSpec* store = spec_.FindStore(due.store);
    const std::optional<RowParts> parts =
        store == nullptr || store->type == spec::StoreType::kKeyValue ? std::nullopt : ParseRowKey(*store, due.row_key);
    const auto index = static_cast<store::StoreIndex>(store == nullptr ? 0 : store - spec_.stores.data());
    const bool closes = parts && due.kind == WindowEnd::kClose;
    if (!closes || !store->final()) {  // expired, or of a manifest of earlier times
      StageOffsets(task);
      StageRow(task, internal_store_, row, std::nullopt);
      if (closes) StageEnd(task, index, due.row_key, parts->bounds, due.time);
      if (parts && !closes) StageRow(task, index, due.row_key, std::nullopt);
      return;
    }
    what->what = DueItem::What::kClosing;
    what->store = index;
    what->bounds = parts->bounds;
    what->row_key = Bytes(due.row_key);
    item.record.key.emplace(parts->key);
    // The last time that belongs to it.
    item.record.timestamp_ms = store->session ? parts->bounds.end : SubtractTime(parts->bounds.end, 1);
  }
  item.due = std::move(what);
  task.time->due.push_back(std::move(item));
}

// ---------------------------------------------------------------- effects

// The row by which a window closes or expires. `now`: stream time up to which closings are done.
void EngineImpl::StageEnd(Task& task, store::StoreIndex store, std::string_view row_key, const Bounds& bounds,
                          int64_t now) {
  const spec::StoreSpec& of = spec_.stores[store];
  const int64_t closes = ClosesAt(of, bounds);
  const bool close = of.final() && closes > now;
  const int64_t at = close ? closes : ExpiresAt(of, bounds);
  const Bytes row = WindowEndRow(at, close ? WindowEnd::kClose : WindowEnd::kExpire, of.name, row_key);
  StageRow(task, internal_store_, row, Bytes());
  task.time->Pending(DueFeed::kWindows, at, row);
}

// Something that was due is done: it is pending no more.
void EngineImpl::SettleDue(Task& task, const Item& item) {
  const DueItem& due = *item.due;
  if (due.claim == 0) StageDone(task, item);
  task.attempts.Done(due);
  switch (due.what) {
    case DueItem::What::kTimer:
      return metrics_.timers_fired->Add();
    case DueItem::What::kClosing:
      return metrics_.windows_closed->Add();
    case DueItem::What::kVisit:
      return (item.record.key ? metrics_.rows_visited : metrics_.visits_ended)->Add();
  }
}

// The rows by which it is pending go, or become those of what comes next.
void EngineImpl::StageDone(Task& task, const Item& item) {
  const DueItem& due = *item.due;
  if (due.what == DueItem::What::kVisit) return StageVisited(task, item);
  StageRow(task, internal_store_, due.row, std::nullopt);
  if (due.what == DueItem::What::kTimer)
    return StageRow(task, internal_store_, TimerByName(due.clock, *item.record.key, due.name), std::nullopt);
  // AtMostOnce: its row is still to be sent.
  if (!at_most_once_ && ExpiresAt(spec_.stores[due.store], due.bounds) <= task.time->clock.time()) {
    StageRow(task, due.store, due.row_key, std::nullopt);
  } else {
    StageEnd(task, due.store, due.row_key, due.bounds, due.time);
  }
}

// AtMostOnce: before it is sent. False: there is nothing of the kind in the batch, or it was claimed before.
bool EngineImpl::ClaimDue(Task& task, Batch& batch) {
  bool claimed = false;
  for (Item& item : batch.items) {
    if (item.due == nullptr) break;  // they lead
    if (item.due->claim != 0) continue;
    const Item* next = &item == &batch.items.back() ? nullptr : &item + 1;
    const bool more = item.due->what == DueItem::What::kVisit && next != nullptr && next->due != nullptr;
    if (!more) StageDone(task, item);  // of the rows of a visit the last one has the position
    auto due = std::make_shared<DueItem>(*item.due);
    due->claim = pipeline_.Open(now_).number;
    item.due = std::move(due);
    claimed = true;
  }
  return claimed;
}

// The time a timer has; nullopt: it is not pending.
std::optional<int64_t> EngineImpl::PendingTime(const Task& task, const Batch& batch, const Bytes& by_name) const {
  if (const OverlayValue* known = task.overlays.Find(internal_store_, by_name, BytesHash()(by_name)))
    return known->deleted ? std::nullopt : ParseTimeValue(known->view());
  MS_CHECK(batch.held != nullptr);
  for (size_t i = 0; i < batch.held->timers.size(); ++i) {
    if (batch.held->timers[i] != by_name) continue;
    return batch.held->values[i] ? ParseTimeValue(*batch.held->values[i]) : std::nullopt;
  }
  MS_CHECK(false && "asked for before");
  return std::nullopt;
}

void EngineImpl::StageTimers(Task& task, const Batch& batch, const std::vector<protocol::TimerOp>& timers) {
  for (const protocol::TimerOp& timer : timers) {
    const Bytes by_name = TimerByName(timer.clock, timer.key, timer.name);
    const std::optional<int64_t> before = PendingTime(task, batch, by_name);
    if (before == timer.time_ms) continue;
    if (before) StageRow(task, internal_store_, TimerByTime(timer.clock, *before, timer.key, timer.name), std::nullopt);
    if (!timer.time_ms) {
      StageRow(task, internal_store_, by_name, std::nullopt);
      continue;
    }
    StageRow(task, internal_store_, by_name, TimeValue(*timer.time_ms));
    const Bytes by_time = TimerByTime(timer.clock, *timer.time_ms, timer.key, timer.name);
    StageRow(task, internal_store_, by_time, Bytes());
    task.time->Pending(FeedOf(timer.clock), *timer.time_ms, by_time);
  }
}

// Setting a timer replaces the one of its name: what that is has to be known first. True: it is being read.
bool EngineImpl::HoldForTimers(Task& task, const protocol::Result& result, std::shared_ptr<const void> buffer) {
  absl::flat_hash_set<Bytes> unknown;
  for (const protocol::TimerOp& timer : result.timers) {
    Bytes row = TimerByName(timer.clock, timer.key, timer.name);
    if (task.overlays.Find(internal_store_, row, BytesHash()(row)) == nullptr) unknown.insert(std::move(row));
  }
  if (unknown.empty()) return false;
  auto held = std::make_unique<HeldResult>();
  held->result = result;
  held->buffer = std::move(buffer);
  held->pin = task.overlays.TakePin();
  held->timers.assign(unknown.begin(), unknown.end());
  std::vector<Bytes> keys = held->timers;
  task.in_flight->held = std::move(held);
  const ReadId id = StartRead(task, TimersRead{task.in_flight->id});
  Do(ReadKeys{id, task.id, internal_store_, std::move(keys)});
  return true;
}

void EngineImpl::OnTimersRead(Task& task, const TimersRead& read, KeysRead event) {
  Batch* batch = task.in_flight.get();
  if (batch == nullptr || batch->id != read.batch || !batch->held) return;  // cancelled since
  if (!event.status.ok()) return ReadFailed(task, event.status);
  MS_CHECK(event.values.size() == batch->held->timers.size());
  batch->held->values = std::move(event.values);
  const std::unique_ptr<Batch> settled = std::move(task.in_flight);
  Settle(task, *settled, settled->held->result);
  task.overlays.ReleasePin(settled->held->pin);  // what the layers knew when it was asked for is looked at
}

// When the wall clock or an idle input will change something.
std::optional<absl::Duration> EngineImpl::DueDeadline(const Task& task) const {
  if (!task.time || !task.time->loaded || task.phase != Task::Phase::kRunning) return std::nullopt;
  std::optional<absl::Duration> next;
  auto wanted = [&](absl::Duration when) {
    if (when > now_) next = next ? std::min(*next, when) : when;
  };
  const int64_t floor = task.time->floor[static_cast<size_t>(DueFeed::kWallTimers)];
  if (spec_.timers && floor != kEndOfTime) {
    const int64_t wait = SubtractTime(floor, clock_->WallMillis());
    wanted(now_ + (wait <= 0 ? kLongestWallWait : std::min(absl::Milliseconds(wait), kLongestWallWait)));
  }
  if (!task.time->sweep.reading) wanted(task.time->sweep.next);
  if (task.inputs.size() > 1) {
    for (size_t i = 0; i < task.inputs.size(); ++i) {
      if (!task.time->clock.idle(i)) wanted(task.inputs[i].last_record + spec_.inputs[i].idle_after);
    }
  }
  return next;
}

}  // namespace millstream::engine
