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
  Chunk chunk;
  chunk.items.reserve(records.size());
  for (log::Record& record : records) {
    const Offset behind = record.offset.Next();
    chunk.items.push_back({input, std::exchange(from, behind), behind, std::move(record), nullptr});
    bytes_ += chunk.items.back().bytes();
  }
  chunk.items.back().next = next;
  size_ += chunk.items.size();
  chunks_.push_back(std::move(chunk));
}

void RecordQueue::PutBack(std::vector<Item> items) {
  if (items.empty()) return;
  for (const Item& item : items) bytes_ += item.bytes();
  size_ += items.size();
  chunks_.push_front({std::move(items), 0});
}

void RecordQueue::Clear() {
  chunks_.clear();
  size_ = 0;
  bytes_ = 0;
}

Item RecordQueue::PopFront() {
  Chunk& chunk = chunks_.front();
  Item item = std::move(chunk.items[chunk.first++]);
  bytes_ -= item.bytes();
  --size_;
  if (chunk.first == chunk.items.size()) chunks_.pop_front();
  return item;
}

}  // namespace millstream::engine
