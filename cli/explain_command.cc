#include <iostream>
#include <vector>

#include "CLI/CLI.hpp"
#include "cli/commands.h"
#include "common/spec/manifest.h"
#include "common/spec/topology.h"

namespace millstream::cli {
namespace {

int Explain(const Context& context, const std::vector<std::string>& files, bool mermaid) {
  const spec::ParseResult result = spec::ValidateFiles(files);
  if (!result.diagnostics.empty()) std::cerr << spec::ToText(result.diagnostics);
  if (!result.ok()) return kExitFailure;
  std::vector<spec::StreamProcessorSpec> processors;
  for (const spec::Manifest& manifest : result.manifests) processors.push_back(manifest.processor);
  if (processors.empty()) return context.Fail(absl::InvalidArgumentError("no StreamProcessor in the files"));
  std::cout << (context.json ? spec::ExplainJson(processors)
                : mermaid    ? spec::ExplainMermaid(processors)
                             : spec::ExplainText(processors));
  std::cout.flush();
  return kExitOk;
}

}  // namespace

void RegisterExplain(CLI::App* app, Context* context) {
  auto files = std::make_shared<std::vector<std::string>>();
  auto mermaid = std::make_shared<bool>(false);
  CLI::App* command = app->add_subcommand("explain", "Show how processors, topics and stores hang together");
  command->add_option("-f,--file,files", *files, "Manifests; several show a pipeline")->required()->type_name("FILE");
  command->add_flag("--mermaid", *mermaid, "A Mermaid flowchart instead of text");
  context->AddOutputOption(command);
  command->footer(
      "Examples:\n  millstream explain -f processor.yaml\n  millstream explain -f orders.yaml -f totals.yaml --mermaid "
      "> topology.mmd");
  command->callback([=] { context->selected = [=] { return Explain(*context, *files, *mermaid); }; });
}

}  // namespace millstream::cli
