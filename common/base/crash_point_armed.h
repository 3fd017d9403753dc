#ifndef MILLSTREAM_COMMON_BASE_CRASH_POINT_ARMED_H_
#define MILLSTREAM_COMMON_BASE_CRASH_POINT_ARMED_H_

namespace millstream {

// For test builds of our programs only. Reads MILLSTREAM_CRASH_AT once; call before any thread exists.
void ArmCrashPointsFromEnvironment();

}  // namespace millstream

#endif  // MILLSTREAM_COMMON_BASE_CRASH_POINT_ARMED_H_
