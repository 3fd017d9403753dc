#include "common/spec/duration.h"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "common/base/strings.h"

namespace millstream::spec {
namespace {

constexpr int kMaxParts = 4;
constexpr size_t kMaxDigits = 9;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

std::string_view TakeWhile(std::string_view& text, bool (*matches)(char)) {
  size_t count = 0;
  while (count < text.size() && matches(text[count])) ++count;
  std::string_view taken = text.substr(0, count);
  text.remove_prefix(count);
  return taken;
}

std::optional<absl::Duration> Unit(std::string_view unit) {
  if (unit == "ms") return absl::Milliseconds(1);
  if (unit == "s") return absl::Seconds(1);
  if (unit == "m") return absl::Minutes(1);
  if (unit == "h") return absl::Hours(1);
  return std::nullopt;
}

// Units people write although the pattern has none of them.
std::optional<absl::Duration> ForeignUnit(std::string_view unit) {
  std::string lower;
  for (char c : unit) lower += static_cast<char>(c | 0x20);
  static constexpr std::array<std::pair<std::string_view, int64_t>, 24> kUnits = {{
      {"millisecond", 1},   {"milliseconds", 1},  {"millis", 1},      {"msec", 1},           {"ms", 1},
      {"second", 1000},     {"seconds", 1000},    {"sec", 1000},      {"secs", 1000},        {"s", 1000},
      {"minute", 60'000},   {"minutes", 60'000},  {"min", 60'000},    {"mins", 60'000},      {"m", 60'000},
      {"hour", 3'600'000},  {"hours", 3'600'000}, {"hr", 3'600'000},  {"h", 3'600'000},      {"day", 86'400'000},
      {"days", 86'400'000}, {"d", 86'400'000},    {"w", 604'800'000}, {"week", 604'800'000},
  }};
  for (const auto& [name, ms] : kUnits) {
    if (name == lower) return absl::Milliseconds(ms);
  }
  if (lower == "weeks") return absl::Milliseconds(604'800'000);
  return std::nullopt;
}

// What a person most likely meant by "30d", "1.5h", "5 min"; nullopt when there is no telling.
std::optional<absl::Duration> Guess(std::string_view text) {
  absl::Duration total;
  auto skip_spaces = [&] { TakeWhile(text, [](char c) { return c == ' '; }); };
  skip_spaces();
  if (text.empty()) return std::nullopt;
  while (!text.empty()) {
    std::string number(TakeWhile(text, [](char c) { return IsDigit(c) || c == '.'; }));
    skip_spaces();
    std::optional<absl::Duration> unit = ForeignUnit(TakeWhile(text, IsLetter));
    skip_spaces();
    double count = 0;
    auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), count);
    if (number.empty() || !unit || error != std::errc() || end != number.data() + number.size()) return std::nullopt;
    total += count * *unit;
  }
  if (total > absl::Hours(999'999'999)) return std::nullopt;
  return total;
}

}  // namespace

std::optional<absl::Duration> ParseDuration(std::string_view text) {
  absl::Duration total;
  int parts = 0;
  while (!text.empty()) {
    std::string_view digits = TakeWhile(text, IsDigit);
    std::optional<absl::Duration> unit = Unit(TakeWhile(text, IsLetter));
    if (digits.empty() || digits.size() > kMaxDigits || !unit || ++parts > kMaxParts) return std::nullopt;
    int64_t count = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), count);
    total += count * *unit;
  }
  if (parts == 0) return std::nullopt;
  return total;
}

std::string DurationText(absl::Duration duration) {
  int64_t ms = absl::ToInt64Milliseconds(duration);
  if (ms == 0) return "0s";
  std::string out;
  for (auto [size, unit] : {std::pair<int64_t, const char*>{3'600'000, "h"}, {60'000, "m"}, {1000, "s"}, {1, "ms"}}) {
    if (ms >= size) StrAppend(&out, ms / size, unit);
    ms %= size;
  }
  return out;
}

std::string ExplainDuration(std::string_view text) {
  constexpr std::string_view kForm = "durations are numbers with ms, s, m or h, for example 500ms, 30s or 1h30m";
  if (text.empty()) return std::string(kForm);
  if (text.front() == '-') return StrCat("a duration cannot be negative; ", kForm);
  bool only_digits = text.find_first_not_of("0123456789") == std::string_view::npos;
  if (only_digits) return StrCat("the unit is missing: ", text, "ms or ", text, "s? ", kForm);
  std::optional<absl::Duration> meant = Guess(text);
  if (!meant) return std::string(kForm);
  return StrCat(text, " is ", DurationText(*meant), ": write that (the units are ms, s, m and h)");
}

}  // namespace millstream::spec
