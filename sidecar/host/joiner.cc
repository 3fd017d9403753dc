#include "sidecar/host/joiner.h"

#include <algorithm>
#include <utility>

#include "common/base/log_line.h"

namespace millstream::host {
namespace {
constexpr absl::Duration kLookInterval = absl::Milliseconds(20);
constexpr absl::Duration kFirstPause = absl::Milliseconds(100);
constexpr absl::Duration kLongestPause = absl::Seconds(5);
}  // namespace

Joiner::Joiner(std::function<std::optional<absl::Duration>()> worker_away, absl::Duration patience,
               group::Membership* membership, std::function<void()> before_first_join)
    : worker_away_(std::move(worker_away)),
      patience_(patience),
      membership_(membership),
      before_first_join_(std::move(before_first_join)),
      pause_(kFirstPause),
      thread_([this] { Run(); }) {}

Joiner::~Joiner() { Stop(); }

void Joiner::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void Joiner::Drained() {
  absl::MutexLock lock(&mutex_);
  if (phase_ == Phase::kDraining) phase_ = Phase::kOut;
}

absl::Status Joiner::status() const {
  absl::MutexLock lock(&mutex_);
  return status_;
}

void Joiner::Run() {
  while (true) {
    const absl::Duration wait = Look();
    absl::MutexLock lock(&mutex_);
    if (mutex_.AwaitWithTimeout(absl::Condition(&stopping_), wait)) return;
  }
}

absl::Duration Joiner::Look() {
  const std::optional<absl::Duration> away = worker_away_();
  Phase phase;
  {
    absl::MutexLock lock(&mutex_);
    phase = phase_;
  }
  if (phase == Phase::kIn && away.has_value() && *away > patience_) {
    LogWarning("no worker for long: the tasks are left to other members of the group",
               {{"away", absl::FormatDuration(absl::Trunc(*away, absl::Seconds(1)))}});
    {
      absl::MutexLock lock(&mutex_);
      phase_ = Phase::kDraining;
    }
    membership_->Drain();
  }
  if (phase != Phase::kOut || away.has_value()) return kLookInterval;
  if (before_first_join_) std::exchange(before_first_join_, nullptr)();
  const absl::Status joined = membership_->Join();
  absl::MutexLock lock(&mutex_);
  if (!joined.ok() && joined.message() != status_.message())
    LogWarning("joining the group failed; trying again", {{"error", joined.ToString()}});
  status_ = joined;
  if (joined.ok()) {
    phase_ = Phase::kIn;
    pause_ = kFirstPause;
    return kLookInterval;
  }
  return std::exchange(pause_, std::min(2 * pause_, kLongestPause));
}

}  // namespace millstream::host
