#ifndef MILLSTREAM_COMMON_SPEC_DURATION_H_
#define MILLSTREAM_COMMON_SPEC_DURATION_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/time/time.h"

namespace millstream::spec {

// The pattern of every duration in the schema: up to four numbers, each with ms, s, m or h ("1h30m").
inline constexpr std::string_view kDurationPattern = "^([0-9]{1,9}(ms|s|m|h)){1,4}$";

// A duration as the pattern writes it; nullopt for anything else.
std::optional<absl::Duration> ParseDuration(std::string_view text);

// The shortest text that means it, exact to a millisecond: "720h", "1h30m", "1s500ms", "0s". Precondition: not
// negative.
std::string DurationText(absl::Duration duration);

// Why `text` is no duration, and what to write instead: for "30d" it says that 30d is 720h.
std::string ExplainDuration(std::string_view text);

}  // namespace millstream::spec

#endif  // MILLSTREAM_COMMON_SPEC_DURATION_H_
