#ifndef MILLSTREAM_COMMON_SPEC_SCALAR_H_
#define MILLSTREAM_COMMON_SPEC_SCALAR_H_

#include <string_view>

#include "common/spec/value.h"

namespace millstream::spec {

// What a plain (unquoted, untagged) YAML scalar means to kubectl and the API server, whose YAML library follows
// YAML 1.1 here: yes, no, on, off are booleans; 0x1f, 0b11, 0o17 and 017 are numbers, 1_000 too. Everything else is a
// string.
Value ResolvePlainScalar(std::string_view text, Position at);

// The same for a key: keys are strings in the end, and a boolean key becomes "true" or "false" as kubectl makes it.
std::string ResolvePlainKey(std::string_view text);

}  // namespace millstream::spec

#endif  // MILLSTREAM_COMMON_SPEC_SCALAR_H_
