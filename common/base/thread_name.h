#ifndef MILLSTREAM_COMMON_BASE_THREAD_NAME_H_
#define MILLSTREAM_COMMON_BASE_THREAD_NAME_H_

#include <pthread.h>

namespace millstream {

// Names the calling thread for `top -H`, debuggers and bench/counting.py. At most 15 bytes; a longer name is ignored.
inline void NameThread(const char* name) { (void)pthread_setname_np(pthread_self(), name); }

}  // namespace millstream

#endif  // MILLSTREAM_COMMON_BASE_THREAD_NAME_H_
