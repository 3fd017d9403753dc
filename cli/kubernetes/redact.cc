#include "cli/kubernetes/redact.h"

#include <array>
#include <cctype>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "common/base/strings.h"

namespace millstream::cli {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::string_view, 11> kSecretWords = {"password", "passwd",     "passphrase", "secret",
                                                           "token",    "credential", "apikey",     "api-key",
                                                           "api_key",  "private",    "jaas"};
// Names of Secrets and of their keys, and what is no secret although it sounds like one.
constexpr std::array<std::string_view, 5> kHarmless = {"secretref", "secretkeyref", "secretname", "imagepullsecrets",
                                                       "automountserviceaccounttoken"};

bool SoundsSecret(std::string_view name) {
  const std::string lower = absl::AsciiStrToLower(ToAbsl(name));
  for (const std::string_view word : kHarmless) {
    if (absl::StrContains(lower, ToAbsl(word))) return false;
  }
  if (lower == "key") return false;  // of a key-value pair
  for (const std::string_view word : kSecretWords) {
    if (absl::StrContains(lower, ToAbsl(word))) return true;
  }
  return false;
}

// What follows "word=" or "word: " in a text, up to the next space, comma or quote.
void CutAssignments(std::string* text) {
  const std::string lower = absl::AsciiStrToLower(*text);
  std::string out;
  size_t done = 0;
  for (size_t at = 0; at < lower.size();) {
    size_t word = std::string::npos;
    for (const std::string_view secret : kSecretWords) {
      if (lower.compare(at, secret.size(), secret) == 0)
        word = std::max(word == std::string::npos ? 0 : word, secret.size());
    }
    if (word == std::string::npos) {
      ++at;
      continue;
    }
    size_t value = at + word;
    while (value < lower.size() && (std::isalnum(static_cast<unsigned char>(lower[value])) != 0 ||
                                    lower[value] == '_' || lower[value] == '-' || lower[value] == '.'))
      ++value;
    if (value < lower.size() && (lower[value] == '"' || lower[value] == '\'')) ++value;  // "password": "..."
    if (value >= lower.size() || (lower[value] != '=' && lower[value] != ':')) {
      at = value > at ? value : at + 1;
      continue;
    }
    ++value;
    while (value < lower.size() && (lower[value] == ' ' || lower[value] == '"' || lower[value] == '\'')) ++value;
    size_t end = value;
    while (end < lower.size() && lower.find_first_of(" ,;\"'\n\t}", end) != end) ++end;
    if (end > value) {
      out.append(*text, done, value - done);
      out += kRedacted;
      done = end;
    }
    at = end > at ? end : at + 1;
  }
  out.append(*text, done, std::string::npos);
  *text = std::move(out);
}

// scheme://user:password@host
void CutUserInfo(std::string* text) {
  for (size_t at = text->find("://"); at != std::string::npos; at = text->find("://", at + 3)) {
    const size_t begin = at + 3;
    const size_t end = text->find_first_of("/ \"'\n\t", begin);
    const size_t sign = text->rfind('@', end == std::string::npos ? std::string::npos : end);
    if (sign == std::string::npos || sign < begin) continue;
    text->replace(begin, sign - begin, kRedacted);
  }
}

void CutPrivateKeys(std::string* text) {
  while (true) {
    size_t begin = std::string::npos;
    for (size_t at = text->find("-----BEGIN "); at != std::string::npos; at = text->find("-----BEGIN ", at + 1)) {
      const size_t line = text->find("-----", at + 11);
      if (line != std::string::npos && text->substr(at, line - at).find("PRIVATE KEY") != std::string::npos) {
        begin = at;
        break;
      }
    }
    if (begin == std::string::npos) return;
    const size_t last = text->find("-----END ", begin);
    const size_t end = last == std::string::npos ? std::string::npos : text->find("-----", last + 9);
    text->replace(begin, end == std::string::npos ? std::string::npos : end + 5 - begin, kRedacted);
  }
}

void RedactText(std::string* text) {
  CutPrivateKeys(text);
  CutUserInfo(text);
  CutAssignments(text);
}

void Walk(Json& value, bool secret);

void WalkObject(Json& object) {
  object.erase("managedFields");
  if (const auto annotations = object.find("annotations"); annotations != object.end() && annotations->is_object())
    annotations->erase("kubectl.kubernetes.io/last-applied-configuration");
  for (auto& [name, value] : object.items()) {
    if (name == "env" && value.is_array()) {
      for (Json& variable : value) {
        if (variable.is_object() && variable.contains("value")) variable["value"] = kRedacted;
      }
      continue;
    }
    // {"name": "sasl.password", "value": ...}
    const bool named = name == "value" && object.contains("name") && object["name"].is_string() &&
                       SoundsSecret(object["name"].get<std::string>());
    Walk(value, named || SoundsSecret(name));
  }
}

void WalkList(Json& list) {
  bool secret = false;  // behind "--password"
  for (Json& item : list) {
    Walk(item, secret);
    secret = item.is_string() && absl::StartsWith(item.get<std::string>(), "-") &&
             SoundsSecret(item.get<std::string>()) && item.get<std::string>().find('=') == std::string::npos;
  }
}

void Walk(Json& value, bool secret) {
  if (value.is_object()) return WalkObject(value);
  if (value.is_array()) return WalkList(value);
  if (secret && !value.is_null() && !value.is_boolean()) {
    value = kRedacted;
  } else if (value.is_string()) {
    std::string text = value.get<std::string>();
    RedactText(&text);
    value = std::move(text);
  }
}

}  // namespace

Json Redacted(Json object) {
  Walk(object, false);
  return object;
}

std::string RedactedText(std::string_view text) {
  std::string result(text);
  RedactText(&result);
  return result;
}

}  // namespace millstream::cli
