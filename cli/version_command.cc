#include <iostream>

#include "CLI/CLI.hpp"
#include "cli/commands.h"
#include "sidecar/protocol/messages.h"

namespace millstream::cli {
namespace {

constexpr const char* kVersion = MILLSTREAM_VERSION;  // of the project, from the build

}  // namespace

void RegisterVersion(CLI::App* app, Context* context) {
  CLI::App* command = app->add_subcommand("version", "Version of the program, the manifest and the worker protocol");
  context->AddOutputOption(command);
  command->callback([=] {
    context->selected = [=] {
      if (context->json) {
        std::cout << "{\"version\":\"" << kVersion << "\",\"manifest\":\"millstream.dev/v1alpha1\",\"protocol\":["
                  << protocol::kMinVersion << "," << protocol::kMaxVersion << "]}" << std::endl;
      } else {
        std::cout << "millstream " << kVersion << "\nmanifest  millstream.dev/v1alpha1\nprotocol  "
                  << protocol::kMinVersion << " to " << protocol::kMaxVersion << std::endl;
      }
      return kExitOk;
    };
  });
}

}  // namespace millstream::cli
