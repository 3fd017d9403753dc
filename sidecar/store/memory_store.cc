#include "sidecar/store/memory_store.h"

#include <algorithm>
#include <iterator>

namespace millstream::store {
namespace {

int64_t CostOf(const Bytes& key, const Bytes& value) {
  return static_cast<int64_t>(key.size() + value.size() + 2 * sizeof(Bytes));
}

// Takes rows from [begin, end) until the page is full.
template <typename Iterator>
ScanPage TakePage(Iterator begin, Iterator end, const ScanRequest& request) {
  ScanPage page;
  size_t bytes = 0;
  for (Iterator row = begin; row != end; ++row) {
    const size_t size = row->first.size() + row->second.size();
    if (!page.rows.empty() && (page.rows.size() >= request.max_rows || bytes + size > request.max_bytes)) {
      page.more = true;
      break;
    }
    page.rows.emplace_back(row->first, row->second);
    bytes += size;
  }
  return page;
}

}  // namespace

MaybeBytes MemoryStore::Get(std::string_view key) const {
  const auto row = rows_.find(key);
  if (row == rows_.end()) return std::nullopt;
  return row->second;
}

ScanPage MemoryStore::Scan(const ScanRequest& request) const {
  auto low = request.from ? rows_.lower_bound(*request.from) : rows_.begin();
  auto high = request.to ? rows_.lower_bound(*request.to) : rows_.end();
  if (request.from && request.to && *request.to <= *request.from) return {};
  if (request.after && request.reverse) {
    if (request.from && *request.after <= *request.from) return {};
    if (!request.to || *request.after < *request.to) high = rows_.lower_bound(*request.after);
  } else if (request.after) {
    if (request.to && *request.after >= *request.to) return {};
    if (!request.from || *request.after >= *request.from) low = rows_.upper_bound(*request.after);
  }
  if (!request.reverse) return TakePage(low, high, request);
  return TakePage(std::make_reverse_iterator(high), std::make_reverse_iterator(low), request);
}

void MemoryStore::Put(const Bytes& key, const Bytes& value) {
  const auto [row, inserted] = rows_.try_emplace(key, value);
  if (!inserted) {
    bytes_ -= CostOf(key, row->second);
    row->second = value;
  }
  bytes_ += CostOf(key, value);
}

void MemoryStore::Delete(const Bytes& key) {
  const auto row = rows_.find(key);
  if (row == rows_.end()) return;
  bytes_ -= CostOf(row->first, row->second);
  rows_.erase(row);
}

void MemoryStore::Clear() {
  rows_.clear();
  bytes_ = 0;
}

}  // namespace millstream::store
