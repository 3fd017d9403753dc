#include "cli/command_line.h"
#include "common/base/crash_point_armed.h"

// Two arenas are enough for a dozen threads, and an idle process gives its memory back.
extern "C" const char* malloc_conf;
const char* malloc_conf = "narenas:2,dirty_decay_ms:2000,muzzy_decay_ms:0";

// The same program for tests/faults: dies at the crash point named by MILLSTREAM_CRASH_AT (common/base/crash_point.h).
int main(int argc, char** argv) {
  millstream::ArmCrashPointsFromEnvironment();
  return millstream::cli::RunCommandLine(argc, argv);
}
