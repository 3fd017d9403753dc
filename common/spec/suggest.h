#ifndef MILLSTREAM_COMMON_SPEC_SUGGEST_H_
#define MILLSTREAM_COMMON_SPEC_SUGGEST_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace millstream::spec {

// The word of `known` that `written` was most likely meant to be: the same but for case, "_" and "-", or a few letters
// away. nullopt when none is near.
std::optional<std::string> Suggest(std::string_view written, const std::vector<std::string>& known);

}  // namespace millstream::spec

#endif  // MILLSTREAM_COMMON_SPEC_SUGGEST_H_
