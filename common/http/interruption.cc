#include "common/http/interruption.h"

namespace millstream::http {

Interruption::Interruption() : state_(std::make_shared<State>()) {}

void Interruption::Interrupt() {
  absl::MutexLock lock(&state_->mutex);
  state_->interrupted = true;
}

bool Interruption::interrupted() const {
  absl::MutexLock lock(&state_->mutex);
  return state_->interrupted;
}

bool Interruption::WaitFor(absl::Duration timeout) const {
  absl::MutexLock lock(&state_->mutex);
  return state_->mutex.AwaitWithTimeout(absl::Condition(&state_->interrupted), timeout);
}

}  // namespace millstream::http
