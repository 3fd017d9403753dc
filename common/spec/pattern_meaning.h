#ifndef MILLSTREAM_COMMON_SPEC_PATTERN_MEANING_H_
#define MILLSTREAM_COMMON_SPEC_PATTERN_MEANING_H_

#include <string>
#include <string_view>

namespace millstream::spec {

// What a pattern of the schema asks for, in words: "a topic name: ...". A pattern without words is shown as it is; a test
// sees to it that our own part of the schema has none of those.
std::string PatternMeaning(std::string_view pattern);

}  // namespace millstream::spec

#endif  // MILLSTREAM_COMMON_SPEC_PATTERN_MEANING_H_
