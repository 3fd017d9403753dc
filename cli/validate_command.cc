#include <iostream>

#include "CLI/CLI.hpp"
#include "cli/commands.h"
#include "common/base/strings.h"
#include "common/spec/manifest.h"

namespace millstream::cli {
namespace {

int Validate(const Context& context, const std::vector<std::string>& files) {
  const spec::ParseResult result = spec::ValidateFiles(files);
  if (context.json) {
    std::cout << spec::ToJson(result.diagnostics) << std::endl;
    return result.ok() ? kExitOk : kExitFailure;
  }
  std::cerr << spec::ToText(result.diagnostics);
  if (!result.ok()) return kExitFailure;
  for (const spec::Manifest& manifest : result.manifests) {
    std::cout << manifest.file << ": " << manifest.processor.QualifiedName() << " is valid" << std::endl;
  }
  if (result.manifests.empty()) {
    std::cerr << "millstream: no StreamProcessor in " << (files.size() == 1 ? files[0] : StrCat(files.size(), " files"))
              << std::endl;
    return kExitFailure;
  }
  return kExitOk;
}

}  // namespace

void RegisterValidate(CLI::App* app, Context* context) {
  auto files = std::make_shared<std::vector<std::string>>();
  CLI::App* command = app->add_subcommand("validate", "Check manifests; every error with file, line and field");
  command->add_option("files", *files, "Manifests, YAML or JSON; - is standard input")->required()->type_name("FILE");
  context->AddOutputOption(command);
  command->footer(
      "Exit code 0: all valid; 1: errors. The same rules as the API server's, and those it cannot check.\n\n"
      "Example:\n  millstream validate processor.yaml");
  command->callback([=] { context->selected = [=] { return Validate(*context, *files); }; });
}

}  // namespace millstream::cli
