#include "sidecar/engine/scan_merge.h"

#include <string_view>

namespace millstream::engine {
namespace {

// The part of the key space that this page speaks about.
struct ScanBounds {
  std::optional<std::string_view> low, high;  // [low, high)
  bool low_exclusive = false;                 // behind the cursor of a forward scan
  bool high_inclusive = false;                // up to the disk's last key, where the disk has more
};

ScanBounds BoundsOf(const store::ScanRequest& request, const store::ScanPage& disk) {
  ScanBounds bounds;
  if (request.from) bounds.low = *request.from;
  if (request.to) bounds.high = *request.to;
  if (!request.reverse) {
    if (request.after && (!bounds.low || *request.after >= *bounds.low)) {
      bounds.low = *request.after;
      bounds.low_exclusive = true;
    }
    if (disk.more) {
      bounds.high = disk.rows.back().first;
      bounds.high_inclusive = true;
    }
  } else {
    if (request.after && (!bounds.high || *request.after < *bounds.high)) bounds.high = *request.after;
    if (disk.more) bounds.low = disk.rows.back().first;
  }
  return bounds;
}

// Walks the keys of one layer within the bounds, in the direction of the scan.
class LayerCursor {
 public:
  LayerCursor(Overlay* layer, store::StoreIndex store, const ScanBounds& bounds, bool reverse)
      : map_(&layer->map(store)), reverse_(reverse) {
    const auto& sorted = layer->Sorted(store);
    begin_ = !bounds.low            ? sorted.begin()
             : bounds.low_exclusive ? sorted.upper_bound(*bounds.low)
                                    : sorted.lower_bound(*bounds.low);
    end_ = !bounds.high            ? sorted.end()
           : bounds.high_inclusive ? sorted.upper_bound(*bounds.high)
                                   : sorted.lower_bound(*bounds.high);
    if (bounds.low && bounds.high && *bounds.low >= *bounds.high && !(bounds.high_inclusive && !bounds.low_exclusive))
      end_ = begin_;
  }
  bool valid() const { return begin_ != end_; }
  std::string_view key() const {
    auto it = end_;
    return reverse_ ? *--it : *begin_;
  }
  const OverlayValue& value() const { return map_->find(key())->second; }
  void Next() {
    if (reverse_) {
      --end_;
    } else {
      ++begin_;
    }
  }

 private:
  const Overlay::Map* map_;
  bool reverse_;
  absl::btree_set<std::string_view>::const_iterator begin_, end_;
};

// Fills a page row by row until it is full.
class PageBuilder {
 public:
  PageBuilder(const store::ScanRequest& request, MergedPage* page) : request_(request), page_(page) {}
  // False: the page was full before this row, and the cursor is set.
  bool Add(std::string_view key, std::string_view value) {
    const size_t size = key.size() + value.size();
    if (!page_->rows.empty() && (page_->rows.size() >= request_.max_rows || bytes_ + size > request_.max_bytes)) {
      page_->cursor = page_->rows.back().first;
      return false;
    }
    bytes_ += size;
    page_->rows.emplace_back(key, value);
    return true;
  }

 private:
  const store::ScanRequest& request_;
  MergedPage* page_;
  size_t bytes_ = 0;
};

}  // namespace

MergedPage MergeScan(const store::ScanRequest& request, const store::ScanPage& disk,
                     const std::vector<Overlay*>& layers, const Expiry& expiry) {
  const ScanBounds bounds = BoundsOf(request, disk);
  std::vector<LayerCursor> cursors;
  for (Overlay* layer : layers) {
    if (!layer->map(request.store).empty()) cursors.emplace_back(layer, request.store, bounds, request.reverse);
  }
  MergedPage page;
  PageBuilder builder(request, &page);
  size_t row = 0;
  while (true) {
    std::optional<std::string_view> next;
    auto nearer = [&](std::string_view key) { return !next || (request.reverse ? key > *next : key < *next); };
    if (row < disk.rows.size()) next = disk.rows[row].first;
    for (const LayerCursor& cursor : cursors) {
      if (cursor.valid() && nearer(cursor.key())) next = cursor.key();
    }
    if (!next) break;
    std::optional<std::string_view> value;
    bool decided = false, hidden = false;
    for (LayerCursor& cursor : cursors) {  // newest first
      if (!cursor.valid() || cursor.key() != *next) continue;
      if (!decided) {
        value = cursor.value().maybe();
        hidden = value && expiry.Hides(cursor.value().timestamp_ms);
      }
      decided = true;
      cursor.Next();
    }
    if (row < disk.rows.size() && disk.rows[row].first == *next) {
      if (!decided) {
        value = expiry.Visible(disk.rows[row].second);
        hidden = !value;
      }
      ++row;
    }
    if (hidden) {
      page.hidden.emplace_back(*next);
    } else if (value && !builder.Add(*next, *value)) {
      return page;
    }
  }
  if (disk.more) page.cursor = disk.rows.back().first;
  return page;
}

}  // namespace millstream::engine
