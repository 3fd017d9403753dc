#ifndef MILLSTREAM_SIDECAR_STORE_CACHED_VALUES_H_
#define MILLSTREAM_SIDECAR_STORE_CACHED_VALUES_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "common/base/bytes.h"
#include "sidecar/store/state_environment_impl.h"

// Internal to sidecar/store.
namespace millstream::store {

// The values of one task's database in the process's ValueCache, and the rule that makes them as good as the
// database's own: a read sees a change in whole or not at all.
//
//   read:   moment = Now(); Find; the rest from the database; Still(moment)? Fill with it : all again from the database
//   change: Begin; write to the database; Put or Erase each row; End
//
// Thread-safe; one change at a time.
class CachedValues {
 public:
  using Moment = uint64_t;
  // `environment` outlives it.
  CachedValues(StateEnvironment::Impl* environment, size_t families);

  // nullopt while a change is under way: the database alone knows then.
  std::optional<Moment> Now() const;
  bool Still(Moment moment) const { return changes_.load() == moment; }
  // Fills in values[i] of those keys that are known; returns the numbers of the others.
  std::vector<uint32_t> Find(size_t family, absl::Span<const std::string_view> keys,
                             std::vector<MaybeBytes>* values) const;
  // What the database gave at `moment`; ignored if that is over.
  void Fill(Moment moment, size_t family, absl::Span<const std::string_view> keys,
            absl::Span<const MaybeBytes> values) const;

  struct Row {
    size_t family;
    std::string_view key;
    std::optional<std::string_view> value;
  };
  void Begin() { ++changes_; }
  void Put(absl::Span<const Row> rows);
  void End() { ++changes_; }
  // Inside a change: nothing is known from here on.
  void Forget();

 private:
  // Keys handled under one lock, and prefetched together.
  static constexpr size_t kAtATime = 64;
  uint32_t SpaceOf(size_t family) const { return first_space_.load() + static_cast<uint32_t>(family); }

  StateEnvironment::Impl* const environment_;
  const size_t families_;
  std::atomic<uint32_t> first_space_;  // of the cache, for family 0
  std::atomic<uint64_t> changes_{0};   // odd: one is under way
};

}  // namespace millstream::store

#endif  // MILLSTREAM_SIDECAR_STORE_CACHED_VALUES_H_
