#ifndef MILLSTREAM_SIDECAR_STORE_VALUE_CACHE_H_
#define MILLSTREAM_SIDECAR_STORE_VALUE_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace millstream::store {

// Values of keys in front of the databases, within a fixed number of bytes: one look into a hash table instead of a
// skip list and several tables. Which values, and whether they may be believed, is the user's business
// (RocksTaskStore).
//
// Entries lie one behind the other in segments of memory, which are filled in turn. When a segment's turn comes again,
// what was found since stays (up to half of it), the rest goes (CLOCK, a segment at a time). A new value is written
// over the old one if it fits. The table over the entries is an open one with linear probing; its slots hold hash and
// place, so that asking for a key that is not there reads no entry. Memory is taken from the system as it comes into
// use.
//
// Not thread-safe: Find marks what it finds.
class ValueCache {
 public:
  // `bytes`: entries and table together; at least kLeastBytes.
  explicit ValueCache(int64_t bytes);
  ValueCache(const ValueCache&) = delete;
  ValueCache& operator=(const ValueCache&) = delete;

  static constexpr int64_t kLeastBytes = 256 << 10;
  // Key and value. Larger ones are not kept: copying them costs more than finding them.
  static constexpr size_t kLargestEntry = 8 << 10;

  // A key of one store of one task. `space` is the caller's number of that store, never used for another one.
  struct Key {
    Key(uint32_t in, std::string_view key);
    uint32_t space, hash;
    std::string_view bytes;
  };

  // Two steps towards the memory that Find or Put will look at: done for many keys first, the waits overlap.
  void PrefetchSlot(const Key& key) const { __builtin_prefetch(&table_.get()[key.hash & mask_]); }
  void PrefetchEntry(const Key& key) const {
    if (const uint32_t place = table_.get()[key.hash & mask_].place; place != 0) __builtin_prefetch(At(place));
  }

  // Void after the next change. nullopt: nothing is known of the key.
  std::optional<std::string_view> Find(const Key& key);
  void Put(const Key& key, std::string_view value);
  void Erase(const Key& key);

  int64_t bytes() const { return static_cast<int64_t>(fill_.size() * kSegment + (mask_ + 1) * sizeof(Slot)); }
  int64_t entries() const { return static_cast<int64_t>(entries_); }

 private:
  struct Slot {
    uint32_t hash;
    uint32_t place;  // of the entry, in units; 0: free
  };
  // Followed by key and value.
  struct Entry {
    uint32_t space, hash;
    uint16_t units;  // of the whole
    uint16_t key_size, value_size;
    bool live, found;
  };
  struct Deleter {
    void operator()(void* memory) const { std::free(memory); }
  };
  static constexpr size_t kUnit = 8;
  static constexpr size_t kSegment = 64 << 10;

  Entry* At(uint32_t place) const { return reinterpret_cast<Entry*>(memory_.get() + place * kUnit); }
  static char* KeyOf(Entry* entry) { return reinterpret_cast<char*>(entry + 1); }
  static char* ValueOf(Entry* entry) { return KeyOf(entry) + entry->key_size; }
  static size_t Units(size_t key_size, size_t value_size) {
    return (sizeof(Entry) + key_size + value_size + kUnit - 1) / kUnit;
  }
  // Of the key; its place is 0 if nothing is known of it.
  size_t SlotOf(const Key& key) const;
  size_t SlotOf(const Entry& entry, uint32_t place) const;
  void Free(size_t slot);
  // Room at the end of the segment being filled. May drop any entry.
  uint32_t Reserve(size_t units);
  // The next segment's turn.
  void Advance();
  // Whether a new key is worth room.
  bool Admit();

  const size_t mask_;                      // of the table
  std::vector<uint32_t> fill_;             // units used, per segment
  std::unique_ptr<Slot, Deleter> table_;   // as if it were an array
  std::unique_ptr<char, Deleter> memory_;  // the first unit is not used: place 0 means none
  size_t segment_ = 0;                     // being filled
  size_t entries_ = 0;
  bool full_ = false;  // segments are used again
  uint32_t asked_ = 0, answered_ = 0, offered_ = 0;
  uint32_t admit_every_ = 1;  // of the keys offered
};

}  // namespace millstream::store

#endif  // MILLSTREAM_SIDECAR_STORE_VALUE_CACHE_H_
