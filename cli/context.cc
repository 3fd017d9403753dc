#include "cli/context.h"

#include <iostream>

#include "CLI/CLI.hpp"
#include "cli/access/open_access.h"
#include "common/base/strings.h"
#include "nlohmann/json.hpp"

namespace millstream::cli {

int Context::Fail(const absl::Status& status) const {
  if (json) {
    const nlohmann::json error = {
        {"error", {{"code", absl::StatusCodeToString(status.code())}, {"message", std::string(status.message())}}}};
    std::cerr << error.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
  } else {
    std::cerr << "millstream: " << status.message() << std::endl;
  }
  return kExitFailure;
}

int Context::Misuse(const std::string& message) const {
  std::cerr << "millstream: " << message << "\nRun with --help for more information." << std::endl;
  return kExitUsage;
}

absl::StatusOr<std::unique_ptr<LogAccess>> Context::Open(std::string_view command, bool create) const {
  OpenAccessOptions options;
  options.folder = data;
  options.program = StrCat("millstream ", command);
  options.create = create;
  options.on_wait = [](const std::string& holder) { std::cerr << "millstream: waiting: " << holder << std::endl; };
  return OpenAccess(options);
}

void Context::AddDataOption(CLI::App* command) {
  command->add_option("--data", data, "Folder of the local run: topics, state, everything")
      ->envname("MILLSTREAM_DATA")
      ->capture_default_str();
}

void Context::AddOutputOption(CLI::App* command) {
  command
      ->add_option_function<std::string>(
          "-o,--output", [this](const std::string& format) { json = format == "json"; },
          "How to print results: text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->type_name("text|json");
}

}  // namespace millstream::cli
