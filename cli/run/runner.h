#ifndef MILLSTREAM_CLI_RUN_RUNNER_H_
#define MILLSTREAM_CLI_RUN_RUNNER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "cli/access/control_server.h"
#include "cli/access/local_access.h"
#include "cli/run/file_watch.h"
#include "cli/run/screen.h"
#include "cli/run/worker_process.h"
#include "common/log/embedded/embedded_log.h"
#include "common/spec/manifest.h"
#include "sidecar/host/data_folder.h"
#include "sidecar/host/sidecar.h"
#include "sidecar/server/http_endpoints.h"

namespace millstream::cli {

struct RunOptions {
  std::vector<std::string> files;
  std::vector<std::string> command;  // for a single processor; otherwise container.command and args
  std::string data;
  bool default_data = true;          // the commands of the first screen need no --data
  std::optional<int> partitions;     // of input topics that have to be made
  std::string http_address = "127.0.0.1";
  int http_port = 0;                 // 0: free ones; otherwise this and the following ones
  bool http = true;
  bool watch = false;
  bool verbose = false;
  int64_t memory_bytes = 0;          // 0: DefaultMemoryBytes
  absl::Duration grace = absl::Seconds(30);  // for draining
  Screen::Kind screen = Screen::Kind::kPlain;
};

// `millstream run`: the data folder, one sidecar and one worker process per manifest, the control socket for other terminals,
// and the screen. Used on the main thread: worker processes die with the thread that made them.
class Runner {
 public:
  explicit Runner(RunOptions options);
  ~Runner();

  // Everything up to running workers. On an error nothing keeps running.
  absl::Status Start();
  // Until an interrupt, then drains. A second interrupt ends at once. Returns the exit code.
  int Loop();

 private:
  struct Processor {
    spec::Manifest manifest;
    std::vector<std::string> command;
    std::string socket_path;
    std::unique_ptr<MetricsRegistry> metrics;
    std::unique_ptr<host::Sidecar> sidecar;
    std::unique_ptr<server::HttpEndpoints> http;
    std::unique_ptr<WorkerProcess> worker;
    std::unique_ptr<FileWatch> watch;
    std::vector<int> output_partitions;
    int tasks = 0;
  };

  absl::Status ReadManifests();
  absl::Status OpenFolder();
  absl::Status StartSidecars();
  absl::Status StartHttp(size_t index);
  absl::Status StartWorkers();
  void ShowFirstScreen();
  void Wait();
  void LookAtFiles(absl::Duration now);
  int Drain();
  // Lets workers end by themselves after GOODBYE, then with SIGTERM, then with SIGKILL.
  void EndWorkers();
  bool Aborted() const;

  const RunOptions options_;
  Screen screen_;
  std::vector<Processor> processors_;  // its sidecars use what is declared below: see ~Runner
  std::unique_ptr<host::DataFolder> folder_;
  std::unique_ptr<log::EmbeddedLog> log_;
  std::unique_ptr<store::StateEnvironment> environment_;
  host::MemoryShares memory_;
  std::string socket_folder_;
  std::unique_ptr<StateBackend> state_;
  std::unique_ptr<LocalAccess> access_;
  std::unique_ptr<ControlServer> control_;
  absl::Duration next_look_ = absl::ZeroDuration();
};

}  // namespace millstream::cli

#endif  // MILLSTREAM_CLI_RUN_RUNNER_H_
