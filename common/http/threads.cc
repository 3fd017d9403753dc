#include "common/http/threads.h"

#include <exception>
#include <mutex>
#include <utility>

#include "pplx/threadpool.h"

namespace millstream::http {
namespace {
constexpr size_t kThreads = 2;
}  // namespace

void CapThreads() { SetThreads(kThreads); }

void SetThreads(size_t threads) {
  static std::once_flag once;
  std::call_once(once, [threads] {
    try {
      crossplat::threadpool::initialize_with_threads(threads);
    } catch (const std::exception&) {
      // Somebody was faster: the pool is what they made it.
    }
  });
}

}  // namespace millstream::http
