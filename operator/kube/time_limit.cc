#include "operator/kube/time_limit.h"

namespace millstream::kube {
namespace {

thread_local const TimeLimit* current = nullptr;

}  // namespace

TimeLimit::TimeLimit(const Clock* clock, absl::Duration limit)
    : clock_(clock), end_(clock->Monotonic() + limit), outer_(current) {
  current = this;
}

TimeLimit::~TimeLimit() { current = outer_; }

absl::Duration TimeLimit::Left() {
  return current == nullptr ? absl::InfiniteDuration() : current->end_ - current->clock_->Monotonic();
}

}  // namespace millstream::kube
