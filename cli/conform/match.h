#ifndef MILLSTREAM_CLI_CONFORM_MATCH_H_
#define MILLSTREAM_CLI_CONFORM_MATCH_H_

#include <string>
#include <string_view>
#include <vector>

#include "cli/conform/notation.h"

namespace millstream::cli::conform {

// Where `got` is not as `expected` wants it, one line each, beginning with the place. In `expected` a map means
// {contains: TEXT or [TEXT]}, {min: N}, {max: N}, {not: VALUE}, {oneOf: [VALUE]}, {any: true}, or the fields that `got`
// must have; with `exact` it must have no others. Pure.
std::vector<std::string> Differences(const Json& expected, const Json& got, std::string_view place, bool exact);

}  // namespace millstream::cli::conform

#endif  // MILLSTREAM_CLI_CONFORM_MATCH_H_
