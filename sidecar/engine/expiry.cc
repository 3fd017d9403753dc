#include "sidecar/engine/expiry.h"

#include <algorithm>

#include "sidecar/store/timed_value.h"

namespace millstream::engine {
namespace {

constexpr int64_t kSweepsPerTtl = 10;

// How far `time` lies behind the multiple of `step` at or before it.
int64_t Behind(int64_t time, int64_t step) {
  const int64_t rest = time % step;
  return rest < 0 ? rest + step : rest;
}
int64_t RoundDown(int64_t time, int64_t step) {
  return time == kNoTime ? kNoTime : SubtractTime(time, Behind(time, step));
}
int64_t RoundUp(int64_t time, int64_t step) {
  const int64_t behind = Behind(time, step);
  return behind == 0 ? time : AddTime(time, step - behind);
}

}  // namespace

bool Expiry::Hides(int64_t written_ms) const {
  if (ttl_ == 0 || now_ == kNoTime) return false;
  return RoundDown(now_, step_) >= AddTime(RoundUp(written_ms, step_), ttl_);
}

std::optional<std::string_view> Expiry::Visible(std::string_view row) const {
  if (!timed()) return row;
  const store::TimedRow parts = store::ParseTimedValue(row);
  return Hides(parts.written_ms) ? std::nullopt : std::optional(parts.value);
}

void Expiry::Settle(MaybeBytes* row) const {
  if (!timed() || !row->has_value()) return;
  if (Visible(**row)) {
    (*row)->erase(0, store::kTimeBytes);
  } else {
    row->reset();
  }
}

ExpiryRules::ExpiryRules(const spec::StreamProcessorSpec& spec, int steps) {
  for (const spec::StoreSpec& store : spec.stores) {
    ttls_.push_back(store.ttl ? std::max<int64_t>(absl::ToInt64Milliseconds(*store.ttl), 1) : 0);
    if (ttls_.back() == 0) continue;
    shortest_ = shortest_ == 0 ? ttls_.back() : std::min(shortest_, ttls_.back());
  }
  if (shortest_ == 0) return;
  step_ = std::max<int64_t>(shortest_ / steps, 1);
  sweep_every_ = std::max<int64_t>(shortest_ / kSweepsPerTtl, 1);
}

Expiry ExpiryRules::At(store::StoreIndex store, int64_t stream_time) const {
  return has(store) ? Expiry(ttls_[store], step_, stream_time) : Expiry();
}

int64_t ExpiryRules::StepOf(int64_t stream_time) const { return RoundDown(stream_time, step_); }
int64_t ExpiryRules::StepWritten(int64_t written_ms) const { return RoundUp(written_ms, step_); }

bool ExpiryRules::HiddenAtOnce(int64_t written_ms, int64_t stream_time) const {
  return Expiry(shortest_, step_, stream_time).Hides(written_ms);
}

}  // namespace millstream::engine
