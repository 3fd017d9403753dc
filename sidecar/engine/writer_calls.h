#ifndef MILLSTREAM_SIDECAR_ENGINE_WRITER_CALLS_H_
#define MILLSTREAM_SIDECAR_ENGINE_WRITER_CALLS_H_

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "sidecar/engine/io.h"

namespace millstream::engine {

// A call given to a writer and not answered yet.
struct PendingCall {
  CallId id = 0;
  WriterCall::What what = WriterCall::What::kCreate;
  uint64_t transaction = 0;  // 0: of none
};

// The writers: which are usable, what they are busy with, when a broken one is created again (100 ms, doubled up to 5
// s).
class WriterCalls {
 public:
  // With or without the plain writer of AtLeastOnce.
  explicit WriterCalls(bool plain);

  // Creates what is not there, once it may.
  void Start() { started_ = true; }
  void Step(absl::Duration now, std::vector<Action>* actions);
  std::optional<absl::Duration> NextDeadline() const;

  // Adds the call behind those pending; fill in the rest of what is returned (valid until the next action is added).
  WriterCall& Issue(WriterName writer, WriterCall::What what, uint64_t transaction, std::vector<Action>* actions);
  CallId NextId() { return next_call_++; }
  // Takes the answer: the call it belongs to. kCreate is dealt with here.
  PendingCall Answered(absl::Duration now, const WriterCallDone& done);

  bool usable(WriterName writer) const { return At(writer).state == State::kReady; }
  bool idle(WriterName writer) const { return At(writer).pending.empty(); }
  bool BothUnusable() const { return started_ && !usable(WriterName::kA) && !usable(WriterName::kB); }
  // It must be created again before anything else.
  void Broken(WriterName writer) { At(writer).state = State::kAbsent; }

 private:
  enum class State : uint8_t { kAbsent, kCreating, kReady };
  struct Writer {
    State state = State::kAbsent;
    std::deque<PendingCall> pending;
    absl::Duration not_before = -absl::InfiniteDuration();
    int failures = 0;
  };
  Writer& At(WriterName writer) { return writers_[static_cast<size_t>(writer)]; }
  const Writer& At(WriterName writer) const { return writers_[static_cast<size_t>(writer)]; }

  std::array<Writer, 3> writers_;
  size_t count_;
  bool started_ = false;
  CallId next_call_ = 1;
};

}  // namespace millstream::engine

#endif  // MILLSTREAM_SIDECAR_ENGINE_WRITER_CALLS_H_
