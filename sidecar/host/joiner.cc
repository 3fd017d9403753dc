#include "sidecar/host/joiner.h"

#include <algorithm>
#include <utility>

#include "common/base/log_line.h"

namespace millstream::host {
namespace {
constexpr absl::Duration kWorkerPoll = absl::Milliseconds(20);
constexpr absl::Duration kFirstPause = absl::Milliseconds(100);
constexpr absl::Duration kLongestPause = absl::Seconds(5);
}  // namespace

Joiner::Joiner(std::function<bool()> has_worker, std::function<absl::Status()> join)
    : has_worker_(std::move(has_worker)), join_(std::move(join)), thread_([this] { Run(); }) {}

Joiner::~Joiner() { Stop(); }

void Joiner::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

absl::Status Joiner::status() const {
  absl::MutexLock lock(&mutex_);
  return status_;
}

void Joiner::Run() {
  absl::Duration pause = kFirstPause;
  while (true) {
    const bool ready = has_worker_();
    if (ready) {
      absl::Status joined = join_();
      absl::MutexLock lock(&mutex_);
      if (joined.ok() || joined.message() != status_.message()) {
        if (!joined.ok()) LogWarning("joining the group failed; trying again", {{"error", joined.ToString()}});
        status_ = joined;
      }
      if (joined.ok()) return;
    }
    absl::MutexLock lock(&mutex_);
    if (mutex_.AwaitWithTimeout(absl::Condition(&stopping_), ready ? pause : kWorkerPoll)) return;
    if (ready) pause = std::min(2 * pause, kLongestPause);
  }
}

}  // namespace millstream::host
