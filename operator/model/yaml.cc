#include "operator/model/yaml.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "absl/strings/ascii.h"
#include "common/base/strings.h"

namespace millstream::model {
namespace {

bool IsWord(std::string_view text) {
  static constexpr std::array<std::string_view, 9> kWords = {"y",   "n",    "yes",   "no",  "on",
                                                             "off", "true", "false", "null"};
  const std::string lower = absl::AsciiStrToLower(ToAbsl(text));
  return std::find(kWords.begin(), kWords.end(), lower) != kWords.end();
}

// Begins with a letter, a slash or an underscore and holds nothing that means something in YAML.
bool IsPlain(std::string_view text) {
  if (text.empty() || IsWord(text)) return false;
  const auto is_letter = [](char c) {
    return absl::ascii_isalpha(static_cast<unsigned char>(c)) || c == '/' || c == '_';
  };
  if (!is_letter(text.front())) return false;
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return is_letter(c) || absl::ascii_isdigit(static_cast<unsigned char>(c)) || c == '-' || c == '.';
  });
}

std::string Scalar(const Json& value) {
  if (value.is_string() && IsPlain(value.get_ref<const std::string&>())) return value.get<std::string>();
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool IsBlock(const Json& value) { return value.is_structured() && !value.empty(); }

// Appends the lines of a map or list that is not empty. The first one goes on where the line is, the others are
// indented.
void Append(const Json& value, int indent, bool first_in_line, std::string* out) {
  const std::string margin(static_cast<size_t>(indent), ' ');
  bool in_line = first_in_line;
  const auto begin_line = [&] {
    if (!in_line) *out += margin;
    in_line = false;
  };
  if (value.is_array()) {
    for (const Json& item : value) {
      begin_line();
      *out += "- ";
      if (IsBlock(item)) {
        Append(item, indent + 2, true, out);
      } else {
        StrAppend(out, Scalar(item), "\n");
      }
    }
    return;
  }
  for (const auto& [key, member] : value.items()) {
    begin_line();
    StrAppend(out, Scalar(Json(key)), ":");
    if (!IsBlock(member)) {
      StrAppend(out, " ", Scalar(member), "\n");
      continue;
    }
    *out += "\n";
    // As kubectl writes it: lists are not indented below their key.
    Append(member, member.is_array() ? indent : indent + 2, false, out);
  }
}

}  // namespace

std::string ToYaml(const Json& value) {
  if (!IsBlock(value)) return Scalar(value) + "\n";
  std::string out;
  Append(value, 0, false, &out);
  return out;
}

std::string ToYaml(const std::vector<Json>& documents) {
  std::string out;
  for (const Json& document : documents) StrAppend(&out, "---\n", ToYaml(document));
  return out;
}

}  // namespace millstream::model
