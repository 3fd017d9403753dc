#include "sidecar/engine/record_queue.h"

#include <utility>

namespace millstream::engine {

int64_t Item::bytes() const {
  int64_t sum = sizeof(Item) + (record.key ? record.key->size() : 0) + (record.value ? record.value->size() : 0);
  for (const Header& header : record.headers)
    sum += sizeof(Header) + header.name.size() + (header.value ? header.value->size() : 0);
  return sum;
}

void RecordQueue::Append(uint32_t input, std::vector<log::Record> records, Offset from, Offset next) {
  if (records.empty()) return;
  Lane& lane = LaneOf(input);
  Chunk chunk;
  chunk.items.reserve(records.size());
  int64_t bytes = 0;
  for (log::Record& record : records) {
    const Offset behind = record.offset.Next();
    chunk.items.push_back({input, std::exchange(from, behind), behind, std::move(record), nullptr});
    bytes += chunk.items.back().bytes();
  }
  chunk.items.back().next = next;
  size_ += chunk.items.size();
  bytes_ += bytes;
  lane.bytes += bytes;
  lane.chunks.push_back(std::move(chunk));
}

void RecordQueue::PutBack(std::vector<Item> items) {
  if (lanes_.size() == 1) return PutBack(lanes_[0], std::move(items));
  std::vector<std::vector<Item>> by_lane(lanes_.size());
  for (Item& item : items) {
    std::vector<Item>& lane = by_lane[item.input];
    lane.push_back(std::move(item));
  }
  for (size_t lane = 0; lane < lanes_.size(); ++lane) PutBack(lanes_[lane], std::move(by_lane[lane]));
}

void RecordQueue::PutBack(Lane& lane, std::vector<Item> items) {
  if (items.empty()) return;
  int64_t bytes = 0;
  for (const Item& item : items) bytes += item.bytes();
  bytes_ += bytes;
  lane.bytes += bytes;
  size_ += items.size();
  lane.chunks.push_front({std::move(items), 0});
}

void RecordQueue::Clear() {
  for (Lane& lane : lanes_) lane = Lane();
  size_ = 0;
  bytes_ = 0;
}

// As many as there are inputs: a few.
size_t RecordQueue::FrontLane() const {
  if (lanes_.size() == 1) return 0;
  size_t best = lanes_.size();
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    if (lanes_[lane].empty()) continue;
    if (best == lanes_.size() || lanes_[lane].front().record.timestamp_ms < lanes_[best].front().record.timestamp_ms)
      best = lane;
  }
  return best;
}

Item RecordQueue::Pop(Lane& lane) {
  Chunk& chunk = lane.chunks.front();
  Item item = std::move(chunk.items[chunk.first++]);
  const int64_t bytes = item.bytes();
  bytes_ -= bytes;
  lane.bytes -= bytes;
  --size_;
  if (chunk.first == chunk.items.size()) lane.chunks.pop_front();
  return item;
}

}  // namespace millstream::engine
