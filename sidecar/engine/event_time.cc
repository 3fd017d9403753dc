#include "sidecar/engine/event_time.h"

#include <algorithm>

#include "common/base/bytes.h"
#include "common/base/status.h"

namespace millstream::engine {
namespace {

constexpr char kClockFormat = 1;

}  // namespace

int64_t AddTime(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return b > 0 ? kEndOfTime : kNoTime;
}

int64_t SubtractTime(int64_t a, int64_t b) {
  int64_t difference = 0;
  if (!__builtin_sub_overflow(a, b, &difference)) return difference;
  return b > 0 ? kNoTime : kEndOfTime;
}

StreamClock::StreamClock(const spec::StreamProcessorSpec& spec) {
  for (const spec::InputSpec& input : spec.inputs)
    inputs_.push_back({kNoTime, absl::ToInt64Milliseconds(input.lateness), false});
}

void StreamClock::Advance(size_t input, int64_t timestamp_ms) {
  Input& of = inputs_[input];
  of.idle = false;
  of.highest = std::max(of.highest, timestamp_ms);
  Update();
}

void StreamClock::SetIdle(size_t input) {
  inputs_[input].idle = true;
  Update();
}

void StreamClock::Update() {
  int64_t lowest = kEndOfTime;
  bool any = false;
  for (const Input& input : inputs_) {
    if (input.idle) continue;
    any = true;
    lowest = std::min(lowest, input.highest == kNoTime ? kNoTime : SubtractTime(input.highest, input.lateness));
  }
  if (any) time_ = std::max(time_, lowest);
}

// Format 1: the byte 1, the task's time, then per input the length of its name (4 bytes), its name, its highest.
std::string StreamClock::Encode(const spec::StreamProcessorSpec& spec) const {
  MS_CHECK(spec.inputs.size() == inputs_.size());
  std::string out(1, kClockFormat);
  AppendBigEndian64(static_cast<uint64_t>(time_), &out);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    AppendBigEndian32(static_cast<uint32_t>(spec.inputs[i].name.size()), &out);
    out += spec.inputs[i].name;
    AppendBigEndian64(static_cast<uint64_t>(inputs_[i].highest), &out);
  }
  return out;
}

bool StreamClock::Decode(std::string_view value, const spec::StreamProcessorSpec& spec) {
  if (value.size() < 9 || value[0] != kClockFormat) return false;
  time_ = static_cast<int64_t>(ReadBigEndian64(value.substr(1)));
  value.remove_prefix(9);
  while (!value.empty()) {
    if (value.size() < 4) return false;
    const size_t size = ReadBigEndian32(value);
    value.remove_prefix(4);
    if (value.size() < 8 || value.size() - 8 < size) return false;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (spec.inputs[i].name == value.substr(0, size))
        inputs_[i].highest = static_cast<int64_t>(ReadBigEndian64(value.substr(size)));
    }
    value.remove_prefix(size + 8);
  }
  return true;
}

}  // namespace millstream::engine
