#include "sidecar/store/value_cache.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include "absl/hash/hash.h"
#include "common/base/strings.h"

namespace millstream::store {
namespace {

// An entry of a short key and value takes some 40 bytes.
constexpr size_t kBytesPerSlot = 64;
// How many lookups the share of hits is taken over.
constexpr uint32_t kWindow = 4096;

template <typename T>
T* Zeroed(size_t count) {
  // Fresh from the system it is zero without being touched.
  void* memory = std::calloc(count, sizeof(T));
  if (memory == nullptr) throw std::bad_alloc();
  return static_cast<T*>(memory);
}

size_t SlotsOf(int64_t bytes) {
  return std::bit_ceil(static_cast<size_t>(std::max(bytes, ValueCache::kLeastBytes)) / kBytesPerSlot);
}

}  // namespace

ValueCache::Key::Key(uint32_t in, std::string_view key)
    : space(in), hash(static_cast<uint32_t>(absl::HashOf(in, ToAbsl(key)))), bytes(key) {}

ValueCache::ValueCache(int64_t bytes)
    : mask_(SlotsOf(bytes) - 1),
      fill_((static_cast<size_t>(std::max(bytes, kLeastBytes)) - SlotsOf(bytes) * sizeof(Slot)) / kSegment, 0),
      table_(Zeroed<Slot>(mask_ + 1)),
      memory_(Zeroed<char>(fill_.size() * kSegment)) {
  fill_[0] = 1;
}

size_t ValueCache::SlotOf(const Key& key) const {
  for (size_t slot = key.hash & mask_;; slot = (slot + 1) & mask_) {
    const Slot& at = table_.get()[slot];
    if (at.place == 0) return slot;
    if (at.hash != key.hash) continue;
    Entry* entry = At(at.place);
    if (entry->space == key.space && entry->key_size == key.bytes.size() &&
        std::memcmp(KeyOf(entry), key.bytes.data(), key.bytes.size()) == 0) {
      return slot;
    }
  }
}

size_t ValueCache::SlotOf(const Entry& entry, uint32_t place) const {
  size_t slot = entry.hash & mask_;
  while (table_.get()[slot].place != place) slot = (slot + 1) & mask_;
  return slot;
}

void ValueCache::Free(size_t slot) {
  Slot* const table = table_.get();
  At(table[slot].place)->live = false;
  --entries_;
  // Linear probing without gravestones (Knuth, 6.4, algorithm R): later ones of the run move up into the hole unless
  // that would put them before their own place.
  size_t hole = slot;
  for (size_t next = (hole + 1) & mask_; table[next].place != 0; next = (next + 1) & mask_) {
    const size_t home = table[next].hash & mask_;
    if (((next - home) & mask_) < ((next - hole) & mask_)) continue;
    table[hole] = table[next];
    hole = next;
  }
  table[hole] = Slot{};
}

std::optional<std::string_view> ValueCache::Find(const Key& key) {
  const uint32_t place = table_.get()[SlotOf(key)].place;
  if (++asked_ == kWindow) {
    admit_every_ = answered_ >= kWindow / 2 ? 1 : answered_ >= kWindow / 4 ? 2 : 8;
    asked_ = answered_ = 0;
  }
  if (place == 0) return std::nullopt;
  ++answered_;
  Entry* entry = At(place);
  if (!entry->found) entry->found = true;
  return std::string_view(ValueOf(entry), entry->value_size);
}

void ValueCache::Erase(const Key& key) {
  const size_t slot = SlotOf(key);
  if (table_.get()[slot].place != 0) Free(slot);
}

void ValueCache::Put(const Key& key, std::string_view value) {
  const size_t slot = SlotOf(key);
  const size_t units = Units(key.bytes.size(), value.size());
  if (const uint32_t place = table_.get()[slot].place; place != 0) {
    Entry* entry = At(place);
    if (units <= entry->units) {
      entry->value_size = static_cast<uint16_t>(value.size());
      std::memcpy(ValueOf(entry), value.data(), value.size());
      return;
    }
    Free(slot);
  }
  if (key.bytes.size() + value.size() > kLargestEntry || !Admit()) return;
  const uint32_t place = Reserve(units);
  Entry* entry = At(place);
  *entry = {.space = key.space,
            .hash = key.hash,
            .units = static_cast<uint16_t>(units),
            .key_size = static_cast<uint16_t>(key.bytes.size()),
            .value_size = static_cast<uint16_t>(value.size()),
            .live = true,
            .found = false};
  std::memcpy(KeyOf(entry), key.bytes.data(), key.bytes.size());
  std::memcpy(ValueOf(entry), value.data(), value.size());
  table_.get()[SlotOf(key)] = {key.hash, place};  // looked for again: Reserve moves slots
  ++entries_;
}

bool ValueCache::Admit() { return !full_ || ++offered_ % admit_every_ == 0; }

uint32_t ValueCache::Reserve(size_t units) {
  while (fill_[segment_] + units > kSegment / kUnit || entries_ > mask_ / 8 * 7) Advance();
  const size_t place = segment_ * (kSegment / kUnit) + fill_[segment_];
  fill_[segment_] += static_cast<uint32_t>(units);
  return static_cast<uint32_t>(place);
}

void ValueCache::Advance() {
  segment_ = (segment_ + 1) % fill_.size();
  full_ = full_ || segment_ == 0;
  const uint32_t first = static_cast<uint32_t>(segment_ * (kSegment / kUnit));
  const uint32_t begin = segment_ == 0 ? 1 : 0;
  uint32_t kept = begin;
  uint32_t units = 0;
  for (uint32_t at = begin; at < fill_[segment_]; at += units) {
    Entry* entry = At(first + at);
    units = entry->units;
    if (!entry->live) continue;
    const size_t slot = SlotOf(*entry, first + at);
    if (!entry->found || kept + units > kSegment / kUnit / 2) {
      Free(slot);
      continue;
    }
    entry->found = false;
    table_.get()[slot].place = first + kept;
    std::memmove(static_cast<void*>(At(first + kept)), entry, units * kUnit);
    kept += units;
  }
  fill_[segment_] = kept;
}

}  // namespace millstream::store
