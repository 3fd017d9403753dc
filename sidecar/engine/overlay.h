#ifndef MILLSTREAM_SIDECAR_ENGINE_OVERLAY_H_
#define MILLSTREAM_SIDECAR_ENGINE_OVERLAY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/container/btree_set.h"
#include "sidecar/engine/arena.h"
#include "sidecar/engine/bytes_map.h"
#include "sidecar/store/task_store.h"

namespace millstream::engine {

// A value over the disk's: what a key was last set to.
struct OverlayValue {
  const char* data = nullptr;
  uint32_t size = 0;
  uint32_t capacity = 0;  // bytes at data: a later value that fits is written over it
  int64_t timestamp_ms = 0;
  bool deleted = false;

  std::string_view view() const { return {data, size}; }
  std::optional<std::string_view> maybe() const { return deleted ? std::nullopt : std::optional(view()); }
};

// Writes to the stores of one task, the last one of each key, that are not on disk yet. Owns copies of keys and values.
// Not thread-safe. Views into it are void after the next Put or MergeFrom.
class Overlay {
 public:
  using Map = BytesMap<OverlayValue>;

  explicit Overlay(size_t stores) : stores_(stores) {}

  void Put(store::StoreIndex store, const HashedBytes& key, std::optional<std::string_view> value,
           int64_t timestamp_ms);
  void Put(store::StoreIndex store, std::string_view key, std::optional<std::string_view> value, int64_t timestamp_ms) {
    Put(store, HashedBytes(key), value, timestamp_ms);
  }
  // nullptr: nothing is known of that key here. `hash` is BytesHash of the key.
  const OverlayValue* Find(store::StoreIndex store, std::string_view key, size_t hash) const {
    const Map& map = stores_[store].map;
    if (map.empty()) return nullptr;
    auto it = map.find(key, hash);
    return it == map.end() ? nullptr : &it->second;
  }
  // Asks the processor for the memory that Find or Put of the key will look at first.
  void Prefetch(store::StoreIndex store, const HashedBytes& key) const {
    if (const Map& map = stores_[store].map; !map.empty()) map.prefetch(key);
  }
  // Puts everything of `newer` over this.
  void MergeFrom(const Overlay& newer);

  const Map& map(store::StoreIndex store) const { return stores_[store].map; }
  size_t stores() const { return stores_.size(); }
  // The keys of a store in byte order. The first call sorts them, and the order is kept up from then on: only stores
  // that are scanned pay for it.
  const absl::btree_set<std::string_view>& Sorted(store::StoreIndex store);

  bool empty() const { return entries_ == 0; }
  int64_t entries() const { return entries_; }
  // Memory held, about.
  int64_t bytes() const { return arena_.bytes() + entries_ * kEntryBytes; }

 private:
  static constexpr int64_t kEntryBytes = 64;  // slot of the map and its load factor
  struct Store {
    Map map;
    std::unique_ptr<absl::btree_set<std::string_view>> sorted;
  };

  Arena arena_;
  std::vector<Store> stores_;
  int64_t entries_ = 0;
};

}  // namespace millstream::engine

#endif  // MILLSTREAM_SIDECAR_ENGINE_OVERLAY_H_
