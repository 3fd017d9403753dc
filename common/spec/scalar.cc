#include "common/spec/scalar.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>

namespace millstream::spec {
namespace {

bool IsOneOf(std::string_view text, std::initializer_list<std::string_view> words) {
  for (std::string_view word : words) {
    if (text == word) return true;
  }
  return false;
}

std::optional<bool> AsBool(std::string_view text) {
  if (IsOneOf(text, {"true", "True", "TRUE", "y", "Y", "yes", "Yes", "YES", "on", "On", "ON"})) return true;
  if (IsOneOf(text, {"false", "False", "FALSE", "n", "N", "no", "No", "NO", "off", "Off", "OFF"})) return false;
  return std::nullopt;
}

bool IsNull(std::string_view text) { return IsOneOf(text, {"", "~", "null", "Null", "NULL"}); }

// Only texts that start like a number are tried as one.
bool MayBeNumber(std::string_view text) {
  char c = text.front();
  return (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
}

std::string WithoutUnderscores(std::string_view text) {
  std::string plain;
  for (char c : text) {
    if (c != '_') plain += c;
  }
  return plain;
}

struct Integer {
  bool negative = false;
  uint64_t magnitude = 0;
};

std::optional<Integer> AsInteger(std::string_view digits) {
  Integer result;
  if (!digits.empty() && (digits[0] == '+' || digits[0] == '-')) {
    result.negative = digits[0] == '-';
    digits.remove_prefix(1);
  }
  int base = 10;
  if (digits.size() > 1 && digits[0] == '0') {
    char mark = digits[1] | 0x20;
    base = mark == 'x' ? 16 : mark == 'b' ? 2 : 8;
    digits.remove_prefix(mark == 'x' || mark == 'b' || mark == 'o' ? 2 : 1);
  }
  if (digits.empty()) return std::nullopt;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), result.magnitude, base);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return result;
}

// [-+]? ( .digits | digits [.digits*] ) ( [eE] [-+]? digits )?
bool IsFloat(std::string_view text) {
  size_t i = 0;
  auto digits = [&] {
    size_t start = i;
    while (i < text.size() && text[i] >= '0' && text[i] <= '9') ++i;
    return i - start;
  };
  if (i < text.size() && (text[i] == '+' || text[i] == '-')) ++i;
  size_t before = digits();
  size_t after = 0;
  if (i < text.size() && text[i] == '.') {
    ++i;
    after = digits();
  }
  if (before + after == 0) return false;
  if (i < text.size() && (text[i] | 0x20) == 'e') {
    ++i;
    if (i < text.size() && (text[i] == '+' || text[i] == '-')) ++i;
    if (digits() == 0) return false;
  }
  return i == text.size();
}

}  // namespace

Value ResolvePlainScalar(std::string_view text, Position at) {
  Value value = StringValue(text, at);
  if (IsNull(text)) {
    value.kind = Value::Kind::kNull;
    return value;
  }
  if (std::optional<bool> boolean = AsBool(text)) {
    value.kind = Value::Kind::kBool;
    value.boolean = *boolean;
    return value;
  }
  if (!MayBeNumber(text)) return value;
  std::string plain = WithoutUnderscores(text);
  if (std::optional<Integer> integer = AsInteger(plain)) {
    constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
    if (integer->magnitude <= kMax) {
      value.kind = Value::Kind::kInt;
      value.integer =
          integer->negative ? -static_cast<int64_t>(integer->magnitude) : static_cast<int64_t>(integer->magnitude);
      value.number = static_cast<double>(value.integer);
    } else {
      value.kind = Value::Kind::kDouble;  // beyond 64 bits: no integer for any field
      value.number = (integer->negative ? -1.0 : 1.0) * static_cast<double>(integer->magnitude);
    }
    return value;
  }
  if (IsFloat(plain)) {
    double number = std::strtod(plain.c_str(), nullptr);
    if (std::isfinite(number)) {
      value.kind = Value::Kind::kDouble;
      value.number = number;
    }
  }
  return value;
}

std::string ResolvePlainKey(std::string_view text) {
  if (std::optional<bool> boolean = AsBool(text)) return *boolean ? "true" : "false";
  return std::string(text);
}

}  // namespace millstream::spec
