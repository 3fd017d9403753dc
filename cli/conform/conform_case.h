#ifndef MILLSTREAM_CLI_CONFORM_CONFORM_CASE_H_
#define MILLSTREAM_CLI_CONFORM_CONFORM_CASE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/conform/notation.h"

namespace millstream::cli::conform {

// One step: what the sidecar does, or what it waits for. The kinds are those of StepKinds.
struct Step {
  std::string kind;
  Json argument;
  int line = 0;
};

// A scripted conversation that every worker has to hold, from a file of tests/conformance/cases
// (docs/reference/conformance.md describes the format).
struct Case {
  std::string name;   // "batches/prefix-rule": file and name
  std::string about;  // the sentence of the specification that it checks
  std::string file;
  int line = 0;
  std::vector<std::string> needs;  // features without which it is skipped
  Json welcome = Json::object();   // merged over the standard WELCOME
  Json data = Json::object();      // store -> key -> value before the case
  uint32_t page = 100;             // rows that answer one SCAN at most
  bool handshake = true;           // HELLO, WELCOME and OPEN of task 0 come before the first step
  std::vector<Step> steps;
};

// Every kind of step there is, and what it does.
struct StepKind {
  std::string_view name, about;
};
const std::vector<StepKind>& StepKinds();

// One file of cases. `file` is for names and errors. InvalidArgument with file, line and what is wrong.
absl::StatusOr<std::vector<Case>> ParseCases(std::string_view file, std::string_view text);

// The cases built into the program, or those of *.yaml below a folder, by name.
absl::StatusOr<std::vector<Case>> BuiltInCases();
absl::StatusOr<std::vector<Case>> CasesOf(const std::string& folder);

// A text embedded by the build: tests/conformance/cases.
struct CaseFile {
  std::string_view name, text;
};
const std::vector<CaseFile>& CaseFiles();

}  // namespace millstream::cli::conform

#endif  // MILLSTREAM_CLI_CONFORM_CONFORM_CASE_H_
