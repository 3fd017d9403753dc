#ifndef MILLSTREAM_COMMON_BASE_CRASH_POINT_H_
#define MILLSTREAM_COMMON_BASE_CRASH_POINT_H_

namespace millstream {

// A named place where a test may kill the process, e.g. CrashPoint("commit-done"). In a release program it does
// nothing. Programs that link millstream_crash_points read MILLSTREAM_CRASH_AT=<name>[:<n>] at start-up and raise
// SIGKILL the n-th time (default: the first) the point is passed. Thread-safe; costs one load when not armed.
void CrashPoint(const char* name);

namespace internal {
using CrashHook = void (*)(const char* name);
// Called once at start-up, before threads exist.
void SetCrashHook(CrashHook hook);
}  // namespace internal

}  // namespace millstream

#endif  // MILLSTREAM_COMMON_BASE_CRASH_POINT_H_
