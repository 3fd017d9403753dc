#ifndef MILLSTREAM_SIDECAR_ENGINE_TASK_H_
#define MILLSTREAM_SIDECAR_ENGINE_TASK_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "sidecar/engine/attempts.h"
#include "sidecar/engine/batch.h"
#include "sidecar/engine/engine.h"
#include "sidecar/engine/event_time.h"
#include "sidecar/engine/internal_rows.h"
#include "sidecar/engine/record_queue.h"
#include "sidecar/engine/task_overlays.h"

namespace millstream::engine {

// One input of a task. Positions are "next" offsets: committed <= staged <= queued <= fetched.
struct TaskInput {
  Offset committed = kNoOffset;  // in the group; kNoOffset: nothing yet
  std::string metadata;          // of `committed`
  Offset staged = kNoOffset;     // with what joined transactions whose outcome is not known
  Offset queued = kNoOffset;     // behind the last record read
  Offset fetched = kNoOffset;    // behind what was read, control records included
  Offset end = kNoOffset;        // of the partition, as far as known
  uint64_t fetch = 0;            // number of the last start or seek; 0: not started
  bool paused = false;
  // mergeBy Timestamp: when a record of it came last, when anything was heard of it last, whether it is read to its
  // end.
  absl::Duration last_arrival = -absl::InfiniteDuration(), heard = -absl::InfiniteDuration();
  bool at_end = false;
  // Records before these may have crashed a worker: sent with the trace flag / one at a time.
  Offset trace_until = kNoOffset, single_until = kNoOffset;
  absl::Duration last_record{};  // when it brought something, for telling that it is idle
};

// Event time of a task, and what it makes due. Only of processors that keep it.
struct TaskTime {
  StreamClock clock;      // with everything staged
  StreamClock committed;  // what an abort goes back to
  StreamClock stored;     // as last staged in the internal store
  bool loaded = false;    // from the internal store, after opening

  // Nothing of the feed is due before this time (kNoTime: not known, look), and no row of it that is pending sorts
  // before this one. Many rows have one time, and those that were taken lie before it.
  std::array<int64_t, kDueFeeds> floor = {kNoTime, kNoTime, kNoTime};
  std::array<Bytes, kDueFeeds> first;  // empty: not known
  bool looking = false;                // a read of due rows is under way
  uint64_t look = 0;                   // its number: answers of earlier ones do not count
  std::deque<Item> due;                // found, to be sent before any record; all of one feed, or of one visit
  bool visits = true;                  // one may be under way: look
  uint64_t claims_committed = 0;  // AtMostOnce: the last transaction; what it or one before has claimed may be sent
  // As TaskInput::trace_until and single_until.
  bool trace = false, single = false;

  // The walk that deletes what `ttl` hides.
  struct Sweep {
    std::optional<store::StoreIndex> store;  // where it is; nullopt: none is under way
    std::optional<Bytes> after;              // behind this key of it; nullopt: at its beginning
    bool reading = false;
    int64_t begun = kNoTime;                          // stream time, of the last one
    absl::Duration next = -absl::InfiniteDuration();  // the next page is not before
  };
  Sweep sweep;

  // A row of the feed is pending.
  void Pending(DueFeed feed, int64_t time, std::string_view row) {
    const auto i = static_cast<size_t>(feed);
    floor[i] = std::min(floor[i], time);
    if (row < first[i]) first[i] = row;
  }
  // What is claimed stays: it is pending nowhere else.
  void ForgetDue() {
    std::erase_if(due, [](const Item& item) { return item.due->claim == 0; });
  }
  void Forget() {
    ForgetDue();
    floor.fill(kNoTime);
    first.fill(Bytes());
    looking = false;
    visits = true;
    sweep = Sweep();  // what it deleted may have been rolled back
    ++look;
  }
};

// Of a task whose state is in a database of the worker's (external.cc).
struct TaskExternal {
  bool loaded = false;  // its worker has told its checkpoint, and nothing was undone since
  uint64_t fence = 0;   // as its worker has set it then
  int failures = 0;     // of its database, since something was stored
  // The fence of the last LOAD, kept when the task is opened again. If the next one is one higher, nobody else was
  // there since: the offsets that were read in between are not older than the checkpoint.
  std::optional<uint64_t> last_fence;
};

// A task and everything about it, from TaskAssigned to TaskReleased. A struct: its rules are in the engine.
struct Task {
  // `readables`: stores, joins and lookups; only stores ever have anything in overlays.
  // `lanes`: of its queue.
  Task(TaskId of, size_t input_count, size_t readables, size_t lanes)
      : id(of), inputs(input_count), queue(lanes), overlays(readables) {}

  enum class Phase : uint8_t {
    kOpening,   // OpenTask is under way
    kFailed,    // it failed; tried again at `retry_at`, or when a person says so
    kStarting,  // open; its start offsets are being committed
    kRunning,
    kStopped,  // open, but nothing is sent: a record that cannot be handled, an input that cannot be read
    kClosing,  // CloseTask is under way
  };
  // Why it is given up; it may still be open for a while.
  enum class Leaving : uint8_t {
    kNo,
    kRevoked,  // what is in flight is finished, then it is released
    kLost,     // what is in flight is void; it is closed and opened again
  };

  const TaskId id;
  Phase phase = Phase::kOpening;
  Leaving leaving = Leaving::kNo;
  bool release = false;     // TaskReleased is owed when it is closed
  bool reassigned = false;  // came back while it was leaving: open it again after that
  std::string error;        // why it is kFailed or kStopped
  std::optional<TaskStatus::Place> error_at;
  absl::Duration retry_at = absl::InfiniteDuration();
  int open_failures = 0;
  absl::Status failed_early;  // StateFailed came while it was being opened

  Epoch epoch;
  std::vector<TaskInput> inputs;
  RecordQueue queue;
  std::unique_ptr<Batch> prepared, in_flight;
  Attempts attempts;
  std::unique_ptr<TaskTime> time;                            // null: no event time is kept
  std::unique_ptr<TaskExternal> external;                    // null: its state is the sidecar's
  absl::Duration wait_until = -absl::InfiniteDuration();     // backoff after a failed record
  absl::Duration cancel_at = absl::InfiniteDuration();       // the batch in flight, when leaving
  absl::Duration end_commit_at = -absl::InfiniteDuration();  // the next R8 commit is not before
  int no_progress = 0;                                       // RESULTs in a row that did nothing
  bool state_lost = false;  // what is in memory of its state is void: close without applying it

  TaskOverlays overlays;
  store::Positions unapplied;                          // of what is committed and not being applied
  absl::Duration apply_at = absl::InfiniteDuration();  // when `unapplied` is due
  std::optional<ApplyId> apply;                        // under way, since `apply_started`
  absl::Duration apply_started{};
  store::Positions applying;
  int apply_failures = 0;
  int reads = 0;  // reads of its stores under way

  WorkerId worker = 0;  // that it is open at; 0: none
  bool waits_for_slot = false;
  uint64_t records = 0;  // committed since it was opened

  // Bookkeeping of the engine loop: what the sums over tasks hold of this one.
  bool dirty = false, busy = false;
  absl::Duration timer = absl::InfiniteDuration();
  int64_t counted_bytes = 0, counted_overlay_bytes = 0, counted_lag = 0;

  // Where its state is, is known and ready.
  bool Loaded() const { return !external || external->loaded; }
  bool open() const { return phase == Phase::kStarting || phase == Phase::kRunning || phase == Phase::kStopped; }
  // The first record of its queue that is not done; null: none is in memory, or it is something that became due.
  const Item* first_record() const {
    const Item* first = nullptr;
    if (in_flight && !in_flight->items.empty()) {
      first = &in_flight->items.front();
    } else if (prepared && !prepared->items.empty()) {
      first = &prepared->items.front();
    } else if (!queue.empty()) {
      first = &queue.front();
    }
    return first != nullptr && first->due == nullptr ? first : nullptr;
  }
  int64_t record_bytes() const {
    return queue.bytes() + (prepared ? prepared->bytes : 0) + (in_flight ? in_flight->bytes : 0);
  }
  // Nothing of it is in a transaction whose outcome is not known.
  bool settled() const {
    for (const TaskInput& input : inputs) {
      if (input.staged != input.committed) return false;
    }
    return true;
  }
};

}  // namespace millstream::engine

#endif  // MILLSTREAM_SIDECAR_ENGINE_TASK_H_
