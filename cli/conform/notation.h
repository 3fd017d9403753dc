#ifndef MILLSTREAM_CLI_CONFORM_NOTATION_H_
#define MILLSTREAM_CLI_CONFORM_NOTATION_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/spec/value.h"
#include "nlohmann/json.hpp"

// How case files write bytes and frames (docs/reference/conformance.md). Pure functions, thread-safe.
namespace millstream::cli::conform {

using Json = nlohmann::json;

// A value of a case file as JSON, its places forgotten. `hex: ff` and the like stay as they are written.
Json ToJson(const spec::Value& value);

// Bytes: "text" is its UTF-8, "hex:ff00" those bytes, {repeat: [text, count]} the text so many times. Error:
// InvalidArgument.
absl::StatusOr<std::string> ReadBytes(const Json& notation);
// The same, nullopt for null.
absl::StatusOr<std::optional<std::string>> ReadMaybeBytes(const Json& notation);
// "text", or "hex:ff00" where it is not UTF-8; null for nullopt. The one form of these bytes, so that equal means
// equal.
Json ShowBytes(std::string_view bytes);
template <typename Bytes>
Json ShowMaybeBytes(const std::optional<Bytes>& bytes) {
  return bytes.has_value() ? ShowBytes(*bytes) : Json();
}

// A frame, length included, from its array: the first element may be a kind's name; strings are str; {bin: BYTES} is
// bin, {ext: N} an extension of type N without data, {str: BYTES} a str that need not be UTF-8; map keys of digits only
// are integers. Error: InvalidArgument.
absl::StatusOr<std::string> ReadFrame(const Json& array);

// A recorded VALUES or ROWS frame, whatever it has behind them with another `seq` and `rid`:
// those of a recording are its own. Error: InvalidArgument.
absl::StatusOr<std::string> ReadFrameFor(std::string_view recorded, uint64_t seq, uint64_t rid);

// "ff 00" or "ff00" to bytes.
absl::StatusOr<std::string> ReadHex(std::string_view text);
std::string ShowHex(std::string_view bytes);

// Compact JSON for people: long texts are cut, broken ones mended.
std::string ShowJson(const Json& value);

}  // namespace millstream::cli::conform

#endif  // MILLSTREAM_CLI_CONFORM_NOTATION_H_
