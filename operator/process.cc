#include "operator/process.h"

#include <unistd.h>

#include <random>
#include <utility>

#include "common/base/log_line.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/base/thread_name.h"
#include "operator/endpoints.h"
#include "operator/kube/http_transport.h"
#include "operator/kube/lease.h"
#include "operator/own_lease.h"
#include "operator/reconcile/metrics.h"

namespace millstream::program {
namespace {

// Two calls renew a lease, and both have to fit into the ten seconds of its renew deadline.
constexpr absl::Duration kLeaseDeadline = absl::Seconds(4);
// A pass has 90 seconds for all its calls, and the election waits for passes at most: after that a thread hangs, and
// only a restart helps.
constexpr absl::Duration kHangs = absl::Minutes(5);
constexpr absl::Duration kDestructorDeadline = absl::Seconds(20);

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 && name[0] != '\0' ? std::string(name) : std::string(kProgram);
}

uint64_t Random() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Process>> Process::Start(const Options& options, const kube::Environment& environment,
                                                        const Clock* clock) {
  MS_ASSIGN_OR_RETURN(const kube::ClientConfig config,
                      kube::FindConfig(options.kubeconfig, options.context, environment));
  Options told = options;
  if (told.operator_namespace.empty()) told.operator_namespace = config.name_space;
  told.model.operator_namespace = told.operator_namespace;
  const std::string name = told.identity.empty() ? HostName() : told.identity;
  auto process = std::unique_ptr<Process>(new Process(told, name, clock));
  MS_RETURN_IF_ERROR(process->Connect(told, config));
  MS_RETURN_IF_ERROR(process->Listen(told));
  process->operator_->Start();
  process->elect_ = std::thread([raw = process.get()] { raw->Elect(); });
  LogInfo("the operator runs", {{"version", told.model.operator_version},
                                {"identity", process->identity_},
                                {"server", config.server},
                                {"configuration", config.source},
                                {"http_port", process->http_port()}});
  return process;
}

Process::Process(const Options& options, std::string identity, const Clock* clock)
    // A pod's name comes back after a restart of its container; another life is somebody else.
    : identity_(StrCat(identity, "_", absl::Hex(Random(), absl::kZeroPad16))),
      clock_(clock),
      metrics_(NewMetricsRegistry()) {
  metrics_
      ->GetGauge("millstream_operator_info", "Always 1; says the version",
                 {{"version", options.model.operator_version}})
      ->Set(1);
}

absl::Status Process::Connect(const Options& options, const kube::ClientConfig& config) {
  const std::string user_agent = StrCat(kProgram, "/", options.model.operator_version);
  const auto on_call = reconcile::ApiCallCounter(metrics_.get());

  MS_ASSIGN_OR_RETURN(auto lease_transport, kube::NewHttpTransport(config, user_agent, clock_));
  kube::ClientOptions lease_options;
  lease_options.deadline = kLeaseDeadline;
  lease_options.on_call = on_call;
  lease_client_ = std::make_unique<kube::Client>(std::move(lease_transport), std::move(lease_options));
  if (options.leader_election) {
    lease_ = kube::NewApiLeaseStore(lease_client_.get(), {options.operator_namespace, options.lease_name});
  } else {
    lease_ = std::make_unique<OwnLease>();
  }
  runtime::ElectionOptions election;
  election.identity = identity_;
  election_ = std::make_unique<runtime::LeaderElection>(election, lease_.get(), clock_);

  MS_ASSIGN_OR_RETURN(auto transport, kube::NewHttpTransport(config, user_agent, clock_));
  kube::ClientOptions client_options;
  client_options.write_allowance = [this] { return election_->Allowance(); };
  client_options.on_call = on_call;
  client_ = std::make_unique<kube::Client>(std::move(transport), std::move(client_options));

  reports_ = reconcile::NewHttpSidecarReports(clock_, metrics_.get());
  reconcile::OperatorOptions operator_options;
  operator_options.namespaces = options.namespaces;
  operator_options.model = options.model;
  operator_options.instance = identity_.substr(0, identity_.rfind('_'));
  operator_options.workers = options.workers;
  operator_options.max_concurrent_rollouts = options.max_concurrent_rollouts;
  operator_options.seed = Random();
  operator_ = std::make_unique<reconcile::Operator>(std::move(operator_options), client_.get(), reports_.get(), clock_,
                                                    metrics_.get());
  leading_ = std::make_unique<Leading>(
      election_.get(), Leading::Work{[this] { operator_->Lead(); }, [this] { operator_->Follow(); }}, clock_);
  return absl::OkStatus();
}

absl::Status Process::Listen(const Options& options) {
  http::ServerOptions server;
  server.address = options.http_address;
  server.port = options.http_port;
  const Pages pages{[this] { return Health(); }, [this] { return Readiness(); }, [this] { return Metrics(); }};
  MS_ASSIGN_OR_RETURN(server_, http::Server::Start(server, [pages](http::Request request, http::Responder respond) {
                        respond(Answer(request, pages));
                      }));
  return absl::OkStatus();
}

void Process::Elect() {
  NameThread("ms-lease");
  leading_->Run(interruption_);
  if (const absl::Status released = election_->Release(); !released.ok()) {
    LogWarning("the lease could not be released: the next operator waits until it has run out",
               {{"error", std::string(released.message())}});
  }
  elected_out_.Notify();
}

absl::Status Process::Health() const {
  // First: the election may wait for it.
  if (const absl::Duration longest = operator_->longest_pass(); longest > kHangs) {
    return absl::InternalError(StrCat("a pass over one processor has been under way for ",
                                      absl::FormatDuration(longest), " and does not end"));
  }
  if (leading_->since_step() > kHangs) {
    return absl::InternalError(
        StrCat("the election has not made a step for ", absl::FormatDuration(leading_->since_step())));
  }
  return absl::OkStatus();
}

absl::Status Process::Readiness() const {
  if (operator_->synced()) return absl::OkStatus();
  const absl::Status health = operator_->health();
  if (!health.ok()) return health;
  return absl::UnavailableError("the first lists of objects are under way");
}

std::string Process::Metrics() {
  operator_->UpdateGauges();
  metrics_->GetGauge("millstream_operator_leader", "1 while this process holds the lease and may write", {})
      ->Set(election_->leads() ? 1 : 0);
  metrics_->GetGauge("millstream_operator_terms", "How often this process began to lead", {})
      ->Set(static_cast<double>(election_->term()));
  return metrics_->Expose();
}

bool Process::Stop(absl::Duration deadline) {
  if (!elect_.joinable()) return true;
  interruption_.Interrupt();
  if (!elected_out_.WaitForNotificationWithTimeout(deadline)) return false;
  elect_.join();
  operator_->Stop();
  server_->Stop(absl::Seconds(1));
  return true;
}

Process::~Process() { MS_CHECK(Stop(kDestructorDeadline)); }

}  // namespace millstream::program
