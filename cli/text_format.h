#ifndef MILLSTREAM_CLI_TEXT_FORMAT_H_
#define MILLSTREAM_CLI_TEXT_FORMAT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/bytes.h"

namespace millstream::cli {

// How bytes are written and read as text, in --key-format and --value-format. The HTTP endpoints use the same words.
enum class ByteFormat {
  kAuto,  // writing only: JSON as it is, else UTF-8 as a string, else {"base64": "..."}
  kUtf8,
  kJson,
  kHex,
  kBase64,
  kInt64,  // 8 bytes big-endian, signed
};

inline constexpr const char* kByteFormatWords = "auto|utf8|json|hex|base64|int64";
absl::StatusOr<ByteFormat> ParseByteFormat(std::string_view word);

// One JSON value in one line: "null" for null. With a format other than auto, bytes that are not of it come as with
// auto.
std::string ToJsonText(const MaybeBytes& bytes, ByteFormat format);
// A JSON string; bytes that are not UTF-8 are replaced.
std::string JsonQuote(std::string_view text);
// Text for a table: without quotes where it is a plain string.
std::string ToPlainText(const MaybeBytes& bytes, ByteFormat format);

// The bytes a person means by `text`. INVALID_ARGUMENT says what was expected.
absl::StatusOr<Bytes> FromText(std::string_view text, ByteFormat format);

bool IsUtf8(std::string_view bytes);
std::string ToBase64(std::string_view bytes);

// "12,345,678"; "1.2 MB"; "2024-05-01T10:00:00.123Z" (milliseconds since 1970; years beyond 9999 as the bare number).
std::string WithCommas(int64_t number);
std::string HumanBytes(double bytes);
std::string HumanTime(int64_t timestamp_ms);

// Rows with columns padded to the widest, two spaces between; the first row is the heading.
std::string Table(const std::vector<std::vector<std::string>>& rows);

}  // namespace millstream::cli

#endif  // MILLSTREAM_CLI_TEXT_FORMAT_H_
