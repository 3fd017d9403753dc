#ifndef MILLSTREAM_SDK_CPP_SIGNALS_H_
#define MILLSTREAM_SDK_CPP_SIGNALS_H_

#include <vector>

namespace millstream::worker {

// SIGINT and SIGTERM are one per process, so this is too. Thread-safe.

// Takes them over; from now on they wake these eventfds.
void TakeSignals(const std::vector<int>& wake_fds);
// Before the eventfds are closed.
void ForgetWakeFds(const std::vector<int>& wake_fds);
// One of them came.
bool Signalled();

}  // namespace millstream::worker

#endif  // MILLSTREAM_SDK_CPP_SIGNALS_H_
