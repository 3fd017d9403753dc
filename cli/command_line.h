#ifndef MILLSTREAM_CLI_COMMAND_LINE_H_
#define MILLSTREAM_CLI_COMMAND_LINE_H_

namespace millstream::cli {

// The whole program: parses, runs the command, returns the exit code (context.h). Call once per process.
int RunCommandLine(int argc, char** argv);

}  // namespace millstream::cli

#endif  // MILLSTREAM_CLI_COMMAND_LINE_H_
