#ifndef MILLSTREAM_COMMON_SPEC_PATTERN_H_
#define MILLSTREAM_COMMON_SPEC_PATTERN_H_

#include <string>
#include <string_view>

namespace millstream::spec {

// Whether `text` matches `pattern` (ECMAScript regular expressions; the schema's are anchored). Compiled once per
// pattern. Precondition: a pattern of the schema; `text` at most a few thousand bytes (check maxLength first).
bool MatchesPattern(const std::string& pattern, std::string_view text);

// What a pattern of the schema asks for, in words: "a topic name: ...". A pattern without words is shown as it is; a
// test sees to it that our own part of the schema has none of those.
std::string PatternMeaning(std::string_view pattern);

}  // namespace millstream::spec

#endif  // MILLSTREAM_COMMON_SPEC_PATTERN_H_
