#ifndef MILLSTREAM_SIDECAR_PROTOCOL_UTF8_H_
#define MILLSTREAM_SIDECAR_PROTOCOL_UTF8_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace millstream::protocol {

// Well-formed UTF-8: no overlong forms, surrogates or code points beyond U+10FFFF.
bool IsUtf8(std::string_view text);

// The text with every byte that is not part of a well-formed character replaced by U+FFFD, cut to at most `max_bytes`
// between characters.
std::string RepairUtf8(std::string_view text, size_t max_bytes);

}  // namespace millstream::protocol

#endif  // MILLSTREAM_SIDECAR_PROTOCOL_UTF8_H_
