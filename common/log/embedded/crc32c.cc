#include "common/log/embedded/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace millstream::log::embedded {
namespace {

constexpr std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
    table[i] = crc;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kTable = MakeTable();

uint32_t ByTable(const char* data, size_t size, uint32_t crc) {
  for (size_t i = 0; i < size; ++i) crc = crc >> 8 ^ kTable[(crc ^ static_cast<unsigned char>(data[i])) & 0xff];
  return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t ByInstruction(const char* data, size_t size, uint32_t crc) {
  uint64_t wide = crc;
  for (; size >= 8; data += 8, size -= 8) {
    uint64_t word;
    std::memcpy(&word, data, 8);
    wide = _mm_crc32_u64(wide, word);
  }
  crc = static_cast<uint32_t>(wide);
  for (; size > 0; ++data, --size) crc = _mm_crc32_u8(crc, static_cast<unsigned char>(*data));
  return crc;
}
#endif

using Function = uint32_t (*)(const char*, size_t, uint32_t);

Function Choose() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return &ByInstruction;
#endif
  return &ByTable;
}

}  // namespace

uint32_t Crc32c(std::string_view bytes, uint32_t before) {
  static const Function function = Choose();
  return ~function(bytes.data(), bytes.size(), ~before);
}

}  // namespace millstream::log::embedded
