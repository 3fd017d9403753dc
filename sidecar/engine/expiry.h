#ifndef MILLSTREAM_SIDECAR_ENGINE_EXPIRY_H_
#define MILLSTREAM_SIDECAR_ENGINE_EXPIRY_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "common/base/bytes.h"
#include "common/spec/stream_processor.h"
#include "sidecar/engine/event_time.h"
#include "sidecar/store/task_store.h"

// Time to live as arithmetic (docs/design/0004-windows-timers.md). Stream time and write times are told in steps of one
// length per processor: stream time rounded down, write times up, so that a row is never hidden early. All records of a
// batch see the same step. Pure.
namespace millstream::engine {

// What is hidden in one store at one moment. The default hides nothing and is of a store whose rows have no times.
class Expiry {
 public:
  Expiry() = default;
  Expiry(int64_t ttl_ms, int64_t step_ms, int64_t stream_time) : ttl_(ttl_ms), step_(step_ms), now_(stream_time) {}

  // Whether rows on disk begin with their time (store/timed_value.h).
  bool timed() const { return ttl_ > 0; }
  // Whether a row written then is hidden.
  bool Hides(int64_t written_ms) const;
  // What a row as it lies on disk is worth: its value, without the time in front; nullopt: hidden. Points into `row`.
  std::optional<std::string_view> Visible(std::string_view row) const;
  // The same in place, for what a read gave.
  void Settle(MaybeBytes* row) const;

 private:
  int64_t ttl_ = 0, step_ = 1;
  int64_t now_ = kNoTime;
};

// The stores with `ttl` of one processor. A value, made once.
class ExpiryRules {
 public:
  // `steps`: how many make up the shortest ttl. A step is at least a millisecond.
  ExpiryRules(const spec::StreamProcessorSpec& spec, int steps);

  bool any() const { return step_ > 0; }
  bool has(store::StoreIndex store) const { return store < ttls_.size() && ttls_[store] > 0; }
  Expiry At(store::StoreIndex store, int64_t stream_time) const;

  // The step that a stream time, a write time is in. Equal ones hide alike, are hidden alike.
  int64_t StepOf(int64_t stream_time) const;
  int64_t StepWritten(int64_t written_ms) const;
  // Where the step of a stream time ends: the first time that is behind it.
  int64_t StepEnd(int64_t stream_time) const { return AddTime(StepOf(stream_time), step_); }
  // Whether a write of that time is hidden in some store as soon as it is made.
  bool HiddenAtOnce(int64_t written_ms, int64_t stream_time) const;
  // How far stream time goes between two walks that delete what is hidden: a tenth of the shortest ttl.
  int64_t sweep_every_ms() const { return sweep_every_; }

 private:
  std::vector<int64_t> ttls_;  // by store; 0: none
  int64_t shortest_ = 0;
  int64_t step_ = 0;  // 0: no store has a ttl
  int64_t sweep_every_ = 0;
};

}  // namespace millstream::engine

#endif  // MILLSTREAM_SIDECAR_ENGINE_EXPIRY_H_
