#include "sidecar/host/engine_loop.h"

#include <algorithm>
#include <utility>

#include "common/base/thread_name.h"

namespace millstream::host {
namespace {
constexpr absl::Duration kTickInterval = absl::Seconds(1);
constexpr absl::Duration kStatusInterval = absl::Milliseconds(200);
}  // namespace

EngineLoop::EngineLoop(std::unique_ptr<engine::Engine> engine, const Clock* clock, ActionHandler* handler)
    : engine_(std::move(engine)), clock_(clock), handler_(handler), status_(std::make_shared<engine::EngineStatus>()) {
  last_step_nanos_ = absl::ToInt64Nanoseconds(clock_->Monotonic());
}

EngineLoop::~EngineLoop() { Stop(); }

void EngineLoop::Start() {
  thread_ = std::thread([this] {
    NameThread("engine");
    Run();
  });
}

void EngineLoop::Post(engine::Event event) {
  absl::MutexLock lock(&mutex_);
  queue_.push_back(std::move(event));
}

void EngineLoop::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<const engine::EngineStatus> EngineLoop::status() const {
  absl::MutexLock lock(&status_mutex_);
  return status_;
}

void EngineLoop::Run() {
  next_tick_ = clock_->Monotonic() + kTickInterval;
  std::vector<engine::Event> events;
  while (true) {
    absl::Duration wake = next_tick_;
    if (const std::optional<absl::Duration> wanted = engine_->NextDeadline()) wake = std::min(wake, *wanted);
    // Something happened since the last snapshot: the next one is due.
    const absl::Duration snapshot = stale_ ? published_at_ + kStatusInterval : absl::InfiniteDuration();
    {
      const auto something_to_do = [this]()
                                       ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || !queue_.empty(); };
      absl::MutexLock lock(&mutex_);
      mutex_.AwaitWithTimeout(absl::Condition(&something_to_do),
                              std::max(std::min(wake, snapshot) - clock_->Monotonic(), absl::ZeroDuration()));
      if (stopping_) return;
      events.swap(queue_);
    }
    for (engine::Event& event : events) Step(std::move(event));
    events.clear();
    const absl::Duration now = clock_->Monotonic();
    if (now >= wake) {
      if (now >= next_tick_) {
        handler_->OnTick();
        next_tick_ = now + kTickInterval;
      }
      Step(engine::Tick{});
    }
    PublishStatus(now);
  }
}

void EngineLoop::Step(engine::Event event) {
  engine_->Handle(std::move(event), &actions_);
  for (engine::Action& action : actions_) handler_->CarryOut(std::move(action));
  actions_.clear();
  stale_ = true;
}

void EngineLoop::PublishStatus(absl::Duration now) {
  last_step_nanos_.store(absl::ToInt64Nanoseconds(now), std::memory_order_relaxed);
  if (!stale_ || now - published_at_ < kStatusInterval) return;
  published_at_ = now;
  stale_ = false;
  auto status = std::make_shared<const engine::EngineStatus>(engine_->Status());
  absl::MutexLock lock(&status_mutex_);
  status_ = std::move(status);
}

}  // namespace millstream::host
