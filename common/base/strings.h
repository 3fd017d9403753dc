#ifndef MILLSTREAM_COMMON_BASE_STRINGS_H_
#define MILLSTREAM_COMMON_BASE_STRINGS_H_

#include <string>
#include <string_view>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace millstream {

// Some distributions build Abseil with a string_view of its own. These two cross that border and cost nothing where
// both are the same type.
inline absl::string_view ToAbsl(std::string_view text) { return {text.data(), text.size()}; }
inline std::string_view ToStd(absl::string_view text) { return {text.data(), text.size()}; }

namespace internal {
template <typename T>
decltype(auto) StrCatArgument(const T& value) {
  if constexpr (std::is_same_v<T, std::string_view>) {
    return ToAbsl(value);
  } else {
    return (value);
  }
}
}  // namespace internal

// absl::StrCat and absl::StrAppend, taking std::string_view as well.
template <typename... Args>
std::string StrCat(const Args&... args) {
  return absl::StrCat(internal::StrCatArgument(args)...);
}
template <typename... Args>
void StrAppend(std::string* out, const Args&... args) {
  absl::StrAppend(out, internal::StrCatArgument(args)...);
}

}  // namespace millstream

#endif  // MILLSTREAM_COMMON_BASE_STRINGS_H_
