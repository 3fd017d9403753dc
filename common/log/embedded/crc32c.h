#ifndef MILLSTREAM_COMMON_LOG_EMBEDDED_CRC32C_H_
#define MILLSTREAM_COMMON_LOG_EMBEDDED_CRC32C_H_

#include <cstdint>
#include <string_view>

namespace millstream::log::embedded {

// CRC-32C (Castagnoli). Crc32c(b, Crc32c(a)) is the checksum of a followed by b. Uses the processor's instruction where
// there is one. Thread-safe.
uint32_t Crc32c(std::string_view bytes, uint32_t before = 0);

}  // namespace millstream::log::embedded

#endif  // MILLSTREAM_COMMON_LOG_EMBEDDED_CRC32C_H_
