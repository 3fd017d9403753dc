#ifndef MILLSTREAM_SIDECAR_HOST_ENGINE_LOOP_H_
#define MILLSTREAM_SIDECAR_HOST_ENGINE_LOOP_H_

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "sidecar/engine/engine.h"
#include "sidecar/host/event_sink.h"

namespace millstream::host {

// Carries out what the engine wants. Called on the engine's thread: must not block.
class ActionHandler {
 public:
  virtual ~ActionHandler() = default;
  virtual void CarryOut(engine::Action action) = 0;
  // Once a second, on the engine's thread, before the engine's Tick.
  virtual void OnTick() = 0;
};

// The thread that owns an engine: feeds it the posted events in order, a Tick every second and when it asked for one,
// and hands its actions on. The queue needs no bound of its own: the engine pauses who would fill it (fetched bytes,
// one batch per task, one call per action).
class EngineLoop : public EventSink {
 public:
  // `clock` and `handler` outlive the loop. Events may be posted before Start; they wait.
  EngineLoop(std::unique_ptr<engine::Engine> engine, const Clock* clock, ActionHandler* handler);
  ~EngineLoop() override;

  void Start();
  void Post(engine::Event event) override;
  // Ends the thread after the step it is in; what is queued is dropped. Idempotent.
  void Stop();

  // Behind the engine by at most 200 ms. Never null.
  std::shared_ptr<const engine::EngineStatus> status() const;
  // Time since the last step: the loop's sign of life, since a tick is a step. Beyond kAlive it hangs.
  static constexpr absl::Duration kAlive = absl::Seconds(30);
  absl::Duration idle_for() const {
    return clock_->Monotonic() - absl::Nanoseconds(last_step_nanos_.load(std::memory_order_relaxed));
  }

 private:
  void Run();
  void Step(engine::Event event);
  void PublishStatus(absl::Duration now);

  const std::unique_ptr<engine::Engine> engine_;
  const Clock* const clock_;
  ActionHandler* const handler_;
  std::thread thread_;

  // The loop's thread only.
  std::vector<engine::Action> actions_;
  bool stale_ = true;  // the snapshot is older than the last step
  absl::Duration next_tick_, published_at_ = -absl::InfiniteDuration();

  std::atomic<int64_t> last_step_nanos_{0};
  mutable absl::Mutex mutex_;
  std::vector<engine::Event> queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  mutable absl::Mutex status_mutex_;
  std::shared_ptr<const engine::EngineStatus> status_ ABSL_GUARDED_BY(status_mutex_);
};

}  // namespace millstream::host

#endif  // MILLSTREAM_SIDECAR_HOST_ENGINE_LOOP_H_
