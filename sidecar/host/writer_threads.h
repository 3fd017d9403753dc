#ifndef MILLSTREAM_SIDECAR_HOST_WRITER_THREADS_H_
#define MILLSTREAM_SIDECAR_HOST_WRITER_THREADS_H_

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/log/log.h"
#include "sidecar/host/event_sink.h"

namespace millstream::host {

struct WriterThreadsOptions {
  std::string transactional_id_a, transactional_id_b;
  absl::Duration transaction_timeout = absl::Seconds(15);
  absl::Duration call_deadline = absl::Seconds(30);  // given to the log
  // A call that takes so long all the same is abandoned with its thread and its writer. Above call_deadline.
  absl::Duration abandon_after = absl::Seconds(40);
};

// One thread per writer, because a writer's calls block. Calls of one writer are carried out and answered
// (WriterCallDone) in order. An abandoned call is answered with an unknown outcome, the calls behind it and up to the
// next kCreate with "recreate"; its thread is never joined and lets its writer go when the call comes back. While two
// of them are stuck no new writer is made: kCreate waits (engine.md, R6).
class WriterThreads {
 public:
  static constexpr int kMaxAbandoned = 2;

  // All pointers outlive it; `log` and `sink` also every abandoned thread (see stuck()).
  WriterThreads(const WriterThreadsOptions& options, log::Log* log, const Clock* clock, EventSink* sink);
  ~WriterThreads();

  // These two on the engine's thread.
  void Call(engine::WriterCall call);
  void CheckDeadlines();

  // Threads abandoned and still inside their call. Any thread.
  int stuck() const { return stuck_->load(); }
  // Ends the threads after the calls they are in; those that do not end within `wait` are abandoned. Then, with stuck()
  // > 0, the log must not be destroyed: end the process without. Idempotent.
  void Stop(absl::Duration wait);

 private:
  class Lane;

  void Abandon(size_t writer);
  void Refuse(const engine::WriterCall& call);

  const WriterThreadsOptions options_;
  log::Log* const log_;
  const Clock* const clock_;
  EventSink* const sink_;
  std::array<std::shared_ptr<Lane>, 3> lanes_;  // by WriterName; nullptr: abandoned or never made
  std::vector<engine::WriterCall> waiting_;     // kCreate held back
  const std::shared_ptr<std::atomic<int>> stuck_ = std::make_shared<std::atomic<int>>(0);
};

}  // namespace millstream::host

#endif  // MILLSTREAM_SIDECAR_HOST_WRITER_THREADS_H_
