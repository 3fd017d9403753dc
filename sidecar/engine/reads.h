#ifndef MILLSTREAM_SIDECAR_ENGINE_READS_H_
#define MILLSTREAM_SIDECAR_ENGINE_READS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "sidecar/engine/internal_rows.h"
#include "sidecar/engine/io.h"
#include "sidecar/engine/task_overlays.h"

namespace millstream::engine {

// Why a read of state was asked for, and what its answer needs.

// Values for the keys of a prepared batch: answer `index` of Batch::reads. The batch may be gone by then.
struct BatchRead {
  uint64_t batch = 0;
  size_t index = 0;
};
// GET of a batch: `values` has what memory knew; slots[i] is where disk value i belongs.
struct GetRead {
  WorkerId worker = 0;
  uint64_t seq = 0, rid = 0;
  store::StoreIndex store = 0;
  std::vector<MaybeBytes> values;
  std::vector<size_t> slots;
};
// SCAN of a batch.
struct ScanRead {
  WorkerId worker = 0;
  uint64_t seq = 0, rid = 0;
  store::ScanRequest request;
  TaskOverlays::Pin pin = 0;
};
// Stream time of a task that was opened.
struct ClockRead {};
// What is due in a task.
struct DueRead {
  DueFeed feed = DueFeed::kEventTimers;
  uint64_t look = 0;  // TaskTime::look
  store::ScanRequest request;
  TaskOverlays::Pin pin = 0;
};
// A page of the walk that deletes what `ttl` hides.
struct SweepRead {
  uint64_t look = 0;  // TaskTime::look
  store::ScanRequest request;
  TaskOverlays::Pin pin = 0;
};
// Which visits are under way.
struct VisitsRead {
  uint64_t look = 0;  // TaskTime::look
  store::ScanRequest request;
  TaskOverlays::Pin pin = 0;
};
// The next rows of one.
struct VisitedRead {
  uint64_t look = 0;  // TaskTime::look
  uint32_t visit = 0;
  std::shared_ptr<const VisitProgress> run;
  store::ScanRequest request;
  TaskOverlays::Pin pin = 0;
};
// Rows of windows of a prepared batch: answer `index` of BatchTime::row_reads.
struct RowsRead {
  uint64_t batch = 0;
  size_t index = 0;
};
// Sessions of a key of a prepared batch: answer `index` of BatchTime::session_reads.
struct SessionsRead {
  uint64_t batch = 0;
  size_t index = 0;
  store::ScanRequest request;
};
// What the timers of a RESULT replace.
struct TimersRead {
  uint64_t batch = 0;
};
struct KeyQueryRead {
  QueryId query = 0;
  store::StoreIndex store = 0;
};
struct RangeQueryRead {
  QueryId query = 0;
  store::ScanRequest request;
  TaskOverlays::Pin pin = 0;
};

struct Read {
  using Purpose = std::variant<BatchRead, GetRead, ScanRead, ClockRead, DueRead, SweepRead, VisitsRead, VisitedRead,
                               RowsRead, SessionsRead, TimersRead, KeyQueryRead, RangeQueryRead>;
  TaskId task;
  Purpose purpose;
};

// The reads under way. Each belongs to a task that stays open until it is answered.
class Reads {
 public:
  ReadId Add(Read read) {
    reads_.emplace(next_, std::move(read));
    return next_++;
  }
  // nullopt: no such read.
  std::optional<Read> Take(ReadId id) {
    auto it = reads_.find(id);
    if (it == reads_.end()) return std::nullopt;
    Read read = std::move(it->second);
    reads_.erase(it);
    return read;
  }

 private:
  absl::flat_hash_map<ReadId, Read> reads_;
  ReadId next_ = 1;
};

}  // namespace millstream::engine

#endif  // MILLSTREAM_SIDECAR_ENGINE_READS_H_
