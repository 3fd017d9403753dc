#ifndef MILLSTREAM_CLI_RUN_WORKER_PROCESS_H_
#define MILLSTREAM_CLI_RUN_WORKER_PROCESS_H_

#include <sys/types.h>

#include <csignal>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace millstream::cli {

struct WorkerProcessOptions {
  std::vector<std::string> command;                              // program and arguments
  std::string working_directory;                                 // empty: ours
  std::vector<std::pair<std::string, std::string>> environment;  // on top of ours
};

// The worker of a local run as a child process: in a process group of its own (Ctrl-C of the terminal does not reach
// it), killed with us whatever kills us, its output passed on line by line, started again when it ends. All on one
// thread, which must live as long as the child (the kernel's rule for "killed with us").
class WorkerProcess {
 public:
  // `print` gets whole lines of output, and what there is to say about the process.
  using Print = std::function<void(std::string_view line)>;
  WorkerProcess(WorkerProcessOptions options, Print print);
  // Kills it.
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  // NOT_FOUND or PERMISSION_DENIED if the program cannot be run.
  absl::Status Start();
  bool running() const { return pid_ > 0; }
  pid_t pid() const { return pid_; }

  // Descriptors to poll for reading; call Service when one is readable, and every 100 ms anyway.
  std::vector<int> Descriptors() const;
  // Reads output, notices the end of the process, starts it again when its pause is over: 200 ms, doubled with each end
  // in less than 10 s up to 30 s.
  void Service(absl::Duration now);

  // SIGTERM now and, with `Service`, SIGKILL soon after (a worker told to stop would serve on until the sidecar's
  // GOODBYE, and killing it loses nothing); then a new start without pause. For --watch.
  void Restart(absl::Duration now);
  // How many times it was started.
  int starts() const { return starts_; }
  // From here on it is not started again. SIGTERM, SIGKILL after `grace`; running() tells when it is gone.
  void Stop(absl::Duration now, absl::Duration grace);
  // Not started again, and not told: it was asked to leave by GOODBYE.
  void NoMoreStarts() { wanted_ = false; }
  void Kill();
  // SIGKILL for a program that hangs; Service starts it again after the usual pause.
  void Replace() { Signal(SIGKILL); }
  // The process or one it started, as long as that stays in its group.
  bool Includes(pid_t pid) const;
  // SIGKILL for one of several processes of the program, which starts it again by itself (or ends). Needs Includes.
  void ReplaceOne(pid_t pid);

 private:
  struct Stream {
    int descriptor = -1;
    std::string pending;  // the beginning of a line
  };

  absl::Status StartProcess();
  void ReadFrom(Stream* stream, bool all);
  void Reap(absl::Duration now);
  void Signal(int number);

  const WorkerProcessOptions options_;
  const Print print_;
  pid_t pid_ = -1;
  Stream output_[2];  // standard output, standard error
  bool wanted_ = false;
  absl::Duration started_at_, pause_ = absl::ZeroDuration();
  std::optional<absl::Duration> start_at_, kill_at_;
  bool restarting_ = false;
  int starts_ = 0;
};

}  // namespace millstream::cli

#endif  // MILLSTREAM_CLI_RUN_WORKER_PROCESS_H_
