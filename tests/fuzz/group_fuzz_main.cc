// The libFuzzer program: see build.sh.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/group_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  millstream::FuzzGroup({reinterpret_cast<const char*>(data), size});
  return 0;
}
