#ifndef MILLSTREAM_CLI_CONTEXT_H_
#define MILLSTREAM_CLI_CONTEXT_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/access/log_access.h"

namespace CLI {
class App;
}

namespace millstream::cli {

// Exit codes of the program, documented in --help.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure = 1;        // the command was understood and failed
inline constexpr int kExitUsage = 2;          // wrong arguments; nothing was done
inline constexpr int kExitInterrupted = 130;  // aborted by a second Ctrl-C

// What every command shares. Commands register themselves (commands.h), parse into their own options and put what is to
// be done into `selected`; main runs it. One per process; single-threaded.
struct Context {
  std::string data = ".millstream";  // --data, $MILLSTREAM_DATA
  bool json = false;                 // -o json
  std::function<int()> selected;

  // Prints the error to standard error (as a JSON object with -o json) and returns kExitFailure.
  int Fail(const absl::Status& status) const;
  // Prints and returns kExitUsage.
  int Misuse(const std::string& message) const;

  // The data folder, see OpenAccess; says on standard error when it waits for another command.
  absl::StatusOr<std::unique_ptr<LogAccess>> Open(std::string_view command, bool create) const;

  // Adds --data / -o to a command.
  void AddDataOption(CLI::App* command);
  void AddOutputOption(CLI::App* command);
};

}  // namespace millstream::cli

#endif  // MILLSTREAM_CLI_CONTEXT_H_
