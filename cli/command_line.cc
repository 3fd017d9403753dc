#include "cli/command_line.h"

#include <signal.h>

#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "cli/commands.h"
#include "common/base/strings.h"
#include "common/spec/suggest.h"

namespace millstream::cli {
namespace {

// What to say about a first word that is no command where one has to stand, or about a group's; empty if there is one.
// CLI11 would only say that a command is missing.
std::string WrongCommand(const CLI::App& app, int argc, char** argv) {
  const CLI::App* group = &app;
  std::string path = app.get_name();
  for (int i = 1; i < argc && argv[i][0] != '-'; ++i) {
    std::vector<std::string> known;
    const CLI::App* chosen = nullptr;
    for (const CLI::App* each : group->get_subcommands([](const CLI::App*) { return true; })) {
      if (each->get_name() == argv[i]) chosen = each;
      if (!each->get_group().empty()) known.push_back(each->get_name());
    }
    if (known.empty()) return "";
    if (chosen == nullptr) {
      const std::optional<std::string> meant = spec::Suggest(argv[i], known);
      std::string all;
      for (const std::string& name : known) StrAppend(&all, all.empty() ? "" : ", ", name);
      return StrCat("'", argv[i], "' is no command of ", path, meant ? StrCat("; did you mean '", *meant, "'? ") : ". ",
                    "It has: ", all);
    }
    StrAppend(&path, " ", argv[i]);
    group = chosen;
  }
  return "";
}

}  // namespace

int RunCommandLine(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);  // a closed pipe is an error of the write, not the end of the process
  Context context;
  CLI::App app{"Millstream: exactly-once stateful stream processing in any language, on this machine or on Kubernetes.",
               "millstream"};
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "Help of every command");
  app.get_formatter()->column_width(34);
  app.footer(
      "Exit codes: 0 done; 1 failed, the reason is on standard error; 2 wrong arguments; 130 aborted by a second "
      "Ctrl-C.\n"
      "MILLSTREAM_DATA, MILLSTREAM_KAFKA, MILLSTREAM_KAFKA_CONFIG and MILLSTREAM_SECRETS are the defaults of --data, "
      "--kafka, --kafka-config and --secrets.\n\n"
      "Begin here:\n"
      "  millstream init hello\n"
      "  cd hello && millstream run -f processor.yaml -- python app.py\n"
      "and follow what it prints.");
  RegisterRun(&app, &context);
  RegisterInit(&app, &context);
  RegisterValidate(&app, &context);
  RegisterExplain(&app, &context);
  RegisterProduce(&app, &context);
  RegisterConsume(&app, &context);
  RegisterState(&app, &context);
  RegisterTopics(&app, &context);
  RegisterTasks(&app, &context);
  RegisterConform(&app, &context);
  RegisterLag(&app, &context);
  RegisterDeadLetters(&app, &context);
  RegisterReset(&app, &context);
  RegisterAdopt(&app, &context);
  RegisterCompletion(&app, &context);
  RegisterVersion(&app, &context);
  app.set_version_flag("--version", "millstream " MILLSTREAM_VERSION);

  if (const std::string wrong = WrongCommand(app, argc, argv); !wrong.empty()) {
    std::cerr << "millstream: " << wrong << std::endl;
    return kExitUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // Help and version end with 0; everything else is a usage error.
    return app.exit(error) == 0 ? kExitOk : kExitUsage;
  }
  try {
    return context.selected ? context.selected() : kExitUsage;
  } catch (const std::exception& error) {
    std::cerr << "millstream: internal error: " << error.what() << std::endl;
    return kExitFailure;
  }
}

}  // namespace millstream::cli
