#include "cli/conform/match.h"

#include <algorithm>
#include <iterator>

#include "common/base/strings.h"

namespace millstream::cli::conform {
namespace {

using Lines = std::vector<std::string>;

// What is missing is said for so many elements of a list or map, then how many more there are.
constexpr size_t kMostLines = 8;

std::string Expected(std::string_view place, std::string_view what, const Json& got) {
  return StrCat(place, ": expected ", what, ", got ", ShowJson(got));
}

// A map of one entry that stands for a condition; false if it is an ordinary map.
bool Condition(const Json& expected, const Json& got, std::string_view place, Lines* lines) {
  if (!expected.is_object() || expected.size() != 1) return false;
  const std::string& name = expected.begin().key();
  const Json& argument = expected.begin().value();
  bool holds = true;
  if (name == "any") {
    holds = true;
  } else if (name == "contains") {
    const Json list = argument.is_array() ? argument : Json::array({argument});
    holds = got.is_string() && std::all_of(list.begin(), list.end(), [&](const Json& text) {
              return got.get_ref<const std::string&>().find(text.get<std::string>()) != std::string::npos;
            });
  } else if (name == "min") {
    holds = got.is_number() && got >= argument;
  } else if (name == "max") {
    holds = got.is_number() && got <= argument;
  } else if (name == "not") {
    holds = got != argument;
  } else if (name == "oneOf") {
    holds = std::any_of(argument.begin(), argument.end(),
                        [&](const Json& one) { return Differences(one, got, place, false).empty(); });
  } else {
    return false;
  }
  if (!holds) lines->push_back(Expected(place, ShowJson(expected), got));
  return true;
}

void Append(Lines more, Lines* lines) { std::move(more.begin(), more.end(), std::back_inserter(*lines)); }

void Cut(Lines* lines) {
  if (lines->size() <= kMostLines) return;
  const size_t more = lines->size() - kMostLines;
  lines->resize(kMostLines);
  lines->push_back(StrCat("... and ", more, " more differences"));
}

}  // namespace

std::vector<std::string> Differences(const Json& expected, const Json& got, std::string_view place, bool exact) {
  Lines lines;
  if (Condition(expected, got, place, &lines)) return lines;
  if (expected.is_object() && got.is_object()) {
    for (const auto& [key, value] : expected.items()) {
      const std::string at = StrCat(place, ".", key);
      const auto found = got.find(key);
      if (found == got.end()) {
        lines.push_back(StrCat(at, ": expected ", ShowJson(value), ", got nothing"));
      } else {
        Append(Differences(value, *found, at, exact), &lines);
      }
    }
    for (const auto& [key, value] : got.items()) {
      if (exact && !expected.contains(key)) {
        lines.push_back(StrCat(place, ".", key, ": expected nothing, got ", ShowJson(value)));
      }
    }
  } else if (expected.is_array() && got.is_array()) {
    if (expected.size() != got.size())
      lines.push_back(StrCat(place, ": expected ", expected.size(), " elements, got ", got.size()));
    for (size_t i = 0; i < std::max(expected.size(), got.size()); ++i) {
      const std::string at = StrCat(place, "[", i, "]");
      if (i >= got.size()) {
        lines.push_back(StrCat(at, ": expected ", ShowJson(expected[i]), ", got nothing"));
      } else if (i >= expected.size()) {
        lines.push_back(StrCat(at, ": expected nothing, got ", ShowJson(got[i])));
      } else {
        Append(Differences(expected[i], got[i], at, exact), &lines);
      }
    }
  } else if (expected != got) {
    lines.push_back(Expected(place, ShowJson(expected), got));
  }
  Cut(&lines);
  return lines;
}

}  // namespace millstream::cli::conform
