#include <fstream>
#include <iostream>
#include <sstream>

#include "CLI/CLI.hpp"
#include "cli/commands.h"
#include "cli/conform/suite.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::cli {
namespace {

struct ConformOptions {
  std::vector<std::string> command, patterns;
  std::string cases_folder, profile, junit, name = "conformance";
  int jobs = 4, timeout_seconds = 20;
  bool list = false, frames = false;
};

absl::StatusOr<std::vector<conform::Case>> ChosenCases(const ConformOptions& options) {
  auto cases = options.cases_folder.empty() ? conform::BuiltInCases() : conform::CasesOf(options.cases_folder);
  if (!cases.ok() || options.patterns.empty()) return cases;
  std::vector<conform::Case> chosen;
  for (conform::Case& one : *cases) {
    for (const std::string& pattern : options.patterns) {
      if (one.name.find(pattern) == std::string::npos) continue;
      chosen.push_back(std::move(one));
      break;
    }
  }
  if (chosen.empty()) return absl::NotFoundError("no case has such a name; millstream conform --list shows them");
  return chosen;
}

absl::StatusOr<conform::Profile> ReadProfile(const ConformOptions& options) {
  if (options.profile.empty()) return conform::Profile();
  std::ifstream in(options.profile, std::ios::binary);
  if (!in) return absl::NotFoundError(StrCat("profile ", options.profile, " cannot be read"));
  std::stringstream text;
  text << in.rdbuf();
  // Against all cases, also where few are chosen.
  MS_ASSIGN_OR_RETURN(const std::vector<conform::Case> all,
                      options.cases_folder.empty() ? conform::BuiltInCases() : conform::CasesOf(options.cases_folder));
  return conform::ParseProfile(options.profile, text.str(), all);
}

int List(const std::vector<conform::Case>& cases) {
  for (const conform::Case& one : cases) {
    std::cout << one.name;
    for (const std::string& feature : one.needs) std::cout << " [" << feature << "]";
    std::cout << "\n    " << one.about << "\n";
  }
  std::cout << std::flush;
  return kExitOk;
}

int Conform(const Context& context, const ConformOptions& options) {
  const absl::StatusOr<std::vector<conform::Case>> cases = ChosenCases(options);
  if (!cases.ok()) return context.Fail(cases.status());
  if (options.list) return List(*cases);
  if (options.command.empty())
    return context.Misuse("give the worker's command behind --, as in: millstream conform -- python worker.py");
  const absl::StatusOr<conform::Profile> profile = ReadProfile(options);
  if (!profile.ok()) return context.Fail(profile.status());

  const conform::CaseOptions case_options{options.command, absl::Seconds(options.timeout_seconds)};
  const auto report = [&](const conform::Outcome& outcome) {
    if (!context.json) std::cout << conform::ToText(outcome, options.frames) << std::flush;
  };
  const std::vector<conform::Outcome> outcomes =
      conform::RunSuite(*cases, *profile, case_options, options.jobs, report);
  if (!options.junit.empty()) {
    std::ofstream out(options.junit, std::ios::binary | std::ios::trunc);
    out << conform::ToJUnit(outcomes, options.name);
    out.close();
    if (!out) return context.Fail(absl::FailedPreconditionError(StrCat(options.junit, " cannot be written")));
  }
  std::cout << (context.json ? conform::ToJsonText(outcomes) : conform::Summary(outcomes)) << std::endl;
  const bool bad = std::any_of(outcomes.begin(), outcomes.end(),
                               [](const conform::Outcome& outcome) { return conform::IsBad(outcome.verdict); });
  return bad ? kExitFailure : kExitOk;
}

}  // namespace

void RegisterConform(CLI::App* app, Context* context) {
  auto options = std::make_shared<ConformOptions>();
  CLI::App* command =
      app->add_subcommand("conform", "Check a worker against the worker protocol, with a scripted sidecar");
  command->add_option("command", options->command, "The conformance worker, behind --")->type_name("-- COMMAND");
  command->add_option("--case", options->patterns, "Only cases with this in their name; may be repeated")
      ->allow_extra_args(false)
      ->type_name("TEXT");
  command->add_option("--cases", options->cases_folder, "Folder of case files; default: those built in")
      ->type_name("DIR");
  command
      ->add_option("--profile", options->profile,
                   "YAML with the features the worker lacks and the cases it is known to fail, each with the reason")
      ->type_name("FILE");
  command->add_option("--junit", options->junit, "Write the outcome there in JUnit's format")->type_name("FILE");
  command->add_option("--name", options->name, "Name of the suite in it")->capture_default_str();
  command->add_option("-j,--jobs", options->jobs, "Cases at the same time, each with a process of its own")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_option("--timeout", options->timeout_seconds, "Seconds that a single frame is waited for")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
  command->add_flag("--list", options->list, "List the cases; runs nothing");
  command->add_flag("-v,--verbose", options->frames, "Show the frames of every case");
  context->AddOutputOption(command);
  command->footer(
      "Each case starts the program anew. What a conformance worker has to do is in docs/reference/conformance.md.\n"
      "Exit code 0: all passed, or failed as the profile says; 1: something failed.\n\n"
      "Examples:\n"
      "  millstream conform --list\n"
      "  millstream conform -- python worker.py\n"
      "  millstream conform --case batches/ --junit result.xml -- ./worker");
  command->callback([=] { context->selected = [=] { return Conform(*context, *options); }; });
}

}  // namespace millstream::cli
