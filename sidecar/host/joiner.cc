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

// Who is to be drained from the start is taken for a member: a former process under its name may be one.
Joiner::Joiner(JoinerOptions options, group::Membership* membership)
    : options_(std::move(options)),
      membership_(membership),
      before_first_join_(options_.before_first_join),
      pause_(kFirstPause),
      phase_(options_.joined || options_.drain ? Phase::kIn : Phase::kOut),
      drain_(options_.drain) {}

Joiner::~Joiner() { Stop(); }

void Joiner::Start() {
  thread_ = std::thread([this] { Run(); });
}

void Joiner::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void Joiner::Order(bool drain) {
  absl::MutexLock lock(&mutex_);
  drain_ = drain;
}

bool Joiner::drained() const {
  absl::MutexLock lock(&mutex_);
  return drain_ && phase_ == Phase::kOut;
}

void Joiner::Drained() {
  absl::MutexLock lock(&mutex_);
  phase_ = Phase::kOut;
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
  const std::optional<absl::Duration> away = options_.worker_away();
  Phase phase;
  bool drain, ordered;
  {
    absl::MutexLock lock(&mutex_);
    phase = phase_;
    drain = drain_;
    ordered = ordered_;
    if (phase == Phase::kIn && (drain || away > options_.patience)) {
      phase_ = Phase::kDraining;
      ordered_ = drain;
    }
  }
  if (phase == Phase::kIn && drain) {
    LogInfo("drain ordered: the tasks are given to other members of the group, then it is left");
    membership_->Drain();
  } else if (phase == Phase::kIn && away > options_.patience) {
    LogWarning("no worker for long: the tasks are left to other members of the group",
               {{"away", absl::FormatDuration(absl::Trunc(*away, absl::Seconds(1)))}});
    membership_->Drain();
  } else if (phase == Phase::kDraining && ordered && !drain) {
    LogInfo("the drain is taken back");
    return Join();
  } else if (phase == Phase::kOut && !drain && !away.has_value()) {
    return Join();
  }
  return kLookInterval;
}

absl::Duration Joiner::Join() {
  if (before_first_join_) std::exchange(before_first_join_, nullptr)();
  {
    absl::MutexLock lock(&mutex_);
    phase_ = Phase::kIn;
  }
  const absl::Status joined = membership_->Join();
  absl::MutexLock lock(&mutex_);
  if (!joined.ok() && joined.message() != status_.message())
    LogWarning("joining the group failed; trying again", {{"error", joined.ToString()}});
  status_ = joined;
  if (joined.ok()) {
    pause_ = kFirstPause;
    return kLookInterval;
  }
  phase_ = Phase::kOut;
  return std::exchange(pause_, std::min(2 * pause_, kLongestPause));
}

}  // namespace millstream::host
