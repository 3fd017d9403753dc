#include "sidecar/store/cached_values.h"

#include <algorithm>

namespace millstream::store {
namespace {

// Hashes keys [begin, end) and asks for the memory they lead to.
template <typename KeyOf>
void Prepare(const ValueCache& cache, size_t begin, size_t end, const KeyOf& key_of,
             std::vector<ValueCache::Key>* keys) {
  keys->clear();
  for (size_t i = begin; i < end; ++i) cache.PrefetchSlot(keys->emplace_back(key_of(i)));
  for (const ValueCache::Key& key : *keys) cache.PrefetchEntry(key);
}

}  // namespace

CachedValues::CachedValues(StateEnvironment::Impl* environment, size_t families)
    : environment_(environment), families_(families) {
  Forget();
}

void CachedValues::Forget() {
  first_space_ = environment_->next_cache_space.fetch_add(static_cast<uint32_t>(families_));
}

std::optional<CachedValues::Moment> CachedValues::Now() const {
  const uint64_t changes = changes_.load();
  return changes % 2 == 0 ? std::optional<Moment>(changes) : std::nullopt;
}

std::vector<uint32_t> CachedValues::Find(size_t family, absl::Span<const std::string_view> keys,
                                         std::vector<MaybeBytes>* values) const {
  std::vector<uint32_t> missing;
  const uint32_t space = SpaceOf(family);
  std::vector<ValueCache::Key> prepared;
  for (size_t begin = 0; begin < keys.size(); begin += kAtATime) {
    const size_t end = std::min(keys.size(), begin + kAtATime);
    absl::MutexLock lock(&environment_->values_mutex);
    ValueCache& cache = environment_->values;
    Prepare(
        cache, begin, end, [&](size_t i) { return ValueCache::Key(space, keys[i]); }, &prepared);
    for (size_t i = begin; i < end; ++i) {
      if (const auto found = cache.Find(prepared[i - begin])) {
        (*values)[i].emplace(*found);
      } else {
        missing.push_back(static_cast<uint32_t>(i));
      }
    }
  }
  return missing;
}

void CachedValues::Fill(Moment moment, size_t family, absl::Span<const std::string_view> keys,
                        absl::Span<const MaybeBytes> values) const {
  const uint32_t space = SpaceOf(family);
  std::vector<ValueCache::Key> prepared;
  for (size_t begin = 0; begin < keys.size(); begin += kAtATime) {
    const size_t end = std::min(keys.size(), begin + kAtATime);
    absl::MutexLock lock(&environment_->values_mutex);
    // A change that begins now puts its rows over these, because it needs the lock for that.
    if (!Still(moment)) return;
    ValueCache& cache = environment_->values;
    Prepare(
        cache, begin, end, [&](size_t i) { return ValueCache::Key(space, keys[i]); }, &prepared);
    for (size_t i = begin; i < end; ++i) {
      if (values[i].has_value()) cache.Put(prepared[i - begin], *values[i]);
    }
  }
}

void CachedValues::Put(absl::Span<const Row> rows) {
  std::vector<ValueCache::Key> prepared;
  for (size_t begin = 0; begin < rows.size(); begin += kAtATime) {
    const size_t end = std::min(rows.size(), begin + kAtATime);
    absl::MutexLock lock(&environment_->values_mutex);
    ValueCache& cache = environment_->values;
    Prepare(
        cache, begin, end, [&](size_t i) { return ValueCache::Key(SpaceOf(rows[i].family), rows[i].key); }, &prepared);
    for (size_t i = begin; i < end; ++i) {
      if (rows[i].value.has_value()) {
        cache.Put(prepared[i - begin], *rows[i].value);
      } else {
        cache.Erase(prepared[i - begin]);
      }
    }
  }
}

}  // namespace millstream::store
