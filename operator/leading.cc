#include "operator/leading.h"

#include <algorithm>
#include <utility>

namespace millstream::program {

Leading::Leading(runtime::LeaderElection* election, Work work, const Clock* clock)
    : election_(election),
      work_(std::move(work)),
      clock_(clock),
      stepped_at_(absl::ToInt64Nanoseconds(clock->Monotonic())) {}

absl::Duration Leading::Step() {
  stepped_at_ = absl::ToInt64Nanoseconds(clock_->Monotonic());
  // Before the lease is tried for again: passes of an old term must not find a new allowance.
  if (!election_->leads()) End();
  absl::Duration wait = election_->Step();
  if (!election_->leads()) {
    End();
    return wait;
  }
  if (const int64_t term = election_->term(); term != working_term_) {
    End();
    working_term_ = term;
    work_.begin();
  }
  return std::min(wait, election_->Allowance());
}

void Leading::Run(const http::Interruption& interruption) {
  while (!interruption.interrupted()) {
    const absl::Duration wait = Step();
    if (interruption.WaitFor(wait)) break;
  }
  End();
}

void Leading::End() {
  if (working_term_.exchange(0) != 0) work_.end();
}

absl::Duration Leading::since_step() const { return clock_->Monotonic() - absl::Nanoseconds(stepped_at_.load()); }

}  // namespace millstream::program
