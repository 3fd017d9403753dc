// The libFuzzer program: see build.sh.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/protocol_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  millstream::FuzzProtocol({reinterpret_cast<const char*>(data), size});
  return 0;
}
