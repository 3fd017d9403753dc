#ifndef MILLSTREAM_COMMON_BASE_BYTES_H_
#define MILLSTREAM_COMMON_BASE_BYTES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace millstream {

// Keys and values are bytes, not text: a std::string that may hold anything, zero bytes included.
using Bytes = std::string;
// A Kafka key or value: nullopt is null (for a value: a tombstone), which differs from empty.
using MaybeBytes = std::optional<Bytes>;

// The bytes as a person can read them: printable ASCII as is, the rest as \xNN, cut after `limit` input bytes with
// "...". For error messages and listings; not reversible.
std::string Readable(std::string_view bytes, size_t limit = 64);

// Big-endian fixed width integers, whose byte order is their numeric order (for keys on disk).
void AppendBigEndian64(uint64_t value, std::string* out);
void AppendBigEndian32(uint32_t value, std::string* out);
// Precondition: at least 8 (4) bytes.
uint64_t ReadBigEndian64(std::string_view bytes);
uint32_t ReadBigEndian32(std::string_view bytes);

// The smallest string greater than every string that starts with `prefix`; nullopt when there is none (empty or all
// 0xff).
std::optional<std::string> PrefixEnd(std::string_view prefix);

}  // namespace millstream

#endif  // MILLSTREAM_COMMON_BASE_BYTES_H_
