#include "cli/conform/conform_case.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/spec/reader.h"

namespace millstream::cli::conform {
namespace {

absl::Status At(std::string_view file, int line, std::string_view problem) {
  return absl::InvalidArgumentError(StrCat(file, ":", line, ": ", problem));
}

std::string Names(const std::vector<StepKind>& kinds) {
  std::string names;
  for (const StepKind& kind : kinds) StrAppend(&names, names.empty() ? "" : ", ", kind.name);
  return names;
}

absl::StatusOr<Step> ParseStep(std::string_view file, const spec::Value& value) {
  if (!value.is_map() || value.members.size() != 1)
    return At(file, value.at.line, "a step is a map of one entry, KIND: ARGUMENT");
  const spec::Member& member = value.members[0];
  const auto& kinds = StepKinds();
  if (std::none_of(kinds.begin(), kinds.end(), [&](const StepKind& kind) { return kind.name == member.key; }))
    return At(file, value.at.line, StrCat("there is no step \"", member.key, "\"; there are ", Names(kinds)));
  return Step{member.key, ToJson(member.value), value.at.line};
}

absl::StatusOr<Case> ParseCase(std::string_view file, std::string_view stem, const spec::Value& value) {
  if (!value.is_map()) return At(file, value.at.line, "a case is a map with name, about and steps");
  Case parsed;
  parsed.file = std::string(file);
  parsed.line = value.at.line;
  for (const spec::Member& member : value.members) {
    const std::string& key = member.key;
    const Json argument = ToJson(member.value);
    if (key == "name" && argument.is_string()) {
      parsed.name = StrCat(stem, "/", argument.get<std::string>());
    } else if (key == "about" && argument.is_string()) {
      parsed.about = argument.get<std::string>();
    } else if (key == "needs" && argument.is_array()) {
      for (const Json& feature : argument) parsed.needs.push_back(feature.get<std::string>());
    } else if (key == "welcome" && argument.is_object()) {
      parsed.welcome = argument;
    } else if (key == "data" && argument.is_object()) {
      parsed.data = argument;
    } else if (key == "page" && argument.is_number_unsigned() && argument.get<uint32_t>() > 0) {
      parsed.page = argument.get<uint32_t>();
    } else if (key == "handshake" && argument.is_boolean()) {
      parsed.handshake = argument.get<bool>();
    } else if (key == "steps" && member.value.is_list()) {
      for (const spec::Value& step : member.value.items) {
        MS_ASSIGN_OR_RETURN(Step parsed_step, ParseStep(file, step));
        parsed.steps.push_back(std::move(parsed_step));
      }
    } else {
      return At(file, member.key_at.line,
                StrCat("\"", key,
                       "\" is no field of a case, or not of this type; fields are name, about, needs, welcome, "
                       "data, page, handshake, steps"));
    }
  }
  if (parsed.name.empty() || parsed.about.empty() || parsed.steps.empty())
    return At(file, parsed.line, "a case needs name, about and steps");
  return parsed;
}

}  // namespace

const std::vector<StepKind>& StepKinds() {
  static const std::vector<StepKind> kinds = {
      {"accept", "waits for a new connection, its HELLO, and answers WELCOME and OPEN of task 0"},
      {"hello", "waits for a new connection and a HELLO like this; nothing is answered"},
      {"welcome", "answers HELLO with this merged over the case's WELCOME"},
      {"send", "sends a frame [KIND, field, ...], legal or not"},
      {"bytes", "sends bytes as they are"},
      {"batch", "sends a BATCH with records and the state of their keys"},
      {"result", "waits for the RESULT of the last batch"},
      {"expect", "waits for a frame like this"},
      {"answer",
       "answers the GET or SCAN that was waited for: auto, or {error} or {values} or {rows, cursor} or {frame: a "
       "recorded one}"},
      {"ping", "sends PING and waits for PONG"},
      {"quiet", "nothing but EXTEND comes for so many milliseconds"},
      {"refused", "waits for ERROR with this code, or one of these, and the end of the connection"},
      {"hostile", "for each of these frames: a batch is served, the frame is refused, the worker connects again"},
      {"ended", "waits for the end of the connection; GOODBYE may come before"},
      {"disconnect", "ends the connection"},
      {"signal", "sends the program a signal: TERM, INT or KILL"},
      {"exit", "waits for the end of the program with this exit code"},
      {"restart", "starts the program again after its end"},
  };
  return kinds;
}

absl::StatusOr<std::vector<Case>> ParseCases(std::string_view file, std::string_view text) {
  if (const auto problem = spec::CheckText(text)) return At(file, problem->at.line, problem->message);
  const spec::ReadResult read = spec::ReadYaml(text);
  if (read.error) return At(file, read.error->at.line, read.error->message);
  if (read.documents.size() != 1 || !read.documents[0].is_list()) return At(file, 1, "a file of cases is one list");
  const std::string stem = std::filesystem::path(file).stem().string();
  std::vector<Case> cases;
  std::set<std::string> names;
  for (const spec::Value& value : read.documents[0].items) {
    MS_ASSIGN_OR_RETURN(Case parsed, ParseCase(file, stem, value));
    if (!names.insert(parsed.name).second) return At(file, parsed.line, StrCat("a second case named ", parsed.name));
    cases.push_back(std::move(parsed));
  }
  return cases;
}

absl::StatusOr<std::vector<Case>> BuiltInCases() {
  std::vector<Case> cases;
  for (const CaseFile& file : CaseFiles()) {
    MS_ASSIGN_OR_RETURN(std::vector<Case> more, ParseCases(file.name, file.text));
    std::move(more.begin(), more.end(), std::back_inserter(cases));
  }
  return cases;
}

absl::StatusOr<std::vector<Case>> CasesOf(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::vector<std::string> paths;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".yaml") paths.push_back(entry.path().string());
  }
  if (error) return absl::NotFoundError(StrCat(folder, ": ", error.message()));
  std::sort(paths.begin(), paths.end());
  std::vector<Case> cases;
  for (const std::string& path : paths) {
    std::ifstream in(path, std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    MS_ASSIGN_OR_RETURN(std::vector<Case> more, ParseCases(path, text.str()));
    std::move(more.begin(), more.end(), std::back_inserter(cases));
  }
  if (cases.empty()) return absl::NotFoundError(StrCat(folder, " has no *.yaml with cases"));
  return cases;
}

}  // namespace millstream::cli::conform
