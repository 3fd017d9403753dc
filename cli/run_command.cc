#include <signal.h>
#include <unistd.h>

#include <charconv>
#include <iostream>

#include "CLI/CLI.hpp"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "cli/run/runner.h"
#include "common/base/strings.h"

namespace millstream::cli {
namespace {

// "8080", ":8080", "0.0.0.0:8080", "[::1]:8080", "127.0.0.1", "off".
bool ParseHttp(const std::string& text, RunOptions* options) {
  if (text == "off") {
    options->http = false;
    return true;
  }
  std::string address = text, port;
  const size_t colon = text.rfind(':');
  if (text.find_first_not_of("0123456789") == std::string::npos) {
    address = "";
    port = text;
  } else if (colon != std::string::npos && (text.find(':') == colon || text[0] == '[') && text.back() != ']') {
    address = text.substr(0, colon);
    port = text.substr(colon + 1);
  }
  if (address.size() > 2 && address.front() == '[' && address.back() == ']')
    address = address.substr(1, address.size() - 2);
  if (!address.empty()) options->http_address = address;
  if (port.empty()) return true;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), options->http_port);
  return error == std::errc() && end == port.data() + port.size() && options->http_port >= 0 &&
         options->http_port <= 65535;
}

int Run(const Context& context, RunOptions options) {
  CatchInterrupts();
  options.data = context.data;
  options.default_data = context.data == Context().data;
  options.screen = context.json                ? Screen::Kind::kJson
                   : IsTerminal(STDERR_FILENO) ? Screen::Kind::kTerminal
                                               : Screen::Kind::kPlain;
  Runner runner(std::move(options));
  const absl::Status started = runner.Start();
  if (started.ok()) return runner.Loop();
  return context.Fail(started);
}

}  // namespace

void RegisterRun(CLI::App* app, Context* context) {
  auto options = std::make_shared<RunOptions>();
  auto http = std::make_shared<std::string>("127.0.0.1:0");
  auto partitions = std::make_shared<int>(0);
  auto memory = std::make_shared<uint64_t>(0);
  auto grace = std::make_shared<int>(30);
  CLI::App* command =
      app->add_subcommand("run", "Run processors on this machine: on topics in a folder, no Kafka needed, or on a Kafka");
  command
      ->add_option("-f,--file", options->files,
                   "Manifest; several run a pipeline, each with the worker of its container.command and args")
      ->required()
      ->allow_extra_args(false)
      ->type_name("FILE");
  command->add_option("command", options->command, "Worker of a single processor, behind --")->type_name("-- COMMAND");
  context->AddDataOption(command);
  command
      ->add_option("--kafka", options->kafka,
                   "Bootstrap servers of a Kafka to use instead of topics in the folder, which then holds state and ids "
                   "only; they replace those of the manifests' kafka blocks, the rest of which is honoured")
      ->type_name("HOST:PORT,...");
  command
      ->add_option("--secrets", options->secrets,
                   "With --kafka: folder of the secrets that the manifests refer to, as DIR/<name>/<key>")
      ->type_name("DIR");
  command
      ->add_option(
          "--partitions", *partitions,
          "Partitions of input topics that have to be made; default: those of the first output's create, else 4; on Kafka "
          "missing input topics are made only if this is given")
      ->check(CLI::Range(1, 10000));
  command
      ->add_option(
          "--http", *http,
          "Where HTTP listens (/v1/stores, /v1/tasks, /metrics): ADDRESS:PORT, PORT or off; port 0 is a free one; "
          "with several processors the next ports follow")
      ->capture_default_str()
      ->type_name("ADDRESS");
  command->add_flag("--watch", options->watch, "Start the worker again when files beside its program change");
  command
      ->add_option("--memory", *memory,
                   "Bound on the memory of this process, as 512MiB; default: the cgroup's limit, else the lesser of "
                   "512 MiB and a quarter of the RAM")
      ->transform(CLI::AsSizeValue(false))
      ->type_name("SIZE");
  command->add_option("--grace", *grace, "Seconds that Ctrl-C waits for work in flight")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
  command->add_flag("-v,--verbose", options->verbose, "More log lines");
  context->AddOutputOption(command);
  command->footer(
      "Ctrl-C finishes and commits what is in flight; a second one ends at once, and what was not committed is done "
      "again next time.\n"
      "A worker that ends is started again. Killing anything at any time loses and doubles nothing.\n\n"
      "Examples:\n"
      "  millstream run -f processor.yaml -- python totals.py\n"
      "  millstream run -f processor.yaml --watch --http 8080 -- python totals.py\n"
      "  millstream run -f orders.yaml -f totals.yaml\n"
      "  millstream run -f processor.yaml --kafka localhost:9092 --data totals-1 -- python totals.py");
  command->callback([=] {
    context->selected = [=]() -> int {
      if (options->kafka.empty() && !options->secrets.empty())
        return context->Misuse("--secrets is for --kafka: without it the manifests' kafka blocks are not used");
      if (!ParseHttp(*http, options.get()))
        return context->Misuse(StrCat("--http ", *http, ": give ADDRESS:PORT, PORT or off"));
      if (*partitions > 0) options->partitions = *partitions;
      options->memory_bytes = static_cast<int64_t>(*memory);
      options->grace = absl::Seconds(*grace);
      return Run(*context, *options);
    };
  });
}

}  // namespace millstream::cli
