#include "sidecar/engine/overlay.h"

#include <cstring>

namespace millstream::engine {

void Overlay::Put(store::StoreIndex store, std::string_view key, std::optional<std::string_view> value,
                  int64_t timestamp_ms) {
  Store& into = stores_[store];
  auto it = into.map.find(key);
  if (it == into.map.end()) {
    std::string_view owned = arena_.Copy(key);
    it = into.map.try_emplace(owned).first;
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
  for (size_t store = 0; store < stores_.size(); ++store) {
    const Map& map = newer.stores_[store].map;
    stores_[store].map.reserve(stores_[store].map.size() + map.size() / 4);
    for (const auto& [key, value] : map) {
      Put(static_cast<store::StoreIndex>(store), key, value.maybe(), value.timestamp_ms);
    }
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
