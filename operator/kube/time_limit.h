#ifndef MILLSTREAM_OPERATOR_KUBE_TIME_LIMIT_H_
#define MILLSTREAM_OPERATOR_KUBE_TIME_LIMIT_H_

#include "absl/time/time.h"
#include "common/base/clock.h"

namespace millstream::kube {

// One deadline over everything that a piece of work asks of the API server: while it exists, the calls of this thread
// through Client end by then, and behind it none is begun (DEADLINE_EXCEEDED). Watches keep their own time. Of several
// of a thread the last one made counts; they end in the reverse order. `clock` outlives it.
class TimeLimit {
 public:
  TimeLimit(const Clock* clock, absl::Duration limit);
  ~TimeLimit();
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;

  // What is left on this thread; infinite: there is no limit.
  static absl::Duration Left();

 private:
  const Clock* const clock_;
  const absl::Duration end_;
  const TimeLimit* const outer_;
};

}  // namespace millstream::kube

#endif  // MILLSTREAM_OPERATOR_KUBE_TIME_LIMIT_H_
