#include "common/log/embedded/partition.h"

#include <algorithm>
#include <tuple>

namespace millstream::log::embedded {
namespace {

bool Earlier(const AbortedTransaction& a, const AbortedTransaction& b) {
  return std::tie(a.producer_id, a.last) < std::tie(b.producer_id, b.last);
}

}  // namespace

bool AbortedIndex::Covers(int64_t producer_id, int64_t offset) const {
  if (entries_.empty()) return false;
  const auto it =
      std::lower_bound(entries_.begin(), entries_.end(), AbortedTransaction{producer_id, 0, offset}, Earlier);
  return it != entries_.end() && it->producer_id == producer_id && it->first <= offset;
}

std::shared_ptr<const AbortedIndex> AbortedIndex::With(const AbortedTransaction& added) const {
  auto index = std::make_shared<AbortedIndex>(*this);
  index->entries_.insert(std::lower_bound(index->entries_.begin(), index->entries_.end(), added, Earlier), added);
  return index;
}

std::shared_ptr<const AbortedIndex> AbortedIndex::From(int64_t offset) const {
  auto index = std::make_shared<AbortedIndex>();
  for (const AbortedTransaction& entry : entries_) {
    if (entry.last >= offset) index->entries_.push_back(entry);
  }
  return index;
}

std::vector<AbortedTransaction> AbortedIndex::Before(int64_t offset) const {
  std::vector<AbortedTransaction> before;
  for (const AbortedTransaction& entry : entries_) {
    if (entry.last < offset) before.push_back(entry);
  }
  return before;
}

int64_t PartitionState::LastStable() const {
  int64_t stable = high_watermark;
  for (const OpenTransaction& transaction : open) stable = std::min(stable, transaction.first);
  return stable;
}

size_t PartitionState::RefOf(int64_t offset) const {
  const auto after = std::upper_bound(refs.begin(), refs.end(), offset,
                                      [](int64_t wanted, const SegmentRef& ref) { return wanted < ref.first_offset; });
  return after == refs.begin() ? 0 : after - refs.begin() - 1;
}

int64_t PartitionState::LiveBytes() const {
  int64_t bytes = 0;
  for (const SegmentRef& ref : refs) bytes += ref.bytes - ref.dead;
  return bytes;
}

}  // namespace millstream::log::embedded
