#include "common/spec/diagnostic.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/base/strings.h"

namespace millstream::spec {

std::string_view ToString(Severity severity) {
  switch (severity) {
    case Severity::kError:
      return "error";
    case Severity::kWarning:
      return "warning";
    case Severity::kNote:
      return "note";
  }
  return "?";
}

std::string_view ToString(Judge judge) {
  switch (judge) {
    case Judge::kSchema:
      return "schema";
    case Judge::kCel:
      return "cel";
    case Judge::kCode:
      return "code";
  }
  return "?";
}

std::string ToText(const Diagnostic& diagnostic) {
  std::string out = diagnostic.file;
  if (diagnostic.line > 0) StrAppend(&out, ":", diagnostic.line);
  if (diagnostic.line > 0 && diagnostic.column > 0) StrAppend(&out, ":", diagnostic.column);
  StrAppend(&out, ": ");
  if (diagnostic.severity != Severity::kError) StrAppend(&out, ToString(diagnostic.severity), ": ");
  if (!diagnostic.path.empty()) StrAppend(&out, diagnostic.path, ": ");
  StrAppend(&out, diagnostic.message);
  return out;
}

std::string ToText(const std::vector<Diagnostic>& diagnostics) {
  std::string out;
  for (const Diagnostic& diagnostic : diagnostics) StrAppend(&out, ToText(diagnostic), "\n");
  return out;
}

std::string ToJson(const std::vector<Diagnostic>& diagnostics) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Diagnostic& d : diagnostics) {
    nlohmann::ordered_json object;
    object["severity"] = ToString(d.severity);
    object["judge"] = ToString(d.judge);
    object["file"] = d.file;
    object["line"] = d.line;
    object["column"] = d.column;
    object["path"] = d.path;
    object["message"] = d.message;
    list.push_back(std::move(object));
  }
  // Messages quote input that passed the UTF-8 check, file names may be anything: replace, never throw.
  return list.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

bool HasErrors(const std::vector<Diagnostic>& diagnostics) {
  return std::any_of(diagnostics.begin(), diagnostics.end(),
                     [](const Diagnostic& d) { return d.severity == Severity::kError; });
}

}  // namespace millstream::spec
