#include "cli/run/runner.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <thread>
#include <utility>

#include "cli/access/state_answers.h"
#include "cli/context.h"
#include "cli/interrupt.h"
#include "cli/run/socket_folder.h"
#include "common/base/clock.h"
#include "common/base/log_line.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "sidecar/host/cluster_access.h"

namespace millstream::cli {
namespace {

constexpr const char kProgram[] = "millstream run";
constexpr int kPollMilliseconds = 100;
constexpr absl::Duration kWatchInterval = absl::Milliseconds(500);
// Between SIGTERM and SIGKILL, once everything is committed.
constexpr absl::Duration kWorkerGrace = absl::Seconds(3);
// The whole program, when none of its processes that could be named was the one that hangs.
constexpr absl::Duration kSilentGrace = absl::Seconds(4);  // beyond LostWorkers::kGrace

LogLevel LevelOf(const std::vector<spec::Manifest>& manifests, bool verbose) {
  if (verbose) return LogLevel::kInfo;
  const bool debug = std::any_of(manifests.begin(), manifests.end(), [](const spec::Manifest& manifest) {
    return manifest.processor.sidecar.log_level == spec::LogLevel::kDebug;
  });
  return debug ? LogLevel::kDebug : LogLevel::kWarning;
}

absl::StatusOr<std::vector<std::string>> CommandOf(const spec::Manifest& manifest,
                                                   const std::vector<std::string>& given) {
  if (!given.empty()) return given;
  std::vector<std::string> command = manifest.processor.container.command;
  command.insert(command.end(), manifest.processor.container.args.begin(), manifest.processor.container.args.end());
  if (!command.empty()) return command;
  return absl::InvalidArgumentError(
      StrCat(manifest.file, ": nothing says how to start the worker of ", manifest.processor.QualifiedName(),
             "; add it behind --, as in: millstream run -f ", manifest.file, " -- python totals.py"));
}

}  // namespace

Runner::Runner(RunOptions options) : options_(std::move(options)), screen_(options_.screen) {}

Runner::~Runner() {
  // Users before what they use: other terminals, workers, then everything else.
  control_.reset();
  workers_.clear();
  access_.reset();
  state_.reset();
  stack_.reset();
  if (!socket_folder_.empty()) RemoveSocketFolder(socket_folder_);
}

absl::Status Runner::Start() {
  MS_ASSIGN_OR_RETURN(std::vector<spec::Manifest> manifests, ReadManifests());
  MS_RETURN_IF_ERROR(StartStack(std::move(manifests)));
  MS_RETURN_IF_ERROR(StartControl());
  ShowFirstScreen();
  return StartWorkers();
}

absl::StatusOr<std::vector<spec::Manifest>> Runner::ReadManifests() {
  spec::ParseResult result = spec::ValidateFiles(options_.files);
  // Notes are for `validate`: nothing is to be done about them here.
  for (const spec::Diagnostic& diagnostic : result.diagnostics) {
    if (diagnostic.severity != spec::Severity::kNote) std::cerr << spec::ToText(diagnostic) << std::endl;
  }
  if (!result.ok()) return absl::InvalidArgumentError("the manifests have errors; nothing was started");
  if (result.manifests.empty())
    return absl::InvalidArgumentError("there is no StreamProcessor in the files given with -f");
  if (result.manifests.size() > 1 && !options_.command.empty()) {
    return absl::InvalidArgumentError(
        "-- COMMAND is for one processor; with several give each its own in container.command and args");
  }
  SetLogging(LevelOf(result.manifests, options_.verbose), LogFormat::kText);
  for (size_t i = 0; i < result.manifests.size(); ++i) {
    const spec::Manifest& manifest = result.manifests[i];
    if (manifest.processor.is_view()) {
      if (!options_.command.empty())
        return absl::InvalidArgumentError(
            StrCat(manifest.processor.QualifiedName(),
                   " has no inputs: it is a view, which runs no worker; leave out -- COMMAND"));
      continue;
    }
    Worker worker;
    worker.index = i;
    worker.processor = manifest.processor.name;
    MS_ASSIGN_OR_RETURN(worker.command, CommandOf(manifest, options_.command));
    worker.prefix = result.manifests.size() == 1 ? "[worker] " : StrCat("[", worker.processor, "] ");
    workers_.push_back(std::move(worker));
  }
  return std::move(result.manifests);
}

absl::Status Runner::StartStack(std::vector<spec::Manifest> manifests) {
  MS_ASSIGN_OR_RETURN(socket_folder_, MakeSocketFolder());
  host::LocalStackOptions options;
  options.data = options_.data;
  options.program = kProgram;
  for (size_t i = 0; i < manifests.size(); ++i) options.socket_paths.push_back(StrCat(socket_folder_, "/", i, ".sock"));
  if (!options_.kafka.empty()) {
    host::AccessSources sources;
    sources.bootstrap_servers = options_.kafka;
    sources.secrets_folder = options_.secrets;
    for (const spec::Manifest& manifest : manifests) {
      MS_ASSIGN_OR_RETURN(options.clusters.emplace_back(),
                          host::ResolveClusterAccess(manifest.processor.kafka, sources));
    }
    if (!sources.secrets_folder.empty()) {
      options.read_cluster = [sources](const spec::KafkaSpec& kafka) {
        return host::ResolveClusterAccess(kafka, sources);
      };
    }
  }
  options.manifests = std::move(manifests);
  options.partitions = options_.partitions;
  if (options_.http) options.http_address = options_.http_address;
  options.http_port = options_.http_port;
  options.memory_bytes = options_.memory_bytes;
  options.interrupted = [] { return Interrupts() > 0; };
  options.on_wait = [this](const std::string& what) { screen_.Print(StrCat("waiting: ", what)); };
  MS_ASSIGN_OR_RETURN(stack_, host::LocalStack::Start(std::move(options)));
  for (const std::string& warning : stack_->warnings()) screen_.Print(StrCat("warning: ", warning));
  return absl::OkStatus();
}

absl::Status Runner::StartControl() {
  std::vector<RunningProcessor> running;
  for (host::LocalStack::Processor& processor : stack_->processors()) {
    const spec::StreamProcessorSpec& spec = processor.manifest.processor;
    running.push_back({.name = spec.QualifiedName(),
                       .tasks = spec.TasksOf(processor.tasks),
                       .queries = processor.sidecar->queries(),
                       .restart = [sidecar = processor.sidecar.get()](TaskId task) { sidecar->RestartTask(task); },
                       .pause = [sidecar = processor.sidecar.get()](bool paused) { sidecar->SetPaused(paused); }});
  }
  state_ = NewRunningState(std::move(running));
  access_ = std::make_unique<LocalAccess>(stack_->log(), state_.get(), "this process");
  MS_ASSIGN_OR_RETURN(control_, ControlServer::Start(stack_->folder().path(), kProgram, access_.get()));
  return absl::OkStatus();
}

absl::Status Runner::StartWorkers() {
  for (Worker& worker : workers_) {
    const host::LocalStack::Processor& processor = stack_->processors()[worker.index];
    const spec::ContainerSpec& container = processor.manifest.processor.container;
    WorkerProcessOptions options;
    options.command = worker.command;
    if (options_.command.empty()) options.working_directory = container.working_dir;
    // What a SIGTERM here means: --watch wants another program now. (At the end the sidecar says GOODBYE first.)
    options.environment.emplace_back("MILLSTREAM_STOP_TIMEOUT", "1");
    options.environment.insert(options.environment.end(), container.env.begin(), container.env.end());
    options.environment.emplace_back("MILLSTREAM_SOCKET", processor.socket_path);
    worker.process = std::make_unique<WorkerProcess>(
        std::move(options),
        [this, prefix = worker.prefix](std::string_view line) { screen_.Print(StrCat(prefix, line)); });
    if (options_.watch) {
      worker.watch = std::make_unique<FileWatch>(worker.command);
      if (worker.watch->places().empty())
        screen_.Print(
            StrCat(worker.processor, ": --watch: the command names no file of yours, so there is nothing to watch"));
    }
    MS_RETURN_IF_ERROR(worker.process->Start());
  }
  return absl::OkStatus();
}

void Runner::ShowFirstScreen() {
  if (!stack_->created_topics().empty()) {
    std::string list;
    for (const std::string& topic : stack_->created_topics()) StrAppend(&list, list.empty() ? "" : ", ", topic);
    screen_.Print(StrCat("topics made: ", list));
  }
  std::vector<RunningView> views;
  for (const host::LocalStack::Processor& processor : stack_->processors()) {
    views.push_back({.spec = &processor.manifest.processor,
                     .tasks = static_cast<int>(processor.manifest.processor.TasksOf(processor.tasks).size()),
                     .output_partitions = processor.output_partitions,
                     .command = {},
                     .http = processor.http == nullptr ? "" : processor.http->authority()});
  }
  for (const Worker& worker : workers_) views[worker.index].command = worker.command;
  std::string screen =
      FirstScreen(options_.data, options_.kafka, options_.default_data ? "" : StrCat(" --data ", options_.data), views);
  screen.pop_back();
  screen_.Print(screen);
}

void Runner::Wait() {
  std::vector<pollfd> waiting = {{InterruptDescriptor(), POLLIN, 0}};
  for (const Worker& worker : workers_) {
    for (const int descriptor : worker.process->Descriptors()) waiting.push_back({descriptor, POLLIN, 0});
  }
  (void)poll(waiting.data(), waiting.size(), kPollMilliseconds);
  ClearInterruptDescriptor();
  const absl::Duration now = SystemClock().Monotonic();
  for (Worker& worker : workers_) worker.process->Service(now);
  if (!screen_.Due(now)) return;
  std::vector<std::pair<std::string, host::SidecarStatus>> statuses;
  for (const host::LocalStack::Processor& processor : stack_->processors()) {
    statuses.emplace_back(processor.manifest.processor.name, processor.sidecar->Status());
  }
  screen_.Show(now, statuses);
  for (const auto& [name, status] : statuses) {
    if (status.ended.ok() || ended_) continue;
    screen_.Print(StrCat(name, ": ", std::string(status.ended.message())));
    ended_ = true;
  }
}

void Runner::LookAtFiles(absl::Duration now) {
  if (!options_.watch || now < next_look_) return;
  next_look_ = now + kWatchInterval;
  for (Worker& worker : workers_) {
    if (worker.revive_at > 0 && worker.process->starts() >= worker.revive_at) {
      // What the old program failed at gets another chance with the new one.
      (void)state_->RestartTasks(worker.processor, {});
      worker.revive_at = 0;
    }
    if (!worker.watch->Changed()) continue;
    screen_.Print(StrCat(worker.processor, ": files changed, the worker starts again"));
    worker.process->Restart(now);
    worker.revive_at = worker.process->starts() + 1;
  }
}

void Runner::ReplaceHangingWorkers(absl::Duration now) {
  for (Worker& worker : workers_) {
    const pid_t pid = worker.process->running() ? worker.process->pid() : -1;
    const host::SidecarStatus status = stack_->processors()[worker.index].sidecar->Status();
    ReplaceHangingProcesses(worker, status.hanging_workers);
    if (!worker.killed.empty()) worker.silent_since.reset();  // their successors need a moment
    if (status.engine.workers > 0) {
      worker.connected_pid = pid;
      worker.silent_since.reset();
    } else if (pid < 0 || pid != worker.connected_pid) {
      worker.silent_since.reset();  // it ended by itself, or has yet to connect
    } else if (!worker.silent_since.has_value()) {
      worker.silent_since = now;
    } else if (now - *worker.silent_since > kSilentGrace) {
      screen_.Print(StrCat(worker.processor, ": the worker (pid ", pid,
                           ") lost its connection and does not come back: it hangs; killed, starts again"));
      worker.silent_since.reset();
      worker.connected_pid = -1;
      worker.process->Replace();
    }
  }
}

void Runner::ReplaceHangingProcesses(Worker& worker, const std::vector<server::LostWorker>& hanging) {
  std::set<pid_t> killed;
  for (const server::LostWorker& lost : hanging) {
    const pid_t pid = static_cast<pid_t>(lost.pid);
    // One that is not ours to kill (in a container, say) is named by the condition.
    if (!worker.process->Includes(pid)) continue;
    if (!worker.killed.contains(pid)) {
      screen_.Print(StrCat(worker.processor, ": the worker (pid ", pid,
                           ") lost its connection and does not come back: it hangs; killed, starts again"));
      worker.process->ReplaceOne(pid);
    }
    killed.insert(pid);
  }
  worker.killed = std::move(killed);
}

int Runner::Loop() {
  while (Interrupts() == 0 && !ended_) {
    Wait();
    const absl::Duration now = SystemClock().Monotonic();
    LookAtFiles(now);
    ReplaceHangingWorkers(now);
  }
  return Drain();
}

int Runner::Drain() {
  screen_.Print("finishing what is in flight; Ctrl-C again ends at once");
  const absl::Duration deadline = SystemClock().Monotonic() + options_.grace + absl::Seconds(1);
  for (Worker& worker : workers_) worker.process->NoMoreStarts();
  stack_->BeginDrain(options_.grace);
  while (!stack_->drained() && Interrupts() < 2 && SystemClock().Monotonic() < deadline) Wait();
  screen_.Finish();
  if (Interrupts() > 1) {
    for (Worker& worker : workers_) worker.process->Kill();
    RemoveSocketFolder(socket_folder_);
    std::cerr << "millstream: aborted; what was not committed is done again next time" << std::endl;
    std::_Exit(kExitInterrupted);
  }
  control_.reset();
  const bool in_order = stack_->Stop();
  EndWorkers();
  std::cerr << (in_order ? "millstream: everything is committed; goodbye"
                         : "millstream: not everything was finished in time; it is done again next time")
            << std::endl;
  if (stack_->stuck_calls() > 0) {
    // A thread is inside a call of the log, which therefore cannot be closed.
    RemoveSocketFolder(socket_folder_);
    std::_Exit(kExitFailure);
  }
  return ended_ ? kExitFailure : kExitOk;
}

void Runner::EndWorkers() {
  const auto wait = [this](absl::Duration until) {
    const auto any_running = [this] {
      return std::any_of(workers_.begin(), workers_.end(),
                         [](const Worker& worker) { return worker.process->running(); });
    };
    while (any_running() && Interrupts() < 2 && SystemClock().Monotonic() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      for (Worker& worker : workers_) worker.process->Service(SystemClock().Monotonic());
    }
  };
  const absl::Duration now = SystemClock().Monotonic();
  // They have been told GOODBYE and hold nothing any more; some would wait for the sidecar to come back.
  for (Worker& worker : workers_) worker.process->Stop(now, kWorkerGrace);
  wait(now + 2 * kWorkerGrace);
  for (Worker& worker : workers_) worker.process->Kill();
}

}  // namespace millstream::cli
