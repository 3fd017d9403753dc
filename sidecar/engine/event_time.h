#ifndef MILLSTREAM_SIDECAR_ENGINE_EVENT_TIME_H_
#define MILLSTREAM_SIDECAR_ENGINE_EVENT_TIME_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "common/spec/stream_processor.h"

namespace millstream::engine {

// Times that are not known, and sums that do not fit: milliseconds since 1970 over the whole range of int64_t.
inline constexpr int64_t kNoTime = std::numeric_limits<int64_t>::min();
inline constexpr int64_t kEndOfTime = std::numeric_limits<int64_t>::max();
// a + b and a - b, kept within the range.
int64_t AddTime(int64_t a, int64_t b);
int64_t SubtractTime(int64_t a, int64_t b);

// How far event time has come in one task. Of an input: the highest timestamp handled minus its lateness; of the task:
// the lowest of its inputs that are not idle. It never goes back. A value: copied for what-if and for what is
// committed.
class StreamClock {
 public:
  StreamClock() = default;
  explicit StreamClock(const spec::StreamProcessorSpec& spec);

  // A record of `input` is handled. It is not idle from here on.
  void Advance(size_t input, int64_t timestamp_ms);
  // It brought nothing for a while: it does not hold the task back.
  void SetIdle(size_t input);
  bool idle(size_t input) const { return inputs_[input].idle; }
  // kNoTime before the first record counts.
  int64_t time() const { return time_; }

  // What the internal store keeps. Inputs are known by their names: others may come and go with the manifest.
  std::string Encode(const spec::StreamProcessorSpec& spec) const;
  // False: not of a format that this build knows.
  bool Decode(std::string_view value, const spec::StreamProcessorSpec& spec);

  friend bool operator==(const StreamClock&, const StreamClock&) = default;

 private:
  struct Input {
    int64_t highest = kNoTime;
    int64_t lateness = 0;
    bool idle = false;
    friend bool operator==(const Input&, const Input&) = default;
  };
  void Update();

  absl::InlinedVector<Input, 2> inputs_;
  int64_t time_ = kNoTime;
};

}  // namespace millstream::engine

#endif  // MILLSTREAM_SIDECAR_ENGINE_EVENT_TIME_H_
