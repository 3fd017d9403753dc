#ifndef MILLSTREAM_COMMON_BASE_HEX_H_
#define MILLSTREAM_COMMON_BASE_HEX_H_

#include <optional>
#include <string>
#include <string_view>

namespace millstream {

// The bytes that pairs of hexadecimal digits of either case stand for; empty for any other text. Thread-safe. Abseil has the same under a
// signature that changed between the releases we build with.
std::optional<std::string> BytesOfHex(std::string_view text);

}  // namespace millstream

#endif  // MILLSTREAM_COMMON_BASE_HEX_H_
