#include "common/spec/quantity.h"

#include <charconv>
#include <limits>

#include "common/base/strings.h"

namespace millstream::spec {
namespace {

// Unit = base ^ exponent.
struct Unit {
  int base = 10;
  int exponent = 0;
};

std::optional<Unit> ParseUnit(std::string_view text) {
  constexpr std::string_view kLetters = "KMGTPE";
  if (text.empty()) return Unit{};
  if (text.size() == 2 && text[1] == 'i') {
    size_t power = kLetters.find(text[0]);
    if (power == std::string_view::npos) return std::nullopt;
    return Unit{2, static_cast<int>(power + 1) * 10};
  }
  if (text == "n") return Unit{10, -9};
  if (text == "u") return Unit{10, -6};
  if (text == "m") return Unit{10, -3};
  if (text == "k") return Unit{10, 3};
  if (text.size() == 1) {
    size_t power = kLetters.find(text[0]);
    if (power != std::string_view::npos && power > 0) return Unit{10, static_cast<int>(power + 1) * 3};
  }
  if (text[0] == 'e' || text[0] == 'E') {
    text.remove_prefix(1);
    if (text.starts_with('+')) text.remove_prefix(1);
    int exponent = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), exponent);
    if (error == std::errc() && end == text.data() + text.size() && exponent >= -30 && exponent <= 30)
      return Unit{10, exponent};
  }
  return std::nullopt;
}

using Wide = unsigned __int128;
constexpr Wide kMaxWide = ~Wide{0};

// value * factor, or nullopt beyond 128 bits.
std::optional<Wide> Times(Wide value, Wide factor) {
  if (value != 0 && factor > kMaxWide / value) return std::nullopt;
  return value * factor;
}

}  // namespace

std::optional<int64_t> ParseQuantity(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  Wide digits = 0;   // the number without its point
  int fraction = 0;  // digits behind the point
  bool point = false;
  size_t i = 0;
  size_t count = 0;
  for (; i < text.size(); ++i) {
    if (text[i] == '.' && !point) {
      point = true;
      continue;
    }
    if (text[i] < '0' || text[i] > '9') break;
    if (++count > 30) return std::nullopt;
    digits = digits * 10 + static_cast<Wide>(text[i] - '0');
    fraction += point ? 1 : 0;
  }
  std::optional<Unit> unit = ParseUnit(text.substr(i));
  if (count == 0 || !unit) return std::nullopt;

  int tens = -fraction + (unit->base == 10 ? unit->exponent : 0);
  std::optional<Wide> value = digits;
  if (unit->base == 2) value = Times(*value, Wide{1} << unit->exponent);
  for (; value && tens > 0; --tens) value = Times(*value, 10);
  if (!value) return std::nullopt;
  Wide divisor = 1;
  for (; tens < 0; ++tens) {
    if (divisor > kMaxWide / 10) return *value == 0 ? 0 : 1;
    divisor *= 10;
  }
  Wide whole = *value / divisor + (*value % divisor != 0 ? 1 : 0);
  if (whole > static_cast<Wide>(std::numeric_limits<int64_t>::max())) return std::nullopt;
  return static_cast<int64_t>(whole);
}

std::string FormatBytes(int64_t bytes) {
  static constexpr const char* kUnits[] = {"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
  int unit = 0;
  while (bytes != 0 && bytes % 1024 == 0 && unit < 6) {
    bytes /= 1024;
    ++unit;
  }
  return StrCat(bytes, kUnits[unit]);
}

}  // namespace millstream::spec
