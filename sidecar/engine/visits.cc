// Visits: walks over all rows of a store of a task, a page at a time as ordinary items of its batches. Which are under
// way and how far they are is in rows of the internal store, nowhere else. See docs/design/0006-visit.md.
#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "sidecar/engine/engine_impl.h"
#include "sidecar/engine/scan_merge.h"

namespace millstream::engine {
namespace {

constexpr size_t kVisitPageBytes = 1 << 20;
// Two rows for each of 32 visits (the schema's bound), with keys and data as large as they may be, fit a page; what is
// beyond it is left from earlier manifests.
constexpr size_t kMostVisitRows = 256;
constexpr size_t kMostVisitBytes = 64 << 20;

}  // namespace

bool EngineImpl::VisitPending(const Task& task) const { return !spec_.visits.empty() && task.time->visits; }

// ---------------------------------------------------------------- finding rows

// Reads which visits are under way. Like all looks for what leads a batch: while nothing of the task is out.
void EngineImpl::LookForVisits(Task& task) {
  task.time->looking = true;
  store::ScanRequest request;
  request.store = internal_store_;
  auto [from, to] = VisitRange();
  request.from = std::move(from);
  request.to = std::move(to);
  request.max_rows = kMostVisitRows;
  request.max_bytes = kMostVisitBytes;
  const ReadId id = StartRead(task, VisitsRead{task.time->look, request, task.overlays.TakePin()});
  Do(ScanRange{id, task.id, std::move(request)});
}

// The first one, by name, that is not paused goes on.
void EngineImpl::OnVisitsRead(Task& task, const VisitsRead& read, RangeScanned event) {
  if (!task.time || read.look != task.time->look) return;  // forgotten since
  task.time->looking = false;
  if (!event.status.ok()) return ReadFailed(task, event.status);
  const MergedPage page = MergeScan(read.request, event.page, task.overlays.Layers(TaskOverlays::View::kAll));
  std::vector<std::pair<uint32_t, const Bytes*>> running;  // visit, value
  for (const auto& [row, value] : page.rows) {
    const VisitName of = ParseVisitRow(row);
    const auto known = std::find_if(spec_.visits.begin(), spec_.visits.end(),
                                    [&](const spec::VisitSpec& visit) { return visit.name == of.name; });
    if (known == spec_.visits.end()) {  // of a manifest of earlier times
      StageOffsets(task);
      StageRow(task, internal_store_, row, std::nullopt);
      continue;
    }
    const auto visit = static_cast<uint32_t>(known - spec_.visits.begin());
    if (!of.paused) {
      running.emplace_back(visit, &value);
    } else {
      std::erase_if(running, [visit](const auto& entry) { return entry.first == visit; });
    }
  }
  if (page.cursor) return;  // filled with rows that were dropped just now: looked at again
  if (running.empty()) {
    task.time->visits = false;
    return;
  }
  std::optional<VisitProgress> progress = ParseVisitValue(*running.front().second);
  if (!progress) {
    return ReadFailed(task, absl::DataLossError("the position of a visit cannot be read; was it written by a newer "
                                                "version?"));
  }
  std::optional<Bytes> after = progress->after;
  auto run = std::make_shared<const VisitProgress>(*std::move(progress));
  ReadVisited(task, running.front().first, std::move(run), std::move(after));
}

// The next rows: half a batch of them at most, so that records are handled beside them.
void EngineImpl::ReadVisited(Task& task, uint32_t visit, std::shared_ptr<const VisitProgress> run,
                             std::optional<Bytes> after) {
  task.time->looking = true;
  store::ScanRequest request;
  request.store = static_cast<store::StoreIndex>(spec_.visits[visit].store);
  request.after = std::move(after);
  request.max_rows = task.time->single ? 1 : std::max<size_t>(1, static_cast<size_t>(spec_.batch.max_records) / 2);
  request.max_bytes = kVisitPageBytes;
  const ReadId id =
      StartRead(task, VisitedRead{task.time->look, visit, std::move(run), request, task.overlays.TakePin()});
  Do(ScanRange{id, task.id, std::move(request)});
}

void EngineImpl::OnVisitedRead(Task& task, const VisitedRead& read, RangeScanned event) {
  if (!task.time || read.look != task.time->look) return;  // forgotten since
  task.time->looking = false;
  if (!event.status.ok()) return ReadFailed(task, event.status);
  const store::StoreIndex store = read.request.store;
  const Expiry expiry = expiry_.has(store) ? expiry_.At(store, task.time->clock.time()) : Expiry();
  MergedPage page = MergeScan(read.request, event.page, task.overlays.Layers(TaskOverlays::View::kAll), expiry);
  if (page.rows.empty() && page.cursor) return ReadVisited(task, read.visit, read.run, std::move(page.cursor));
  if (page.rows.empty()) return TakeVisited(task, read, std::nullopt);
  for (auto& [key, value] : page.rows) TakeVisited(task, read, std::move(key));
}

// `key` nullopt: there are no more, the visit is over.
void EngineImpl::TakeVisited(Task& task, const VisitedRead& read, std::optional<Bytes> key) {
  auto what = std::make_shared<DueItem>();
  what->what = DueItem::What::kVisit;
  what->visit = read.visit;
  what->store = static_cast<uint32_t>(spec_.visits[read.visit].store);
  what->run = read.run;
  what->time = read.run->started_ms;
  // A name has no zero byte: what begins with it and one is of this visit alone.
  what->row = VisitRow(spec_.visits[read.visit].name) + '\0';
  if (key) what->row.append(1, 'k').append(*key);
  Item item;
  item.record.timestamp_ms = read.run->started_ms;
  item.record.key = std::move(key);
  item.due = std::move(what);
  task.time->due.push_back(std::move(item));
}

// ---------------------------------------------------------------- effects

// The visit goes on behind the row. Or it is over.
void EngineImpl::StageVisited(Task& task, const Item& item) {
  const std::string& name = spec_.visits[item.due->visit].name;
  if (item.record.key) {
    StageRow(task, internal_store_, VisitRow(name),
             VisitValue({item.due->run->started_ms, *item.record.key, item.due->run->data}));
  } else {
    StageRow(task, internal_store_, VisitRow(name), std::nullopt);
  }
}

// One of several rows that are done: the last of them has the position.
void EngineImpl::PassVisited(Task& task, const Item& item) {
  task.attempts.Done(*item.due);
  metrics_.rows_visited->Add();
}

// Single writes, whatever there was before; behind the position of the rows of the same batch. `time_ms`: of the item
// that made them.
void EngineImpl::StageVisits(Task& task, const std::vector<protocol::VisitOp>& ops, int64_t time_ms) {
  using What = protocol::VisitOp::What;
  for (const protocol::VisitOp& op : ops) {
    const std::string& name = spec_.visits[op.visit].name;
    const bool start = op.what == What::kStart;
    if (start || op.what == What::kStop) {
      VisitProgress progress;
      progress.started_ms = time_ms;
      if (op.data) progress.data.emplace(*op.data);
      const Bytes value = VisitValue(progress);
      StageRow(task, internal_store_, VisitRow(name),
               start ? std::optional<std::string_view>(value) : std::optional<std::string_view>());
      task.attempts.ForgetDue(VisitRow(name) + '\0');
    }
    if (op.what == What::kPause) {
      StageRow(task, internal_store_, VisitPausedRow(name), Bytes());
    } else {
      StageRow(task, internal_store_, VisitPausedRow(name), std::nullopt);
    }
    task.time->visits = true;
  }
}

}  // namespace millstream::engine
