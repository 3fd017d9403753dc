// Arms CrashPoint(): see crash_point.h. A program opts in by calling ArmCrashPointsFromEnvironment() first thing in
// main.
#include "common/base/crash_point_armed.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <string>

#include "common/base/crash_point.h"

namespace millstream {
namespace {

std::string* g_name = nullptr;
std::atomic<int> g_passes_left{0};

void KillSelfAt(const char* name) {
  if (*g_name != name) return;
  if (g_passes_left.fetch_sub(1) != 1) return;
  kill(getpid(), SIGKILL);
  for (;;) pause();  // SIGKILL is on its way: let nothing further happen on this thread
}

}  // namespace

void ArmCrashPointsFromEnvironment() {
  const char* at = std::getenv("MILLSTREAM_CRASH_AT");
  if (at == nullptr || *at == '\0') return;
  const std::string spec(at);
  const size_t colon = spec.find(':');
  g_name = new std::string(spec.substr(0, colon));
  g_passes_left = colon == std::string::npos ? 1 : std::atoi(spec.c_str() + colon + 1);
  internal::SetCrashHook(&KillSelfAt);
}

}  // namespace millstream
