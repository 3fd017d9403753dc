#ifndef MILLSTREAM_CLI_CONFORM_WORKER_PROGRAM_H_
#define MILLSTREAM_CLI_CONFORM_WORKER_PROGRAM_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace millstream::cli::conform {

// The program under test, started once per case: what it prints is kept in a file without a name. Killed, with all it
// started in its process group, when this ends or the thread that started it. One thread.
class WorkerProgram {
 public:
  // `variables`: NAME=VALUE, over those of this process.
  WorkerProgram(std::vector<std::string> command, std::vector<std::string> variables)
      : command_(std::move(command)), variables_(std::move(variables)) {}
  ~WorkerProgram();
  WorkerProgram(const WorkerProgram&) = delete;
  WorkerProgram& operator=(const WorkerProgram&) = delete;

  // With MILLSTREAM_SOCKET set. Precondition: not running.
  absl::Status Start(const std::string& socket_path);
  bool running();
  void Signal(int number);
  // Its exit code, 128 + N for a signal N; nullopt if it does not end in time.
  std::optional<int> WaitForExit(absl::Duration timeout);
  // The end of what it printed, at most 4 KiB.
  std::string Output() const;

 private:
  const std::vector<std::string> command_, variables_;
  pid_t pid_ = -1;
  int output_ = -1;
  std::optional<int> exit_code_;
};

}  // namespace millstream::cli::conform

#endif  // MILLSTREAM_CLI_CONFORM_WORKER_PROGRAM_H_
