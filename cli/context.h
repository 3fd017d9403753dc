#ifndef MILLSTREAM_CLI_CONTEXT_H_
#define MILLSTREAM_CLI_CONTEXT_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/access/log_access.h"
#include "common/spec/stream_processor.h"

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
  // Instead of the data folder (design note 0002): --kafka, --kafka-config, --secrets, and the manifest, which says how
  // to log in and what the processor is.
  std::string kafka, kafka_config, secrets, manifest;
  std::string processor;          // --processor
  std::string cluster = "local";  // --cluster: part of the owner stamp of a group

  // Prints the error to standard error (as a JSON object with -o json) and returns kExitFailure.
  int Fail(const absl::Status& status) const;
  // Prints and returns kExitUsage.
  int Misuse(const std::string& message) const;

  bool OnKafka() const { return !kafka.empty() || !kafka_config.empty(); }
  // Kafka, or the data folder, see OpenAccess; says on standard error when it waits for another command.
  absl::StatusOr<std::unique_ptr<LogAccess>> Open(std::string_view command, bool create) const;
  // The processor that is meant: of --manifest, else of those that ran on the data folder; --processor (namespace/name
  // or the name alone) chooses among several. INVALID_ARGUMENT says which there are.
  absl::StatusOr<spec::StreamProcessorSpec> Processor() const;
  // Runs a tool (cli/tools/tool.h) where the log is. `command` as for Open.
  absl::StatusOr<std::string> RunTool(std::string_view command, const std::string& tool,
                                      const std::string& request) const;

  // Adds --data / --cluster / --data, --kafka, --kafka-config, --secrets, --manifest and --processor / -o to a command.
  void AddDataOption(CLI::App* command);
  void AddClusterOption(CLI::App* command);
  enum class ManifestFlag { kShort, kLong };  // whether -f means the manifest, too
  void AddLogOptions(CLI::App* command, ManifestFlag flag);
  void AddOutputOption(CLI::App* command);

 private:
  absl::StatusOr<std::unique_ptr<LogAccess>> OpenKafka() const;
};

}  // namespace millstream::cli

#endif  // MILLSTREAM_CLI_CONTEXT_H_
