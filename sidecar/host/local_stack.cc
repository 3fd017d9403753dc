#include "sidecar/host/local_stack.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "sidecar/group/local_membership.h"

namespace millstream::host {
namespace {

// A short command of another terminal (produce, state) may hold the folder just now.
constexpr absl::Duration kFolderPatience = absl::Seconds(5);

}  // namespace

absl::StatusOr<std::unique_ptr<LocalStack>> LocalStack::Start(LocalStackOptions options) {
  MS_CHECK(!options.manifests.empty() && options.manifests.size() == options.socket_paths.size());
  std::unique_ptr<LocalStack> stack(new LocalStack());
  MS_RETURN_IF_ERROR(stack->OpenFolder(options));
  MS_RETURN_IF_ERROR(stack->PrepareProcessors(&options));
  for (size_t i = 0; i < stack->processors_.size(); ++i)
    MS_RETURN_IF_ERROR(stack->StartHttp(options, static_cast<int>(i)));
  return stack;
}

LocalStack::~LocalStack() {
  // Users before what they use.
  for (Processor& processor : processors_) {
    if (processor.http != nullptr) processor.http->Stop(absl::Seconds(1));
    processor.http.reset();
    processor.sidecar.reset();
  }
  environment_.reset();
  log_.reset();
}

absl::Status LocalStack::OpenFolder(const LocalStackOptions& options) {
  const absl::Duration deadline = SystemClock().Monotonic() + kFolderPatience;
  while (true) {
    absl::StatusOr<std::unique_ptr<DataFolder>> folder = DataFolder::Acquire(options.data, options.program, true);
    if (folder.ok()) {
      folder_ = *std::move(folder);
      break;
    }
    const std::string message(folder.status().message());
    // Who serves the folder stays; produce and its like are about to end.
    const bool stays =
        message.find("millstream run") != std::string::npos || message.find("millstream-sidecar") != std::string::npos;
    const bool interrupted = options.interrupted && options.interrupted();
    if (stays || interrupted || !absl::IsFailedPrecondition(folder.status()) || SystemClock().Monotonic() > deadline)
      return folder.status();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  memory_ = SplitMemory(options.memory_bytes > 0 ? options.memory_bytes : DefaultMemoryBytes(),
                        static_cast<int>(options.manifests.size()));
  log::EmbeddedLogOptions log_options;
  log_options.directory = folder_->LogDirectory();
  log_options.block_cache_bytes = memory_.log_cache;
  log_options.memtable_bytes = memory_.log_memtables;
  MS_ASSIGN_OR_RETURN(log_, log::EmbeddedLog::Open(log_options));
  environment_ = std::make_unique<store::StateEnvironment>(
      store::StateMemory{.block_cache_bytes = memory_.state_cache, .memtable_bytes = memory_.state_memtables});
  return absl::OkStatus();
}

absl::Status LocalStack::PrepareProcessors(LocalStackOptions* options) {
  std::vector<const spec::StreamProcessorSpec*> specs;
  for (const spec::Manifest& manifest : options->manifests) specs.push_back(&manifest.processor);
  MS_ASSIGN_OR_RETURN(PreparationReport report,
                      PrepareTopics(&log_->admin(), specs, {.partitions = options->partitions, .create_inputs = true}));
  created_ = std::move(report.created);
  warnings_ = std::move(report.warnings);
  for (size_t i = 0; i < options->manifests.size(); ++i) {
    Processor& processor = processors_.emplace_back();
    processor.manifest = std::move(options->manifests[i]);
    processor.socket_path = options->socket_paths[i];
    processor.tasks = report.processors[i].tasks;
    processor.output_partitions = report.processors[i].output_partitions;
    processor.metrics = NewMetricsRegistry();
    MS_RETURN_IF_ERROR(folder_->RememberProcessor(processor.manifest));
  }
  for (size_t i = 0; i < processors_.size(); ++i)
    MS_RETURN_IF_ERROR(StartSidecar(&processors_[i], std::move(report.processors[i])));
  return absl::OkStatus();
}

absl::Status LocalStack::StartSidecar(Processor* processor, PreparedTopics topics) {
  const spec::StreamProcessorSpec& spec = processor->manifest.processor;
  SidecarOptions options;
  options.spec = spec;
  options.topics = std::move(topics);
  MS_ASSIGN_OR_RETURN(options.state_directory, folder_->StateDirectory(spec.group));
  options.socket_path = processor->socket_path;
  options.instance_id = folder_->instance_id();
  options.memory = memory_;
  const auto membership = [&](group::MembershipEvents* events) {
    group::LocalMembershipOptions local;
    local.tasks = processor->tasks;
    local.join = [log = log_.get(), group = spec.group, member = StrCat("local-", folder_->instance_id())] {
      return log->JoinGroup(group, member);
    };
    local.leave = [log = log_.get()](const log::GroupToken& token) { log->LeaveGroup(token); };
    return group::NewLocalMembership(std::move(local), events);
  };
  MS_ASSIGN_OR_RETURN(processor->sidecar, Sidecar::Start(std::move(options), log_.get(), environment_.get(), membership,
                                                         &SystemClock(), processor->metrics.get()));
  return absl::OkStatus();
}

absl::Status LocalStack::StartHttp(const LocalStackOptions& options, int index) {
  if (!options.http_address.has_value()) return absl::OkStatus();
  Processor& processor = processors_[static_cast<size_t>(index)];
  server::HttpEndpointsOptions http;
  http.listen.address = *options.http_address;
  http.listen.port = options.http_port == 0 ? 0 : options.http_port + index;
  absl::StatusOr<std::unique_ptr<server::HttpEndpoints>> endpoints =
      server::HttpEndpoints::Start(http, processor.sidecar->queries(), processor.metrics.get());
  if (!endpoints.ok())
    return Annotate(endpoints.status(), "HTTP (choose another address with --http, or none with --http off)");
  processor.http = *std::move(endpoints);
  return absl::OkStatus();
}

void LocalStack::BeginDrain(absl::Duration deadline) {
  for (Processor& processor : processors_) processor.sidecar->BeginDrain(deadline);
}

bool LocalStack::drained() const {
  return std::all_of(processors_.begin(), processors_.end(),
                     [](const Processor& processor) { return processor.sidecar->drained(); });
}

bool LocalStack::Stop() {
  bool in_order = true;
  for (Processor& processor : processors_) in_order = processor.sidecar->Stop(absl::ZeroDuration()) && in_order;
  return in_order;
}

int LocalStack::stuck_calls() const {
  int stuck = 0;
  for (const Processor& processor : processors_) stuck += processor.sidecar->stuck_calls();
  return stuck;
}

}  // namespace millstream::host
