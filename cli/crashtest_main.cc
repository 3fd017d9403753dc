#include "cli/command_line.h"
#include "common/base/crash_point_armed.h"

// The same program for tests/faults: dies at the crash point named by MILLSTREAM_CRASH_AT (common/base/crash_point.h).
int main(int argc, char** argv) {
  millstream::ArmCrashPointsFromEnvironment();
  return millstream::cli::RunCommandLine(argc, argv);
}
