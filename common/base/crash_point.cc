#include "common/base/crash_point.h"

namespace millstream {
namespace {

internal::CrashHook g_hook = nullptr;

}  // namespace

void CrashPoint(const char* name) {
  if (g_hook != nullptr) g_hook(name);
}

namespace internal {
void SetCrashHook(CrashHook hook) { g_hook = hook; }
}  // namespace internal
}  // namespace millstream
