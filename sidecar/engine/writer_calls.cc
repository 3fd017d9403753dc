#include "sidecar/engine/writer_calls.h"

#include <algorithm>

#include "common/base/log_line.h"
#include "common/base/status.h"
#include "sidecar/engine/attempts.h"

namespace millstream::engine {
namespace {
constexpr absl::Duration kFirstRetry = absl::Milliseconds(100);
constexpr absl::Duration kLongestRetry = absl::Seconds(5);
}  // namespace

WriterCalls::WriterCalls(bool plain) : count_(plain ? 3 : 2) {}

void WriterCalls::Step(absl::Duration now, std::vector<Action>* actions) {
  if (!started_) return;
  for (size_t i = 0; i < count_; ++i) {
    Writer& writer = writers_[i];
    if (writer.state != State::kAbsent || !writer.pending.empty() || writer.not_before > now) continue;
    writer.state = State::kCreating;
    Issue(static_cast<WriterName>(i), WriterCall::What::kCreate, 0, actions);
  }
}

std::optional<absl::Duration> WriterCalls::NextDeadline() const {
  std::optional<absl::Duration> next;
  if (!started_) return next;
  for (size_t i = 0; i < count_; ++i) {
    const Writer& writer = writers_[i];
    if (writer.state == State::kAbsent && writer.pending.empty())
      next = next ? std::min(*next, writer.not_before) : writer.not_before;
  }
  return next;
}

WriterCall& WriterCalls::Issue(WriterName writer, WriterCall::What what, uint64_t transaction,
                               std::vector<Action>* actions) {
  const CallId id = next_call_++;
  At(writer).pending.push_back({id, what, transaction});
  WriterCall call;
  call.writer = writer;
  call.call = id;
  call.what = what;
  actions->push_back(std::move(call));
  return std::get<WriterCall>(actions->back());
}

PendingCall WriterCalls::Answered(absl::Duration now, const WriterCallDone& done) {
  Writer& writer = At(done.writer);
  MS_CHECK(!writer.pending.empty() && writer.pending.front().id == done.call);
  const PendingCall call = writer.pending.front();
  writer.pending.pop_front();
  if (call.what != WriterCall::What::kCreate) return call;
  if (done.status.ok()) {
    writer.state = State::kReady;
    writer.failures = 0;
  } else {
    writer.state = State::kAbsent;
    writer.not_before = now + Backoff(kFirstRetry, kLongestRetry, ++writer.failures);
    LogWarning("creating a writer failed; trying again",
               {{"writer", static_cast<int>(done.writer)}, {"error", done.status.ToString()}});
  }
  return call;
}

}  // namespace millstream::engine
