#include "sidecar/host/local_stack.h"

#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::host {
namespace {

// A short command of another terminal (produce, state) may hold the folder just now.
constexpr absl::Duration kFolderPatience = absl::Seconds(5);

// Between attempts to begin on a Kafka.
constexpr absl::Duration kFirstRetry = absl::Milliseconds(200), kLongestRetry = absl::Seconds(3);

// For a broker to take rotated secrets, or not. The end of the process may wait for it.
constexpr absl::Duration kAccessPatience = absl::Seconds(5);

// Without anybody changing the manifest.
bool MayPass(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsPermissionDenied(status);
}

std::string HostName() {
  char name[256] = "";
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "localhost";
}

// Where other members find this one's HTTP: "HOST:PORT"; the name alone if it has none.
std::string AddressOf(const LocalStackOptions& options, const LocalStack::Processor& processor) {
  if (processor.http == nullptr) return options.owner;
  const std::string authority = processor.http->authority();
  const std::string port = authority.substr(authority.rfind(':'));
  if (options.owner != "localhost") return options.owner + port;
  const bool any = *options.http_address == "0.0.0.0" || *options.http_address == "::";
  return any ? HostName() + port : authority;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LocalStack>> LocalStack::Start(LocalStackOptions options) {
  MS_CHECK(!options.manifests.empty() && options.manifests.size() == options.socket_paths.size());
  std::unique_ptr<LocalStack> stack(new LocalStack());
  MS_RETURN_IF_ERROR(stack->OpenFolder(options));
  MS_RETURN_IF_ERROR(stack->OpenBackends(&options));
  for (size_t i = 0; i < stack->processors_.size(); ++i)
    MS_RETURN_IF_ERROR(stack->StartHttp(options, static_cast<int>(i)));
  MS_RETURN_IF_ERROR(stack->PrepareWithPatience(options));
  return stack;
}

LocalStack::~LocalStack() {
  // Users before what they use.
  for (Processor& processor : processors_) {
    if (processor.http != nullptr) processor.http->Stop(absl::Seconds(1));
    processor.http.reset();
    processor.sidecar.reset();
    processor.secrets.reset();
  }
  environment_.reset();
  backends_.clear();
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
                        static_cast<int>(options.manifests.size()), !options.clusters.empty());
  environment_ = std::make_unique<store::StateEnvironment>(
      store::StateMemory{.block_cache_bytes = memory_.state_cache, .memtable_bytes = memory_.state_memtables});
  return absl::OkStatus();
}

absl::Status LocalStack::OpenBackends(LocalStackOptions* options) {
  const bool on_kafka = !options->clusters.empty();
  processors_.reserve(options->manifests.size());  // they are pointed into
  MS_CHECK(!on_kafka || options->clusters.size() == options->manifests.size());
  if (!on_kafka) {
    MS_ASSIGN_OR_RETURN(backends_.emplace_back(), OpenEmbeddedBackend(folder_->LogDirectory(), memory_));
  }
  for (size_t i = 0; i < options->manifests.size(); ++i) {
    Processor& processor = processors_.emplace_back();
    processor.manifest = std::move(options->manifests[i]);
    processor.socket_path = options->socket_paths[i];
    processor.metrics = NewMetricsRegistry();
    processor.queries = std::make_unique<EarlyQueries>(&processor.manifest.processor, MemberName(*options));
    if (on_kafka) {
      const std::string client_id = StrCat(processor.manifest.processor.group, "-", MemberName(*options));
      const auto access = std::make_shared<kafka::LiveAccess>(options->clusters[i]);
      MS_ASSIGN_OR_RETURN(backends_.emplace_back(), OpenKafkaBackend(access, client_id, processor.metrics.get()));
      if (options->read_cluster) WatchSecrets(*options, access, client_id, &processor);
    }
    processor.backend = backends_.back().get();
  }
  return absl::OkStatus();
}

void LocalStack::WatchSecrets(const LocalStackOptions& options, std::shared_ptr<kafka::LiveAccess> access,
                              const std::string& client_id, Processor* processor) {
  processor->secrets = std::make_unique<SecretWatch>(
      options.secret_watch, std::move(access),
      [read = options.read_cluster, kafka = processor->manifest.processor.kafka] { return read(kafka); },
      [client_id](const kafka::ClusterAccess& found) { return TryKafkaAccess(found, client_id, kAccessPatience); },
      &SystemClock(), processor->metrics.get());
  processor->secrets->Start();
}

const std::string& LocalStack::MemberName(const LocalStackOptions& options) const {
  return options.member_name.empty() ? folder_->instance_id() : options.member_name;
}

absl::Status LocalStack::PrepareWithPatience(const LocalStackOptions& options) {
  std::string told;
  absl::Duration pause = kFirstRetry;
  while (true) {
    const absl::Status prepared = PrepareProcessors(options);
    if (prepared.ok() || options.clusters.empty() || !MayPass(prepared)) return prepared;
    const std::string message(prepared.message());
    for (Processor& processor : processors_)
      processor.queries->WaitsFor(
          {absl::IsPermissionDenied(prepared) ? "AccessDenied" : "BrokersUnreachable", message});
    if (message != told && options.on_wait) options.on_wait(message);
    told = message;
    for (const absl::Duration end = SystemClock().Monotonic() + pause; SystemClock().Monotonic() < end;) {
      if (options.interrupted && options.interrupted()) return prepared;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    pause = std::min(2 * pause, kLongestRetry);
  }
}

absl::Status LocalStack::PrepareProcessors(const LocalStackOptions& options) {
  std::vector<TopicOwner> owners;
  for (const Processor& processor : processors_)
    owners.push_back({&processor.backend->log()->admin(), &processor.manifest.processor});
  TopicPreparation preparation;
  preparation.partitions = options.partitions;
  preparation.create_inputs = options.clusters.empty() || options.partitions.has_value();
  MS_ASSIGN_OR_RETURN(PreparationReport report, PrepareTopics(owners, preparation));
  created_.insert(created_.end(), report.created.begin(), report.created.end());
  warnings_ = std::move(report.warnings);
  for (size_t i = 0; i < processors_.size(); ++i) {
    processors_[i].tasks = report.processors[i].tasks;
    processors_[i].output_partitions = report.processors[i].output_partitions;
    MS_RETURN_IF_ERROR(folder_->RememberProcessor(processors_[i].manifest));
  }
  for (size_t i = 0; i < processors_.size(); ++i) {
    if (processors_[i].sidecar != nullptr) continue;  // started by an earlier attempt
    MS_RETURN_IF_ERROR(StartSidecar(options, &processors_[i], std::move(report.processors[i])));
    processors_[i].queries->PassOnTo(processors_[i].sidecar->queries());
  }
  return absl::OkStatus();
}

absl::Status LocalStack::StartSidecar(const LocalStackOptions& options, Processor* processor, PreparedTopics topics) {
  const spec::StreamProcessorSpec& spec = processor->manifest.processor;
  SidecarOptions sidecar;
  sidecar.spec = spec;
  sidecar.topics = std::move(topics);
  MS_ASSIGN_OR_RETURN(sidecar.state_directory, folder_->StateDirectory(spec.group));
  sidecar.socket_path = processor->socket_path;
  sidecar.instance_id = MemberName(options);
  sidecar.owner = options.owner;
  sidecar.cluster = options.cluster;
  sidecar.memory = memory_;
  sidecar.shared = processor->backend->shared();
  sidecar.leaves = options.leaves;
  if (options.orders) sidecar.orders = options.orders();
  sidecar.foreign_transactions = processor->backend->TransactionsOf(spec);
  sidecar.members = processor->backend->MembersOf(spec);
  if (processor->secrets != nullptr)
    sidecar.secrets = [watch = processor->secrets.get()] { return watch->Conditions(); };
  const MemberIdentity member{.partitions = processor->tasks,
                              .instance_id = sidecar.instance_id,
                              .transactional_ids = TransactionalIdsOf(spec, sidecar.instance_id),
                              .host = AddressOf(options, *processor)};
  const MembershipFactory membership = processor->backend->Membership(spec, member, processor->metrics.get());
  MS_ASSIGN_OR_RETURN(processor->sidecar,
                      Sidecar::Start(std::move(sidecar), processor->backend->log(), environment_.get(), membership,
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
      server::HttpEndpoints::Start(http, processor.queries.get(), processor.metrics.get());
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
