#include "cli/run/runner.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <thread>
#include <utility>

#include "cli/context.h"
#include "cli/access/state_answers.h"
#include "cli/interrupt.h"
#include "cli/run/socket_folder.h"
#include "common/base/clock.h"
#include "common/base/log_line.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "sidecar/group/local_membership.h"

namespace millstream::cli {
namespace {

constexpr const char kProgram[] = "millstream run";
// A short command of another terminal may hold the folder just now.
constexpr absl::Duration kFolderPatience = absl::Seconds(5);
constexpr int kPollMilliseconds = 100;
constexpr absl::Duration kWatchInterval = absl::Milliseconds(500);
// A worker that was told GOODBYE ends by itself; so long after it gets SIGTERM, and again so long after SIGKILL.
constexpr absl::Duration kWorkerGrace = absl::Seconds(3);

LogLevel LevelOf(const std::vector<spec::Manifest>& manifests, bool verbose) {
  if (verbose) return LogLevel::kInfo;
  const bool debug = std::any_of(manifests.begin(), manifests.end(),
                                 [](const spec::Manifest& manifest) { return manifest.processor.sidecar.log_level == spec::LogLevel::kDebug; });
  return debug ? LogLevel::kDebug : LogLevel::kWarning;
}

absl::StatusOr<std::vector<std::string>> CommandOf(const spec::Manifest& manifest, const RunOptions& options, size_t processors) {
  if (!options.command.empty()) {
    if (processors > 1) {
      return absl::InvalidArgumentError("-- COMMAND is for one processor; with several give each its own in container.command and args");
    }
    return options.command;
  }
  std::vector<std::string> command = manifest.processor.container.command;
  command.insert(command.end(), manifest.processor.container.args.begin(), manifest.processor.container.args.end());
  if (command.empty()) {
    return absl::InvalidArgumentError(StrCat(manifest.file, ": nothing says how to start the worker of ", manifest.processor.QualifiedName(),
                                             "; add it behind --, as in: millstream run -f ", manifest.file, " -- python totals.py"));
  }
  return command;
}

}  // namespace

Runner::Runner(RunOptions options) : options_(std::move(options)), screen_(options_.screen) {}

Runner::~Runner() {
  // Users before what they use: other terminals, HTTP, workers, sidecars, then state and log.
  control_.reset();
  for (Processor& processor : processors_) {
    if (processor.http != nullptr) processor.http->Stop(absl::Seconds(1));
    processor.http.reset();
  }
  access_.reset();
  state_.reset();
  for (Processor& processor : processors_) {
    processor.worker.reset();
    processor.sidecar.reset();
  }
  if (!socket_folder_.empty()) RemoveSocketFolder(socket_folder_);
}

absl::Status Runner::Start() {
  MS_RETURN_IF_ERROR(ReadManifests());
  MS_RETURN_IF_ERROR(OpenFolder());
  MS_RETURN_IF_ERROR(StartSidecars());
  std::vector<RunningProcessor> running;
  for (size_t i = 0; i < processors_.size(); ++i) {
    MS_RETURN_IF_ERROR(StartHttp(i));
    running.push_back({.name = processors_[i].manifest.processor.QualifiedName(), .queries = processors_[i].sidecar->queries()});
  }
  state_ = NewRunningState(std::move(running));
  access_ = std::make_unique<LocalAccess>(log_.get(), state_.get(), "this process");
  MS_ASSIGN_OR_RETURN(control_, ControlServer::Start(folder_->path(), kProgram, access_.get()));
  ShowFirstScreen();
  return StartWorkers();
}

absl::Status Runner::ReadManifests() {
  spec::ParseResult result = spec::ValidateFiles(options_.files);
  if (!result.diagnostics.empty()) std::cerr << spec::ToText(result.diagnostics);
  if (!result.ok()) return absl::InvalidArgumentError("the manifests have errors; nothing was started");
  if (result.manifests.empty()) return absl::InvalidArgumentError("there is no StreamProcessor in the files given with -f");
  SetLogging(LevelOf(result.manifests, options_.verbose), LogFormat::kText);
  for (spec::Manifest& manifest : result.manifests) {
    Processor processor;
    MS_ASSIGN_OR_RETURN(processor.command, CommandOf(manifest, options_, result.manifests.size()));
    processor.manifest = std::move(manifest);
    processors_.push_back(std::move(processor));
  }
  return absl::OkStatus();
}

absl::Status Runner::OpenFolder() {
  const absl::Duration deadline = SystemClock().Monotonic() + kFolderPatience;
  while (true) {
    absl::StatusOr<std::unique_ptr<host::DataFolder>> folder = host::DataFolder::Acquire(options_.data, kProgram, true);
    if (folder.ok()) {
      folder_ = *std::move(folder);
      break;
    }
    // Another run stays; produce and its like are about to end.
    const bool another_run = std::string(folder.status().message()).find(kProgram) != std::string::npos;
    const bool held = absl::IsFailedPrecondition(folder.status());
    if (another_run || !held || Interrupts() > 0 || SystemClock().Monotonic() > deadline) return folder.status();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  memory_ = host::SplitMemory(options_.memory_bytes > 0 ? options_.memory_bytes : host::DefaultMemoryBytes(), static_cast<int>(processors_.size()));
  log::EmbeddedLogOptions log_options;
  log_options.directory = folder_->LogDirectory();
  log_options.block_cache_bytes = memory_.log_cache;
  log_options.memtable_bytes = memory_.log_memtables;
  MS_ASSIGN_OR_RETURN(log_, log::EmbeddedLog::Open(log_options));
  environment_ = std::make_unique<store::StateEnvironment>(
      store::StateMemory{.block_cache_bytes = memory_.state_cache, .memtable_bytes = memory_.state_memtables});
  return absl::OkStatus();
}

absl::Status Runner::StartSidecars() {
  std::vector<const spec::StreamProcessorSpec*> specs;
  for (const Processor& processor : processors_) specs.push_back(&processor.manifest.processor);
  MS_ASSIGN_OR_RETURN(host::PreparationReport report,
                      host::PrepareTopics(&log_->admin(), specs, {.partitions = options_.partitions, .create_inputs = true}));
  for (const std::string& warning : report.warnings) screen_.Print(StrCat("warning: ", warning));
  if (!report.created.empty()) {
    std::string list;
    for (const std::string& topic : report.created) StrAppend(&list, list.empty() ? "" : ", ", topic);
    screen_.Print(StrCat("topics made: ", list));
  }
  MS_ASSIGN_OR_RETURN(socket_folder_, MakeSocketFolder());
  for (size_t i = 0; i < processors_.size(); ++i) {
    Processor& processor = processors_[i];
    const spec::StreamProcessorSpec& spec = processor.manifest.processor;
    MS_RETURN_IF_ERROR(folder_->RememberProcessor(processor.manifest));
    processor.socket_path = StrCat(socket_folder_, "/", i, ".sock");
    processor.metrics = NewMetricsRegistry();
    processor.tasks = report.processors[i].tasks;
    processor.output_partitions = report.processors[i].output_partitions;
    host::SidecarOptions options;
    options.spec = spec;
    options.topics = std::move(report.processors[i]);
    MS_ASSIGN_OR_RETURN(options.state_directory, folder_->StateDirectory(spec.group));
    options.socket_path = processor.socket_path;
    options.instance_id = folder_->instance_id();
    options.memory = memory_;
    const auto membership = [&](group::MembershipEvents* events) {
      const std::string member = StrCat("local-", folder_->instance_id());
      return group::NewLocalMembership({.tasks = processor.tasks,
                                        .join = [this, group = spec.group, member] { return log_->JoinGroup(group, member); },
                                        .leave = [this](const log::GroupToken& token) { log_->LeaveGroup(token); }},
                                       events);
    };
    MS_ASSIGN_OR_RETURN(processor.sidecar, host::Sidecar::Start(std::move(options), log_.get(), environment_.get(), membership, &SystemClock(),
                                                                processor.metrics.get()));
  }
  return absl::OkStatus();
}

absl::Status Runner::StartHttp(size_t index) {
  if (!options_.http) return absl::OkStatus();
  Processor& processor = processors_[index];
  server::HttpEndpointsOptions options;
  options.listen.address = options_.http_address;
  options.listen.port = options_.http_port == 0 ? 0 : options_.http_port + static_cast<int>(index);
  absl::StatusOr<std::unique_ptr<server::HttpEndpoints>> http =
      server::HttpEndpoints::Start(options, processor.sidecar->queries(), processor.metrics.get());
  if (!http.ok()) return Annotate(http.status(), "HTTP (choose another address with --http, or none with --http off)");
  processor.http = *std::move(http);
  return absl::OkStatus();
}

absl::Status Runner::StartWorkers() {
  const bool single = processors_.size() == 1;
  for (Processor& processor : processors_) {
    const spec::StreamProcessorSpec& spec = processor.manifest.processor;
    WorkerProcessOptions options;
    options.name = spec.name;
    options.command = processor.command;
    if (options_.command.empty()) options.working_directory = spec.container.working_dir;
    options.environment = spec.container.env;
    options.environment.emplace_back("MILLSTREAM_SOCKET", processor.socket_path);
    const std::string prefix = single ? "[worker] " : StrCat("[", spec.name, "] ");
    processor.worker = std::make_unique<WorkerProcess>(std::move(options), [this, prefix](std::string_view line) { screen_.Print(StrCat(prefix, line)); });
    if (options_.watch) {
      processor.watch = std::make_unique<FileWatch>(processor.command);
      if (processor.watch->places().empty()) screen_.Print(StrCat(spec.name, ": --watch: the command names no file of yours, so there is nothing to watch"));
    }
    MS_RETURN_IF_ERROR(processor.worker->Start());
  }
  return absl::OkStatus();
}

void Runner::ShowFirstScreen() {
  std::vector<RunningView> views;
  for (const Processor& processor : processors_) {
    views.push_back({.spec = &processor.manifest.processor, .tasks = processor.tasks, .output_partitions = processor.output_partitions,
                     .command = processor.command, .socket_path = processor.socket_path,
                     .http = processor.http == nullptr ? "" : processor.http->authority()});
  }
  std::string screen = FirstScreen(options_.data, options_.default_data ? "" : StrCat(" --data ", options_.data), views);
  screen.pop_back();
  screen_.Print(screen);
}

void Runner::Wait() {
  std::vector<pollfd> waiting = {{InterruptDescriptor(), POLLIN, 0}};
  for (const Processor& processor : processors_) {
    for (const int descriptor : processor.worker->Descriptors()) waiting.push_back({descriptor, POLLIN, 0});
  }
  (void)poll(waiting.data(), waiting.size(), kPollMilliseconds);
  ClearInterruptDescriptor();
  const absl::Duration now = SystemClock().Monotonic();
  std::vector<std::pair<std::string, host::SidecarStatus>> statuses;
  for (Processor& processor : processors_) {
    processor.worker->Service(now);
    statuses.emplace_back(processor.manifest.processor.name, processor.sidecar->Status());
  }
  screen_.Show(now, statuses);
}

void Runner::LookAtFiles(absl::Duration now) {
  if (!options_.watch || now < next_look_) return;
  next_look_ = now + kWatchInterval;
  for (Processor& processor : processors_) {
    if (!processor.watch->Changed()) continue;
    screen_.Print(StrCat(processor.manifest.processor.name, ": files changed, the worker starts again"));
    processor.worker->Restart(now);
  }
}

int Runner::Loop() {
  while (Interrupts() == 0) {
    Wait();
    LookAtFiles(SystemClock().Monotonic());
  }
  return Drain();
}

bool Runner::Aborted() const { return Interrupts() > 1; }

int Runner::Drain() {
  screen_.Print("finishing what is in flight; Ctrl-C again ends at once");
  const absl::Duration deadline = SystemClock().Monotonic() + options_.grace;
  for (Processor& processor : processors_) {
    processor.worker->NoMoreStarts();
    processor.sidecar->BeginDrain(options_.grace);
  }
  const auto all_drained = [this] {
    return std::all_of(processors_.begin(), processors_.end(), [](const Processor& processor) { return processor.sidecar->drained(); });
  };
  while (!all_drained() && !Aborted() && SystemClock().Monotonic() < deadline + absl::Seconds(1)) Wait();
  if (Aborted()) {
    for (Processor& processor : processors_) processor.worker->Kill();
    screen_.Finish();
    std::cerr << "millstream: aborted; what was not committed is done again next time" << std::endl;
    std::_Exit(kExitInterrupted);
  }
  bool in_order = all_drained();
  control_.reset();
  screen_.Finish();
  int stuck = 0;
  for (Processor& processor : processors_) {
    in_order = processor.sidecar->Stop(absl::ZeroDuration()) && in_order;
    stuck += processor.sidecar->stuck_calls();
  }
  EndWorkers();
  std::cerr << (in_order ? "millstream: everything is committed; goodbye" : "millstream: not everything was finished in time; it is done again next time") << std::endl;
  if (stuck > 0) {
    // A thread is inside a call of the log, which therefore cannot be closed.
    RemoveSocketFolder(socket_folder_);
    std::_Exit(kExitFailure);
  }
  return kExitOk;
}

void Runner::EndWorkers() {
  const auto any_running = [this] {
    return std::any_of(processors_.begin(), processors_.end(), [](const Processor& processor) { return processor.worker->running(); });
  };
  const auto wait = [&](absl::Duration until) {
    while (any_running() && !Aborted() && SystemClock().Monotonic() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      for (Processor& processor : processors_) processor.worker->Service(SystemClock().Monotonic());
    }
  };
  const absl::Duration now = SystemClock().Monotonic();
  wait(now + kWorkerGrace);
  for (Processor& processor : processors_) processor.worker->Stop(SystemClock().Monotonic(), kWorkerGrace);
  wait(now + 2 * kWorkerGrace);
  for (Processor& processor : processors_) processor.worker->Kill();
}

}  // namespace millstream::cli
