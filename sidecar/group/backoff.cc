#include "sidecar/group/backoff.h"

#include <algorithm>

namespace millstream::group {

absl::Duration Backoff::Next() {
  constexpr int kMostDoublings = 5;
  const absl::Duration whole =
      std::min(absl::Milliseconds(50) * (1 << std::min(failures_, kMostDoublings)), absl::Seconds(1));
  ++failures_;
  return whole * (0.8 + 0.2 * std::uniform_real_distribution<double>(0, 1)(random_));
}

}  // namespace millstream::group
