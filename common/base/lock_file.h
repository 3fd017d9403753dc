#ifndef MILLSTREAM_COMMON_BASE_LOCK_FILE_H_
#define MILLSTREAM_COMMON_BASE_LOCK_FILE_H_

#include <sys/types.h>

#include <string_view>

#include "absl/status/status.h"

namespace millstream {

// Takes the exclusive lock (flock) of the open file `fd` for this process, without waiting for a holder that is alive.
// It ends when `fd` is closed or the process ends, whatever ends it.
//
// One that was killed while it started a program leaves the lock for a moment to the child, until that has begun the
// program (the descriptor is close-on-exec). So while `holder`, the process that the file names (0: none), is no more,
// this waits for the lock, up to five seconds.
//
// UNAVAILABLE: somebody holds it. UNKNOWN: anything else, in the words of the system. Blocks; thread-safe.
absl::Status LockFile(int fd, pid_t holder);

// The last number in `text`, what a holder wrote into its lock file; 0 if there is none.
pid_t HolderIn(std::string_view text);

}  // namespace millstream

#endif  // MILLSTREAM_COMMON_BASE_LOCK_FILE_H_
