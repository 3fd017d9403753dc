#include "cli/command_line.h"

#include <signal.h>

#include <iostream>

#include "CLI/CLI.hpp"
#include "cli/commands.h"

namespace millstream::cli {

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
