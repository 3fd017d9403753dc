#ifndef MILLSTREAM_SIDECAR_GROUP_BACKOFF_H_
#define MILLSTREAM_SIDECAR_GROUP_BACKOFF_H_

#include <cstdint>
#include <random>

#include "absl/time/time.h"

namespace millstream::group {

// Pauses between attempts: 50 ms, doubled with every failure up to 1 s, each a random part (four fifths or more) of it,
// so that many members do not come at once. Attempts are not counted out: a member waits for its brokers as long as it
// runs.
class Backoff {
 public:
  explicit Backoff(uint64_t seed) : random_(seed) {}
  absl::Duration Next();
  void Reset() { failures_ = 0; }

 private:
  std::mt19937_64 random_;
  int failures_ = 0;
};

}  // namespace millstream::group

#endif  // MILLSTREAM_SIDECAR_GROUP_BACKOFF_H_
