#include "cli/conform/suite.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/spec/reader.h"

namespace millstream::cli::conform {
namespace {

absl::Status InProfile(std::string_view file, int line, std::string_view problem) {
  return absl::InvalidArgumentError(StrCat(file, ":", line, ": ", problem));
}

std::string Listed(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names) StrAppend(&text, text.empty() ? "" : ", ", name);
  return text.empty() ? "none" : text;
}

Outcome RunOne(const Case& what, const Profile& profile, const CaseOptions& options) {
  Outcome outcome;
  outcome.what = &what;
  for (const std::string& feature : what.needs) {
    const auto missing = profile.missing_features.find(feature);
    if (missing == profile.missing_features.end()) continue;
    outcome.verdict = Verdict::kSkipped;
    outcome.reason = StrCat("no ", feature, ": ", missing->second);
    return outcome;
  }
  outcome.result = CaseRun(what, options).Run();
  const auto known = profile.known_failures.find(what.name);
  if (known == profile.known_failures.end()) {
    outcome.verdict = outcome.result.passed ? Verdict::kPassed : Verdict::kFailed;
  } else {
    outcome.verdict = outcome.result.passed ? Verdict::kFixed : Verdict::kKnownFailure;
    outcome.reason = known->second;
  }
  return outcome;
}

}  // namespace

absl::StatusOr<Profile> ParseProfile(std::string_view file, std::string_view text, const std::vector<Case>& cases) {
  std::set<std::string> features, names;
  for (const Case& one : cases) {
    features.insert(one.needs.begin(), one.needs.end());
    names.insert(one.name);
  }
  if (const auto problem = spec::CheckText(text)) return InProfile(file, problem->at.line, problem->message);
  const spec::ReadResult read = spec::ReadYaml(text);
  if (read.error) return InProfile(file, read.error->at.line, read.error->message);
  Profile profile;
  if (read.documents.empty()) return profile;
  const spec::Value& root = read.documents[0];
  if (!root.is_map()) return InProfile(file, 1, "a profile is a map with features and knownFailures");
  for (const spec::Member& member : root.members) {
    const bool of_features = member.key == "features";
    if (!of_features && member.key != "knownFailures")
      return InProfile(file, member.key_at.line,
                       StrCat("\"", member.key, "\": a profile has features and knownFailures"));
    for (const spec::Member& entry : member.value.members) {
      const std::set<std::string>& known = of_features ? features : names;
      if (!known.contains(entry.key))
        return InProfile(file, entry.key_at.line,
                         StrCat("no case ", of_features ? "needs the feature " : "has the name ", entry.key,
                                of_features ? StrCat("; features are ", Listed(features)) : ""));
      const spec::Value& value = entry.value;
      if (of_features && value.kind == spec::Value::Kind::kBool && value.boolean) continue;
      if (!value.is_string() || value.text.empty())
        return InProfile(file, entry.key_at.line, StrCat(entry.key, ": give the reason as text"));
      (of_features ? profile.missing_features : profile.known_failures)[entry.key] = value.text;
    }
  }
  return profile;
}

std::string_view Name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPassed:
      return "passed";
    case Verdict::kFailed:
      return "failed";
    case Verdict::kSkipped:
      return "skipped";
    case Verdict::kKnownFailure:
      return "known failure";
    case Verdict::kFixed:
      return "fixed";
  }
  return "";
}

std::vector<Outcome> RunSuite(const std::vector<Case>& cases, const Profile& profile, const CaseOptions& options,
                              int jobs, const std::function<void(const Outcome&)>& report) {
  std::vector<Outcome> outcomes(cases.size());
  std::atomic<size_t> next{0};
  std::mutex reporting;
  const auto work = [&] {
    for (size_t i; (i = next++) < cases.size();) {
      outcomes[i] = RunOne(cases[i], profile, options);
      const std::lock_guard lock(reporting);
      report(outcomes[i]);
    }
  };
  // A program is killed when the thread that started it ends: each thread sees its cases to their end.
  std::vector<std::thread> threads;
  for (int i = 0; i < std::min<int>(jobs, static_cast<int>(cases.size())); ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

}  // namespace millstream::cli::conform
