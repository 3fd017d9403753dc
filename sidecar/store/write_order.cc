#include "sidecar/store/write_order.h"

#include <algorithm>
#include <cstddef>

namespace millstream::store {

std::vector<uint32_t> OrderOf(absl::Span<const StoreWrite> writes) {
  // What all keys begin with says nothing. The eight bytes after it settle most comparisons without a look at the keys,
  // which lie all over the memory.
  size_t common = writes.empty() ? 0 : writes.front().key.size();
  for (const StoreWrite& write : writes) {
    const auto [end, unused] = std::mismatch(write.key.begin(), write.key.begin() + std::min(common, write.key.size()),
                                             writes.front().key.begin());
    common = static_cast<size_t>(end - write.key.begin());
  }
  struct Place {
    uint32_t store, index;
    uint64_t head;
  };
  std::vector<Place> places;
  places.reserve(writes.size());
  for (uint32_t i = 0; i < writes.size(); ++i) {
    char head[8] = {};
    writes[i].key.copy(head, sizeof(head), common);
    places.push_back({writes[i].store, i, ReadBigEndian64({head, sizeof(head)})});
  }
  std::sort(places.begin(), places.end(), [&](const Place& a, const Place& b) {
    if (a.store != b.store) return a.store < b.store;
    if (a.head != b.head) return a.head < b.head;
    const int order = writes[a.index].key.compare(writes[b.index].key);
    return order != 0 ? order < 0 : a.index < b.index;
  });
  std::vector<uint32_t> order;
  order.reserve(places.size());
  for (const Place& place : places) order.push_back(place.index);
  return order;
}

}  // namespace millstream::store
