#include "sidecar/engine/overlay.h"

#include <cstring>
#include <utility>

namespace millstream::engine {

void Overlay::Put(store::StoreIndex store, const HashedBytes& key, std::optional<std::string_view> value,
                  int64_t timestamp_ms) {
  Store& into = stores_[store];
  auto it = into.map.find(key.bytes, key.hash);
  if (it == into.map.end()) {
    const std::string_view owned = arena_.Copy(key.bytes);
    it = into.map.try_emplace(HashedBytes(owned, key.hash)).first;
    if (into.sorted) into.sorted->insert(owned);
    ++entries_;
  }
  OverlayValue& entry = it->second;
  entry.timestamp_ms = timestamp_ms;
  entry.deleted = !value.has_value();
  entry.size = value ? static_cast<uint32_t>(value->size()) : 0;
  if (entry.size == 0) return;
  if (entry.size <= entry.capacity) {
    std::memcpy(const_cast<char*>(entry.data), value->data(), entry.size);
  } else {
    entry.data = arena_.Copy(*value).data();
    entry.capacity = entry.size;
  }
}

void Overlay::MergeFrom(const Overlay& newer) {
  // Far enough ahead for memory to answer, not so far that the answer is gone from the cache again.
  constexpr size_t kAhead = 16;
  std::vector<std::pair<HashedBytes, const OverlayValue*>> next;
  for (size_t i = 0; i < stores_.size(); ++i) {
    const auto store = static_cast<store::StoreIndex>(i);
    const Map& map = newer.stores_[i].map;
    stores_[i].map.reserve(stores_[i].map.size() + map.size() / 4);
    const auto put = [&] {
      for (const auto& [key, value] : next) Put(store, key, value->maybe(), value->timestamp_ms);
      next.clear();
    };
    for (const auto& [key, value] : map) {
      Prefetch(store, next.emplace_back(HashedBytes(key), &value).first);
      if (next.size() == kAhead) put();
    }
    put();
  }
}

const absl::btree_set<std::string_view>& Overlay::Sorted(store::StoreIndex store) {
  Store& of = stores_[store];
  if (!of.sorted) {
    of.sorted = std::make_unique<absl::btree_set<std::string_view>>();
    for (const auto& entry : of.map) of.sorted->insert(entry.first);
  }
  return *of.sorted;
}

}  // namespace millstream::engine
