#include "sidecar/host/engine_loop.h"

#include <atomic>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"

namespace millstream::host {
namespace {

// The system's time, and what the test adds to it.
class AheadClock : public Clock {
 public:
  absl::Duration Monotonic() const override { return SystemClock().Monotonic() + absl::Seconds(ahead_.load()); }
  absl::Time WallTime() const override { return SystemClock().WallTime(); }
  void Advance(int64_t seconds) { ahead_ += seconds; }

 private:
  std::atomic<int64_t> ahead_{0};
};

// Holds the engine's thread in its first tick.
class Stuck : public ActionHandler {
 public:
  void CarryOut(engine::Action) override {}
  void OnTick() override {
    if (!in_tick.HasBeenNotified()) in_tick.Notify();
    go_on.WaitForNotification();
  }
  absl::Notification in_tick, go_on;
};

engine::EngineOptions Options() {
  engine::EngineOptions options;
  options.spec.name = "p";
  options.spec.group = "g";
  options.spec.inputs.push_back({.name = "in", .topic = "in", .start_from = {}, .prefetch = {}});
  return options;
}

TEST(EngineLoopTest, ALoopThatHangsIsNotAliveAndOneThatTicksIs) {
  AheadClock clock;
  const std::unique_ptr<MetricsRegistry> metrics = NewMetricsRegistry();
  Stuck handler;
  EngineLoop loop(engine::Engine::Create(Options(), &clock, metrics.get()), &clock, &handler);
  loop.Start();
  clock.Advance(2);  // a tick is due
  handler.in_tick.WaitForNotification();
  EXPECT_LT(loop.idle_for(), EngineLoop::kAlive);
  clock.Advance(31);
  EXPECT_GE(loop.idle_for(), EngineLoop::kAlive);
  handler.go_on.Notify();
  for (int i = 0; i < 6000 && loop.idle_for() >= EngineLoop::kAlive; ++i) absl::SleepFor(absl::Milliseconds(10));
  EXPECT_LT(loop.idle_for(), EngineLoop::kAlive);
  loop.Stop();
}

}  // namespace
}  // namespace millstream::host
