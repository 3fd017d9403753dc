#ifndef MILLSTREAM_CLI_KUBERNETES_COMMAND_LINE_H_
#define MILLSTREAM_CLI_KUBERNETES_COMMAND_LINE_H_

#include <string_view>

namespace millstream::cli {

// Whether the program was started as kubectl's plugin: under the name kubectl-millstream, whatever the folder.
bool IsKubectlPlugin(std::string_view program);

// `kubectl millstream ...`; returns the exit code (context.h).
int RunKubectlPlugin(int argc, char** argv);

}  // namespace millstream::cli

#endif  // MILLSTREAM_CLI_KUBERNETES_COMMAND_LINE_H_
