// The libFuzzer program: see build.sh.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/watch_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  millstream::FuzzWatch({reinterpret_cast<const char*>(data), size});
  return 0;
}
