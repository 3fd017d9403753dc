#ifndef MILLSTREAM_CLI_CONFORM_SUITE_H_
#define MILLSTREAM_CLI_CONFORM_SUITE_H_

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/conform/case_run.h"
#include "cli/conform/conform_case.h"

namespace millstream::cli::conform {

// What a worker says about itself: features it lacks and cases it is known to fail, each with the reason. Cases that
// need a missing feature are skipped; known failures are run all the same.
struct Profile {
  std::map<std::string, std::string> missing_features;  // name -> why
  std::map<std::string, std::string> known_failures;    // case -> why
};
// A YAML map with `features: {NAME: true or WHY NOT}` and `knownFailures: {CASE: WHY}`. InvalidArgument for anything
// else, and for features and cases that none of `cases` knows.
absl::StatusOr<Profile> ParseProfile(std::string_view file, std::string_view text, const std::vector<Case>& cases);

enum class Verdict {
  kPassed,
  kFailed,
  kSkipped,       // a feature is missing
  kKnownFailure,  // failed, as the profile says
  kFixed,         // passed though the profile says that it fails: take it off the list. Counts as failed.
};
std::string_view Name(Verdict verdict);
inline bool IsBad(Verdict verdict) { return verdict == Verdict::kFailed || verdict == Verdict::kFixed; }

struct Outcome {
  const Case* what = nullptr;
  Verdict verdict = Verdict::kPassed;
  std::string reason;  // of a skip or known failure
  CaseResult result;
};

// Runs the cases, `jobs` at a time, each against a process of its own; outcomes in the order of the cases. `report` is
// called as soon as a case has ended, one call at a time.
std::vector<Outcome> RunSuite(const std::vector<Case>& cases, const Profile& profile, const CaseOptions& options,
                              int jobs, const std::function<void(const Outcome&)>& report);

// For people; `frames`: with the conversation even where all is well.
std::string ToText(const Outcome& outcome, bool frames);
std::string Summary(const std::vector<Outcome>& outcomes);  // "40 passed, 1 failed, 2 skipped"
std::string ToJsonText(const std::vector<Outcome>& outcomes);
// JUnit's format, for CI systems.
std::string ToJUnit(const std::vector<Outcome>& outcomes, std::string_view suite_name);

}  // namespace millstream::cli::conform

#endif  // MILLSTREAM_CLI_CONFORM_SUITE_H_
