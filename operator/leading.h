#ifndef MILLSTREAM_OPERATOR_LEADING_H_
#define MILLSTREAM_OPERATOR_LEADING_H_

#include <atomic>
#include <cstdint>
#include <functional>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/http/interruption.h"
#include "operator/runtime/leader_election.h"

namespace millstream::program {

// Has work done while this process leads, and only then. A lost lease does not end the process: an API server that is
// away for ten minutes then costs no restart, and the caches stay warm.
//
// Step by one thread; the rest by any. `election` and `clock` outlive it.
class Leading {
 public:
  struct Work {
    std::function<void()> begin;  // a term begins; must not wait
    std::function<void()> end;    // it is over: returns when nothing is under way any more
  };
  Leading(runtime::LeaderElection* election, Work work, const Clock* clock);

  // One step of the election, and what follows from it. How long to wait before the next: never past the end of the
  // allowance, so that work ends when it is over.
  absl::Duration Step();
  // Steps until the interruption, then ends the work.
  void Run(const http::Interruption& interruption);
  // Ends the work, if any is under way. By the thread that steps, or behind it.
  void End();

  bool working() const { return working_term_ != 0; }
  // How long ago the last step began: a thread that hangs is a reason for a restart.
  absl::Duration since_step() const;

 private:
  runtime::LeaderElection* const election_;
  const Work work_;
  const Clock* const clock_;
  std::atomic<int64_t> working_term_{0};  // 0: no work
  std::atomic<int64_t> stepped_at_;       // nanoseconds of the monotonic clock
};

}  // namespace millstream::program

#endif  // MILLSTREAM_OPERATOR_LEADING_H_
