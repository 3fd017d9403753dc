#ifndef MILLSTREAM_CLI_RUN_RUNNER_H_
#define MILLSTREAM_CLI_RUN_RUNNER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/access/control_server.h"
#include "cli/access/local_access.h"
#include "cli/run/file_watch.h"
#include "cli/run/screen.h"
#include "cli/run/worker_process.h"
#include "common/spec/manifest.h"
#include "sidecar/host/local_stack.h"

namespace millstream::cli {

struct RunOptions {
  std::vector<std::string> files;
  std::vector<std::string> command;  // for a single processor; otherwise container.command and args
  std::string kafka;                 // bootstrap servers; empty: the topics are in the folder
  std::string secrets;               // folder of what the manifests' kafka blocks refer to; empty: none
  std::string data;
  bool default_data = true;       // the commands of the first screen need no --data
  std::optional<int> partitions;  // of input topics that have to be made
  std::string http_address = "127.0.0.1";
  int http_port = 0;  // 0: free ones; otherwise this and the following ones
  bool http = true;
  bool watch = false;
  bool verbose = false;
  int64_t memory_bytes = 0;                  // 0: DefaultMemoryBytes
  absl::Duration grace = absl::Seconds(30);  // for draining
  Screen::Kind screen = Screen::Kind::kPlain;
};

// `millstream run`: the data folder, one sidecar and one worker process per manifest, the control socket for other
// terminals, and the screen. Used on the main thread: worker processes die with the thread that made them.
class Runner {
 public:
  explicit Runner(RunOptions options);
  ~Runner();

  // Everything up to running workers. On an error nothing keeps running.
  absl::Status Start();
  // Until an interrupt, then drains. A second interrupt ends at once. Returns the exit code.
  int Loop();

 private:
  struct Worker {
    size_t index = 0;       // of its processor: views have none
    std::string processor;  // its name
    std::vector<std::string> command;
    std::string prefix;  // of what it prints
    std::unique_ptr<WorkerProcess> process;
    std::unique_ptr<FileWatch> watch;
    int revive_at = 0;  // with this start of the process stopped tasks go on; 0: they do not
    // Connected with this process id at some time; and since when that process runs without a connection.
    pid_t connected_pid = -1;
    std::optional<absl::Duration> silent_since;
    std::set<pid_t> killed;  // of those that hang now
  };

  absl::StatusOr<std::vector<spec::Manifest>> ReadManifests();
  absl::Status StartStack(std::vector<spec::Manifest> manifests);
  absl::Status StartControl();
  absl::Status StartWorkers();
  void ShowFirstScreen();
  // Polls once, at most 100 ms: output, ends of processes, the screen.
  void Wait();
  void LookAtFiles(absl::Duration now);
  // Ends workers that lost their connection and do not come back: they hang, and a hanging program never restarts
  // itself. Of a program with several processes those that hang (the program starts them again), or the program when
  // none is connected any more.
  void ReplaceHangingWorkers(absl::Duration now);
  void ReplaceHangingProcesses(Worker& worker, const std::vector<server::LostWorker>& hanging);
  int Drain();
  // SIGTERM, then SIGKILL.
  void EndWorkers();

  const RunOptions options_;
  Screen screen_;
  std::string socket_folder_;
  std::unique_ptr<host::LocalStack> stack_;
  std::unique_ptr<ProcessorBackend> state_;
  std::unique_ptr<LocalAccess> access_;
  std::unique_ptr<ControlServer> control_;
  std::vector<Worker> workers_;  // one per processor of the stack
  bool ended_ = false;           // a processor can never go on in this process
  absl::Duration next_look_ = absl::ZeroDuration();
};

}  // namespace millstream::cli

#endif  // MILLSTREAM_CLI_RUN_RUNNER_H_
