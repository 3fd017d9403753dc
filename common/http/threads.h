#ifndef MILLSTREAM_COMMON_HTTP_THREADS_H_
#define MILLSTREAM_COMMON_HTTP_THREADS_H_

#include <cstddef>

namespace millstream::http {

// cpprestsdk would start 40 threads with the first request. The first call of either of these two decides how many
// there are; the client side calls CapThreads by itself. SetThreads has to come before any request, first thing in
// main.
void CapThreads();  // two
void SetThreads(size_t threads);

}  // namespace millstream::http

#endif  // MILLSTREAM_COMMON_HTTP_THREADS_H_
