#include "cli/text_format.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "absl/strings/escaping.h"
#include "common/base/hex.h"
#include "common/base/strings.h"
#include "nlohmann/json.hpp"

namespace millstream::cli {
namespace {

using Json = nlohmann::json;

std::string AutoText(std::string_view bytes) {
  if (!bytes.empty() && Json::accept(bytes)) {
    // As it stands, so that no digit of a number changes; a text over several lines is brought into one.
    if (bytes.find('\n') == std::string_view::npos) return std::string(bytes);
    return Json::parse(bytes).dump();
  }
  if (IsUtf8(bytes)) return JsonQuote(bytes);
  return StrCat("{\"base64\":\"", ToBase64(bytes), "\"}");
}

}  // namespace

absl::StatusOr<ByteFormat> ParseByteFormat(std::string_view word) {
  if (word == "auto") return ByteFormat::kAuto;
  if (word == "utf8") return ByteFormat::kUtf8;
  if (word == "json") return ByteFormat::kJson;
  if (word == "hex") return ByteFormat::kHex;
  if (word == "base64") return ByteFormat::kBase64;
  if (word == "int64") return ByteFormat::kInt64;
  return absl::InvalidArgumentError(StrCat("format ", word, " is none of ", kByteFormatWords));
}

bool IsUtf8(std::string_view bytes) {
  // Abseil and the standard library have no such check; nlohmann's serialiser has one, which throws.
  size_t i = 0;
  const auto continuation = [&](size_t at, uint8_t low, uint8_t high) {
    return at < bytes.size() && static_cast<uint8_t>(bytes[at]) >= low && static_cast<uint8_t>(bytes[at]) <= high;
  };
  while (i < bytes.size()) {
    const uint8_t first = static_cast<uint8_t>(bytes[i]);
    if (first < 0x80) {
      i += 1;
    } else if (first >= 0xc2 && first <= 0xdf && continuation(i + 1, 0x80, 0xbf)) {
      i += 2;
    } else if (first >= 0xe0 && first <= 0xef &&
               continuation(i + 1, first == 0xe0 ? 0xa0 : 0x80, first == 0xed ? 0x9f : 0xbf) &&
               continuation(i + 2, 0x80, 0xbf)) {
      i += 3;
    } else if (first >= 0xf0 && first <= 0xf4 &&
               continuation(i + 1, first == 0xf0 ? 0x90 : 0x80, first == 0xf4 ? 0x8f : 0xbf) &&
               continuation(i + 2, 0x80, 0xbf) && continuation(i + 3, 0x80, 0xbf)) {
      i += 4;
    } else {
      return false;
    }
  }
  return true;
}

std::string ToBase64(std::string_view bytes) {
  std::string text;
  absl::Base64Escape(ToAbsl(bytes), &text);
  return text;
}

std::string JsonQuote(std::string_view text) { return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string ToJsonText(const MaybeBytes& bytes, ByteFormat format) {
  if (!bytes.has_value()) return "null";
  switch (format) {
    case ByteFormat::kHex:
      return StrCat("\"", absl::BytesToHexString(*bytes), "\"");
    case ByteFormat::kBase64:
      return StrCat("\"", ToBase64(*bytes), "\"");
    case ByteFormat::kUtf8:
      return IsUtf8(*bytes) ? JsonQuote(*bytes) : AutoText(*bytes);
    case ByteFormat::kInt64:
      if (bytes->size() == 8) return StrCat(static_cast<int64_t>(ReadBigEndian64(*bytes)));
      return AutoText(*bytes);
    case ByteFormat::kJson:
    case ByteFormat::kAuto:
      return AutoText(*bytes);
  }
  return AutoText(*bytes);
}

std::string ToPlainText(const MaybeBytes& bytes, ByteFormat format) {
  const std::string text = ToJsonText(bytes, format);
  if (text.empty() || text.front() != '"') return text;
  const Json parsed = Json::parse(text, nullptr, false);
  if (!parsed.is_string()) return text;
  const std::string plain = parsed.get<std::string>();
  const bool printable =
      std::all_of(plain.begin(), plain.end(), [](unsigned char c) { return c >= 0x20 && c != 0x7f; });
  return printable ? plain : text;
}

absl::StatusOr<Bytes> FromText(std::string_view text, ByteFormat format) {
  switch (format) {
    case ByteFormat::kHex: {
      std::optional<std::string> bytes = BytesOfHex(text);
      if (!bytes)
        return absl::InvalidArgumentError(StrCat("\"", text, "\" is not hex: an even number of digits 0-9 a-f"));
      return *std::move(bytes);
    }
    case ByteFormat::kBase64: {
      std::string bytes;
      if (!absl::Base64Unescape(ToAbsl(text), &bytes))
        return absl::InvalidArgumentError(StrCat("\"", text, "\" is not base64"));
      return bytes;
    }
    case ByteFormat::kInt64: {
      int64_t number = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
      if (error != std::errc() || end != text.data() + text.size()) {
        return absl::InvalidArgumentError(StrCat("\"", text, "\" is not a 64-bit integer"));
      }
      std::string bytes;
      AppendBigEndian64(static_cast<uint64_t>(number), &bytes);
      return bytes;
    }
    case ByteFormat::kJson: {
      if (!Json::accept(text))
        return absl::InvalidArgumentError(
            StrCat("\"", text, "\" is not JSON; a string needs its quotes: '\"", text, "\"'"));
      return Bytes(text);
    }
    case ByteFormat::kAuto:
    case ByteFormat::kUtf8:
      return Bytes(text);
  }
  return Bytes(text);
}

std::string WithCommas(int64_t number) {
  std::string digits = std::to_string(number);
  for (int at = static_cast<int>(digits.size()) - 3; at > (number < 0 ? 1 : 0); at -= 3)
    digits.insert(static_cast<size_t>(at), 1, ',');
  return digits;
}

std::string HumanBytes(double bytes) {
  constexpr const char* kUnits[] = {"B", "KB", "MB", "GB", "TB"};
  int unit = 0;
  while (bytes >= 1000 && unit < 4) {
    bytes /= 1000;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof(text), unit == 0 || bytes >= 100 ? "%.0f %s" : "%.1f %s", bytes, kUnits[unit]);
  return text;
}

std::string HumanTime(int64_t timestamp_ms) {
  constexpr int64_t kYear10000 = 253402300800000;
  constexpr int64_t kYear1 = -62135596800000;
  if (timestamp_ms >= kYear10000 || timestamp_ms < kYear1) return std::to_string(timestamp_ms);
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::FromUnixMillis(timestamp_ms), absl::UTCTimeZone());
}

std::string Table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t column = 0; column < row.size(); ++column)
      widths[column] = std::max(widths[column], row[column].size());
  }
  std::string out;
  for (const auto& row : rows) {
    for (size_t column = 0; column < row.size(); ++column) {
      out += row[column];
      if (column + 1 < row.size()) out.append(widths[column] - row[column].size() + 2, ' ');
    }
    out += '\n';
  }
  return out;
}

}  // namespace millstream::cli
