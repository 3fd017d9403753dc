#ifndef MILLSTREAM_SIDECAR_SERVER_HTTP_ENDPOINTS_VALUES_H_
#define MILLSTREAM_SIDECAR_SERVER_HTTP_ENDPOINTS_VALUES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/base/bytes.h"

// Internal to the HTTP endpoints: bytes as people write and read them.
namespace millstream::server {

// How bytes stand in a URL or in JSON. kAuto (output only): JSON if it is JSON, else a string if it is UTF-8, else
// base64.
enum class ValueFormat { kAuto, kJson, kUtf8, kBase64, kHex, kInt64 };

// INVALID_ARGUMENT lists what `parameter` accepts.
absl::StatusOr<ValueFormat> ParseValueFormat(std::string_view parameter, const std::optional<std::string>& text,
                                             ValueFormat absent, bool input);

// Text of a URL to bytes: int64 is decimal to 8 bytes, big-endian; base64 also URL-safe and without padding.
absl::StatusOr<Bytes> ToBytes(ValueFormat format, std::string_view parameter, std::string_view text);

// Bytes as a JSON value, and the name of the format it is in ("json", "utf8", "base64", "hex", "int64"). Bytes that do
// not fit the wanted format come as base64, so that nothing is ever unreadable.
struct RenderedValue {
  std::string json;
  std::string_view format;
};
RenderedValue Render(ValueFormat wanted, std::string_view bytes);

// Milliseconds since 1970 as 2026-01-31T12:00:00.000Z; the number where the calendar has no such year.
std::string IsoTime(int64_t ms);

// A JSON string, escaped; broken UTF-8 is replaced.
std::string Quote(std::string_view text);

}  // namespace millstream::server

#endif  // MILLSTREAM_SIDECAR_SERVER_HTTP_ENDPOINTS_VALUES_H_
