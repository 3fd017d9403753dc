#ifndef MILLSTREAM_SIDECAR_ENGINE_RECORD_QUEUE_H_
#define MILLSTREAM_SIDECAR_ENGINE_RECORD_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/log/record.h"
#include "sidecar/engine/internal_rows.h"
#include "sidecar/engine/windows.h"
#include "sidecar/protocol/messages.h"

namespace millstream::engine {

// What an item is when it is no record: something that became due, or a row that is visited. Its key is the record's;
// the end of a visit has none.
struct DueItem {
  enum class What : uint8_t { kTimer, kClosing, kVisit };
  What what = What::kTimer;
  Bytes row;         // its identity: in the internal store, except of a visit
  int64_t time = 0;  // of a visit: when it was started
  // AtMostOnce: the transaction by which it is not pending any more. 0: it is.
  uint64_t claim = 0;
  // kTimer.
  protocol::TimerClock clock = protocol::TimerClock::kEventTime;
  std::string name;
  // kClosing; kVisit: the store that is visited.
  uint32_t store = 0;
  Bounds bounds;
  Bytes row_key;  // of the window
  // kVisit.
  uint32_t visit = 0;
  std::shared_ptr<const VisitProgress> run = {};  // as it was when the page was read
};

// One record, or one thing that became due, on its way through a task.
struct Item {
  uint32_t input = 0;
  Offset from;         // `next` of the record before it: records are done without gaps
  Offset next;         // position once it is done: behind it, and behind control records known to follow
  log::Record record;  // of a due item: key and timestamp
  std::shared_ptr<const DueItem> due = {};  // null: a record

  // What it takes in memory, about.
  int64_t bytes() const;
};

// The records of one task that were read and not sent to a worker. Per input in order of offset. With one lane all of
// them are in order of arrival; with one lane per input the one with the lowest timestamp is in front, of equal ones
// that of the first input.
class RecordQueue {
 public:
  explicit RecordQueue(size_t lanes = 1) : lanes_(lanes) {}

  // Behind everything. They lie between the positions `from` and `next`.
  void Append(uint32_t input, std::vector<log::Record> records, Offset from, Offset next);
  // Before everything of their inputs, in order.
  void PutBack(std::vector<Item> items);
  void Clear();
  // Drops everything of a lane from the first record on that is not to be kept.
  template <typename Keep>
  void Truncate(Keep keep);

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  int64_t bytes() const { return bytes_; }
  const Item& front() const { return lanes_[FrontLane()].front(); }
  // Precondition: not empty.
  Item PopFront() { return Pop(lanes_[FrontLane()]); }

  size_t lanes() const { return lanes_.size(); }
  // Of the lane of an input; with one lane, of all.
  bool LaneEmpty(uint32_t input) const { return LaneOf(input).empty(); }
  int64_t LaneBytes(uint32_t input) const { return LaneOf(input).bytes; }

 private:
  struct Chunk {
    std::vector<Item> items;
    size_t first = 0;
  };
  struct Lane {
    std::deque<Chunk> chunks;
    int64_t bytes = 0;
    bool empty() const { return chunks.empty(); }
    const Item& front() const { return chunks.front().items[chunks.front().first]; }
  };

  const Lane& LaneOf(uint32_t input) const { return lanes_[lanes_.size() == 1 ? 0 : input]; }
  Lane& LaneOf(uint32_t input) { return lanes_[lanes_.size() == 1 ? 0 : input]; }
  size_t FrontLane() const;
  Item Pop(Lane& lane);
  void PutBack(Lane& lane, std::vector<Item> items);

  std::vector<Lane> lanes_;
  size_t size_ = 0;
  int64_t bytes_ = 0;
};

template <typename Keep>
void RecordQueue::Truncate(Keep keep) {
  for (Lane& lane : lanes_) {
    std::vector<Item> kept;
    while (!lane.empty() && keep(lane.front())) kept.push_back(Pop(lane));
    while (!lane.empty()) Pop(lane);
    PutBack(lane, std::move(kept));
  }
}

}  // namespace millstream::engine

#endif  // MILLSTREAM_SIDECAR_ENGINE_RECORD_QUEUE_H_
