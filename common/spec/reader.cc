#include "common/spec/reader.h"

#include "common/base/strings.h"
#include "common/spec/manifest.h"

namespace millstream::spec {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

// Bytes of the UTF-8 character at the start of `text`; 0 when it is none (cut, overlong, surrogate, beyond U+10FFFF).
size_t CharacterLength(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  auto continues = [&](size_t i) { return i < text.size() && (byte(i) & 0xc0) == 0x80; };
  unsigned char first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return continues(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    if (!continues(1) || !continues(2)) return 0;
    if (first == 0xe0 && byte(1) < 0xa0) return 0;
    if (first == 0xed && byte(1) > 0x9f) return 0;
    return 3;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    if (!continues(1) || !continues(2) || !continues(3)) return 0;
    if (first == 0xf0 && byte(1) < 0x90) return 0;
    if (first == 0xf4 && byte(1) > 0x8f) return 0;
    return 4;
  }
  return 0;
}

std::string Hex(unsigned char byte) {
  constexpr char kDigits[] = "0123456789abcdef";
  return {'0', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
}

}  // namespace

std::optional<ReadError> CheckText(std::string_view text) {
  if (text.size() > kMaxManifestBytes) {
    return ReadError{{},
                     StrCat("is longer than ", kMaxManifestBytes,
                            " bytes: is this the right file? Several processors may also be in several files"),
                     Judge::kCode};
  }
  Position at{1, 1};
  for (size_t i = 0; i < text.size();) {
    unsigned char byte = static_cast<unsigned char>(text[i]);
    size_t length = CharacterLength(text.substr(i));
    if (length == 0) {
      return ReadError{at, StrCat("byte ", Hex(byte), " is not UTF-8: save the file as UTF-8"), Judge::kSchema};
    }
    if ((byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7f) {
      return ReadError{at, StrCat("control character ", Hex(byte), " is not allowed in a manifest: remove it"),
                       Judge::kSchema};
    }
    i += length;
    if (byte == '\n') {
      ++at.line;
      at.column = 1;
    } else {
      ++at.column;
    }
  }
  return std::nullopt;
}

ReadResult ReadDocuments(std::string_view text) {
  if (std::optional<ReadError> error = CheckText(text)) return {{}, std::move(error)};
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  size_t start = text.find_first_not_of(" \t\r\n");
  if (start == std::string_view::npos || (text[start] != '{' && text[start] != '[')) return ReadYaml(text);
  // JSON, or YAML in flow style. JSON first: YAML readers stumble over tabs and \uD83D\uDE00.
  ReadResult json = ReadJson(text);
  if (!json.error) return json;
  ReadResult yaml = ReadYaml(text);
  if (!yaml.error) return yaml;
  size_t next = text.find_first_not_of(" \t\r\n", start + 1);
  bool looks_like_json = next != std::string_view::npos && text[next] == '"';
  return looks_like_json ? json : yaml;
}

}  // namespace millstream::spec
