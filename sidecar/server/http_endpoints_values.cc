#include "sidecar/server/http_endpoints_values.h"

#include <cstdint>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/time/time.h"
#include "common/base/hex.h"
#include "common/base/strings.h"
#include "nlohmann/json.hpp"

namespace millstream::server {
namespace {

using Json = nlohmann::json;

bool IsJson(std::string_view bytes) { return Json::accept(bytes.begin(), bytes.end()); }

// Whether the bytes are UTF-8 that a JSON string keeps as it is.
bool IsUtf8(std::string_view bytes) {
  try {
    (void)Json(std::string(bytes)).dump();
    return true;
  } catch (const Json::exception&) {
    return false;
  }
}

absl::Status Malformed(std::string_view parameter, std::string_view text, std::string_view wanted) {
  return absl::InvalidArgumentError(StrCat(parameter, " '", Readable(text), "' is not ", wanted));
}

bool DecodeHex(std::string_view text, Bytes* bytes) {
  std::optional<std::string> decoded = BytesOfHex(text);
  if (decoded) *bytes = *std::move(decoded);
  return decoded.has_value();
}

RenderedValue Base64(std::string_view bytes) { return {Quote(absl::Base64Escape(ToAbsl(bytes))), "base64"}; }

}  // namespace

std::string IsoTime(int64_t ms) {
  constexpr int64_t kYear10000 = 253402300800000, kYear1 = -62135596800000;
  if (ms >= kYear10000 || ms < kYear1) return StrCat(ms);
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::FromUnixMillis(ms), absl::UTCTimeZone());
}

std::string Quote(std::string_view text) {
  return Json(std::string(text)).dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<ValueFormat> ParseValueFormat(std::string_view parameter, const std::optional<std::string>& text,
                                             ValueFormat absent, bool input) {
  if (!text) return absent;
  if (*text == "utf8") return ValueFormat::kUtf8;
  if (*text == "base64") return ValueFormat::kBase64;
  if (*text == "hex") return ValueFormat::kHex;
  if (*text == "int64") return ValueFormat::kInt64;
  if (!input && *text == "auto") return ValueFormat::kAuto;
  if (!input && *text == "json") return ValueFormat::kJson;
  return absl::InvalidArgumentError(StrCat(parameter, "=", Readable(*text), " is not known; use ",
                                           input ? "" : "auto, json, ", "utf8, base64, hex or int64"));
}

absl::StatusOr<Bytes> ToBytes(ValueFormat format, std::string_view parameter, std::string_view text) {
  Bytes bytes;
  switch (format) {
    case ValueFormat::kBase64:
      if (absl::Base64Unescape(ToAbsl(text), &bytes) || absl::WebSafeBase64Unescape(ToAbsl(text), &bytes)) return bytes;
      return Malformed(parameter, text, "base64");
    case ValueFormat::kHex:
      if (DecodeHex(text, &bytes)) return bytes;
      return Malformed(parameter, text, "hex: an even number of digits 0-9 a-f");
    case ValueFormat::kInt64: {
      int64_t number = 0;
      if (!absl::SimpleAtoi(ToAbsl(text), &number)) return Malformed(parameter, text, "a 64-bit integer");
      AppendBigEndian64(static_cast<uint64_t>(number), &bytes);
      return bytes;
    }
    case ValueFormat::kAuto:
    case ValueFormat::kJson:
    case ValueFormat::kUtf8:
      return Bytes(text);
  }
  return Bytes(text);
}

RenderedValue Render(ValueFormat wanted, std::string_view bytes) {
  switch (wanted) {
    case ValueFormat::kAuto:
      if (IsJson(bytes)) return {std::string(bytes), "json"};
      if (IsUtf8(bytes)) return {Quote(bytes), "utf8"};
      break;
    case ValueFormat::kJson:
      if (IsJson(bytes)) return {std::string(bytes), "json"};
      break;
    case ValueFormat::kUtf8:
      if (IsUtf8(bytes)) return {Quote(bytes), "utf8"};
      break;
    case ValueFormat::kHex:
      return {Quote(absl::BytesToHexString(ToAbsl(bytes))), "hex"};
    case ValueFormat::kInt64:
      if (bytes.size() == 8) return {StrCat(static_cast<int64_t>(ReadBigEndian64(bytes))), "int64"};
      break;
    case ValueFormat::kBase64:
      break;
  }
  return Base64(bytes);
}

}  // namespace millstream::server
