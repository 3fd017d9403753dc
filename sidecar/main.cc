// millstream-sidecar: one processor beside its worker, as in a pod. Reads the manifest from a file and runs it on the
// Kafka of its kafka block, or, with --data alone, on the embedded log of a data folder; the worker is somebody else's
// process and connects to the socket.
#include <poll.h>
#include <signal.h>

#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "CLI/CLI.hpp"
#include "common/base/clock.h"
#include "common/base/log_line.h"
#include "common/base/strings.h"
#include "sidecar/host/cluster_access.h"
#include "sidecar/host/local_stack.h"
#include "sidecar/host/orders.h"
#include "sidecar/pod/drain_socket.h"
#include "sidecar/pod/topics_job.h"
#include "sidecar/pod/verdict.h"

// Two arenas are enough for a dozen threads, and an idle sidecar gives its memory back.
extern "C" const char* malloc_conf;
const char* malloc_conf = "narenas:2,dirty_decay_ms:2000,muzzy_decay_ms:0";

namespace millstream {
namespace {

struct Options {
  std::string manifest = "/etc/millstream/processor.yaml";
  std::string data;  // with the embedded log
  std::string kafka;
  std::string secrets;
  std::string state = "/var/lib/millstream";
  std::string member;
  std::string socket = "/run/millstream/worker.sock";
  std::string http_address = "127.0.0.1";
  int http_port = 8080;
  uint64_t memory = 0;
  int grace = 30;
  std::string log_format = "json";
  std::string orders;
  std::string cluster = "local";
  // drain
  int drain_timeout = 45;
  // topics
  bool remove = false;
  int patience = 60;
  std::string termination_log = pod::kTerminationLog;
};

LogFormat FormatOf(const Options& options) {
  return options.log_format == "json" ? LogFormat::kJson : LogFormat::kText;
}

volatile sig_atomic_t interrupted = 0;
void OnSignal(int) { interrupted = 1; }

int Fail(const absl::Status& status) {
  LogError("the sidecar ends", {{"error", std::string(status.message())}});
  return 1;
}

LogLevel LevelOf(spec::LogLevel level) {
  switch (level) {
    case spec::LogLevel::kDebug:
      return LogLevel::kDebug;
    case spec::LogLevel::kInfo:
      return LogLevel::kInfo;
    case spec::LogLevel::kWarn:
      return LogLevel::kWarning;
    case spec::LogLevel::kError:
      return LogLevel::kError;
  }
  return LogLevel::kInfo;
}

// Says what a person should know and had not been told yet: each kind of condition when it begins.
void ReportConditions(const host::SidecarStatus& status, std::set<std::string>* told) {
  std::set<std::string> now;
  for (const host::Condition& condition : status.conditions) {
    now.insert(condition.reason);
    if (!told->contains(condition.reason)) LogWarning(condition.reason, {{"detail", condition.message}});
  }
  *told = std::move(now);
}

host::LocalStackOptions StackOptionsOf(const Options& options) {
  host::LocalStackOptions result;
  result.data = options.data.empty() ? options.state : options.data;
  result.program = "millstream-sidecar";
  result.socket_paths = {options.socket};
  result.http_address = options.http_address;
  result.http_port = options.http_port;
  result.memory_bytes = static_cast<int64_t>(options.memory);
  result.interrupted = [] { return interrupted != 0; };
  result.on_wait = [](const std::string& what) { LogWarning("waiting to begin", {{"cause", what}}); };
  // Who has a name of its own comes back under it: nothing is to move meanwhile.
  result.leaves = options.member.empty();
  result.member_name = options.member;
  result.cluster = options.cluster;
  if (!options.member.empty()) result.owner = options.member;
  return result;
}

// What runs, and whoever has to say something to it.
class Running {
 public:
  Running(host::LocalStack* stack, host::OrdersFile* orders, pod::DrainSocket* drain, absl::Duration grace)
      : stack_(stack), orders_(orders), drain_(drain), grace_(grace) {}

  // Until a signal, the end of a drain that nobody follows up, or the end of the membership for good.
  absl::Status Wait() {
    absl::Status ended;
    while (interrupted == 0 && ended.ok()) {
      Pause();
      FollowDrain();
      if (begun_ && drained_at_ && SystemClock().Monotonic() > *drained_at_ + kAfterDrain) {
        LogWarning("drained, and nobody ended this process");
        break;
      }
      const host::SidecarStatus status = sidecar().Status();
      ReportConditions(status, &told_);
      ReportDrain(status.drain);
      if (orders_->Look()) TakeOrders();
      ended = status.ended;
    }
    return ended;
  }

  // The orderly end, as far as the grace allows.
  void Drain() {
    BeginDrain();
    while (!stack_->drained() && SystemClock().Monotonic() < deadline_ + absl::Seconds(1)) poll(nullptr, 0, 20);
    if (drain_ != nullptr) drain_->SetDrained();
  }

 private:
  // For SIGTERM after the hook: the kubelet sends it when the worker is gone, within the pod's grace. Longer, and
  // somebody has tried the hook by hand: a container that ends is started again.
  static constexpr absl::Duration kAfterDrain = absl::Seconds(60);

  host::Sidecar& sidecar() { return *stack_->processors().front().sidecar; }

  void Pause() {
    if (begun_ && !drained_at_) {
      poll(nullptr, 0, 20);
    } else if (drain_ != nullptr && !begun_) {
      drain_->WaitForRequest(absl::Seconds(1));
    } else {
      poll(nullptr, 0, begun_ ? 50 : 1000);  // a signal may come to another thread; at the end nobody is to wait for it
    }
  }

  void FollowDrain() {
    if (drain_ == nullptr || !drain_->requested() || drained_at_) return;
    if (!begun_) LogInfo("asked to drain: what is in flight is finished, nothing new is begun");
    BeginDrain();
    if (!stack_->drained() && SystemClock().Monotonic() < deadline_ + absl::Seconds(1)) return;
    drained_at_ = SystemClock().Monotonic();
    drain_->SetDrained();
    LogInfo("drained: waiting for the signal to end");
  }

  void BeginDrain() {
    if (std::exchange(begun_, true)) return;
    deadline_ = SystemClock().Monotonic() + grace_;
    stack_->BeginDrain(grace_);
  }

  void TakeOrders() {
    if (!orders_->problem().ok())
      LogWarning("orders are not followed", {{"error", std::string(orders_->problem().message())}});
    LogInfo("orders", {{"in_force", orders_->orders() ? host::ToJson(*orders_->orders()) : "as the manifest says"}});
    sidecar().SetOrders(orders_->orders(), orders_->problem());
  }

  void ReportDrain(host::DrainState state) {
    if (state == host::DrainState::kDrained && drain_state_ != state) LogInfo("drained by order: out of the group");
    drain_state_ = state;
  }

  host::LocalStack* const stack_;
  host::OrdersFile* const orders_;
  pod::DrainSocket* const drain_;  // may be null
  const absl::Duration grace_;
  std::set<std::string> told_;
  host::DrainState drain_state_ = host::DrainState::kNo;
  bool begun_ = false;
  absl::Duration deadline_;
  std::optional<absl::Duration> drained_at_;
};

int Run(const Options& options) {
  const LogFormat format = FormatOf(options);
  const absl::StatusOr<spec::Manifest> manifest = spec::LoadOneManifest(options.manifest);
  if (!manifest.ok()) return Fail(manifest.status());
  SetLogging(LevelOf(manifest->processor.sidecar.log_level), format);

  host::LocalStackOptions stack_options = StackOptionsOf(options);
  if (options.data.empty()) {
    const host::AccessSources sources{options.kafka, options.secrets};
    const absl::StatusOr<kafka::ClusterAccess> cluster = host::ResolveClusterAccess(manifest->processor.kafka, sources);
    if (!cluster.ok()) return Fail(cluster.status());
    stack_options.clusters = {*cluster};
    if (!options.secrets.empty()) {
      stack_options.read_cluster = [sources](const spec::KafkaSpec& kafka) {
        return host::ResolveClusterAccess(kafka, sources);
      };
    }
  }
  stack_options.manifests = {*manifest};
  host::OrdersFile orders(options.orders);
  stack_options.orders = [&orders] {
    orders.Look();
    return orders.orders();
  };
  const auto drain = pod::DrainSocket::Listen(stack_options.data);
  if (!drain.ok()) {
    LogWarning("`millstream-sidecar drain` will not reach this process",
               {{"cause", std::string(drain.status().message())}});
  }
  const auto stack = host::LocalStack::Start(std::move(stack_options));
  if (!stack.ok()) return Fail(stack.status());
  const host::LocalStack::Processor& processor = (*stack)->processors().front();
  LogInfo("the sidecar runs", {{"processor", manifest->processor.QualifiedName()},
                               {"socket", options.socket},
                               {"http", processor.http->authority()}});
  processor.sidecar->SetOrders(orders.orders(), orders.problem());

  Running running(stack->get(), &orders, drain.ok() ? drain->get() : nullptr, absl::Seconds(options.grace));
  const absl::Status ended = running.Wait();
  running.Drain();
  const bool in_order = (*stack)->Stop();
  LogInfo("the sidecar ends", {{"drained", in_order ? "yes" : "no"}});
  if ((*stack)->stuck_calls() > 0) std::_Exit(1);  // the log cannot be closed under a call that never came back
  return ended.ok() ? 0 : 1;
}

// The preStop hook.
int Drain(const Options& options) {
  const std::string& folder = options.data.empty() ? options.state : options.data;
  const absl::Status drained = pod::RequestDrain(folder, absl::Seconds(options.drain_timeout));
  // It has begun; that it takes long is no reason to call the hook failed.
  const bool begun = drained.ok() || absl::IsDeadlineExceeded(drained);
  if (!drained.ok()) std::cerr << "millstream-sidecar: drain: " << drained.message() << std::endl;
  return begun ? 0 : 1;
}

int Topics(const Options& options) {
  SetLogging(LogLevel::kInfo, FormatOf(options));
  pod::TopicsJobOptions job;
  job.manifest = options.manifest;
  job.bootstrap_servers = options.kafka;
  job.secrets_folder = options.secrets;
  job.remove = options.remove;
  job.cluster = options.cluster;
  job.patience = absl::Seconds(options.patience);
  job.interrupted = [] { return interrupted != 0; };
  const pod::Verdict verdict = pod::RunTopicsJob(job);
  const std::string json = pod::ToJson(verdict);
  std::cout << json << std::endl;
  if (const absl::Status written = pod::WriteTerminationMessage(options.termination_log, json); !written.ok())
    LogError("the verdict could not be left", {{"error", std::string(written.message())}});
  return pod::ExitCodeOf(verdict);
}

void AddManifest(CLI::App* command, Options* options) {
  command->add_option("--manifest", options->manifest, "StreamProcessor, YAML or JSON")->capture_default_str();
  command->add_option("--kafka", options->kafka, "Bootstrap servers; default: those of the manifest's kafka block");
  command->add_option("--secrets", options->secrets,
                      "Folder of the secrets the manifest refers to, as DIR/<name>/<key>");
  command
      ->add_option("--cluster", options->cluster,
                   "Name of the cluster (clusterName of the chart): a group belongs to <cluster>/<namespace>/<name>")
      ->capture_default_str();
}

void AddLogFormat(CLI::App* command, Options* options) {
  command->add_option("--log-format", options->log_format, "json or text")
      ->check(CLI::IsMember({"json", "text"}))
      ->capture_default_str();
}

void AddState(CLI::App* command, Options* options, const std::string& data_folder) {
  CLI::Option* const data = command->add_option("--data", options->data, data_folder);
  command->add_option("--state", options->state, "Folder of state and ids, on Kafka")
      ->capture_default_str()
      ->excludes(data);
}

void AddRunOptions(CLI::App* app, Options* options) {
  AddManifest(app, options);
  AddState(app, options, "Run on the embedded log of this data folder, without a Kafka");
  CLI::Option* const data = app->get_option("--data");
  for (const char* name : {"--kafka", "--secrets", "--cluster"}) app->get_option(name)->excludes(data);
  app->add_option(
         "--member", options->member,
         "Who this process is in its group, unique and the same after a restart, as the pod's name: when it "
         "ends, nothing moves until its session is over. Default: a random id kept in the folder; the group is "
         "left when it ends")
      ->envname("MILLSTREAM_MEMBER")
      ->excludes(data);
  app->add_option("--socket", options->socket, "Where the worker connects")
      ->envname("MILLSTREAM_SOCKET")
      ->capture_default_str();
  app->add_option("--http-address", options->http_address, "Where HTTP listens")->capture_default_str();
  app->add_option("--http-port", options->http_port, "0: a free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  app->add_option("--memory", options->memory, "Bound on the memory of this process; default: the cgroup's limit")
      ->transform(CLI::AsSizeValue(false));
  app->add_option(
      "--orders", options->orders,
      "File of orders, looked at every second: drain, standbyReplicas, state, as JSON; missing or empty: as "
      "the manifest says");
  app->add_option("--grace", options->grace, "Seconds to finish what is in flight after SIGTERM or drain")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
  AddLogFormat(app, options);
}

CLI::App* AddDrain(CLI::App* app, Options* options) {
  CLI::App* const drain = app->add_subcommand(
      "drain", "preStop hook: has the sidecar of this container finish what is in flight, and waits for it");
  AddState(drain, options, "Data folder, where it runs on the embedded log");
  drain->add_option("--timeout", options->drain_timeout, "Seconds to wait; the drain goes on")
      ->check(CLI::Range(0, 3600))
      ->capture_default_str();
  drain->footer(
      "The worker is sent GOODBYE; the process ends with SIGTERM, or a minute later by itself. The group is not left: "
      "that is an order (--orders).\nExit codes: 0 begun, and done if it came back in time; 1 no sidecar is there.");
  return drain;
}

CLI::App* AddTopics(CLI::App* app, Options* options) {
  CLI::App* const topics = app->add_subcommand(
      "topics", "Make and check the topics of the processor, and say how it went as one JSON object");
  AddManifest(topics, options);
  topics->add_flag("--delete", options->remove,
                   "Delete the internal topics and the group's offsets instead; inputs and outputs are kept");
  topics->add_option("--patience", options->patience, "Seconds to wait for brokers, or for members to be gone")
      ->check(CLI::Range(0, 3600))
      ->capture_default_str();
  topics->add_option("--termination-log", options->termination_log, "Where the verdict goes besides standard output")
      ->capture_default_str();
  AddLogFormat(topics, options);
  topics->footer("Exit codes: 0 done; 1 somebody has to change something; 2 wrong arguments; 3 trying again may help.");
  return topics;
}

int Main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);
  struct sigaction action {};
  action.sa_handler = OnSignal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);

  Options options;
  CLI::App app{"Millstream's sidecar: runs one processor for the worker that connects to its socket.",
               "millstream-sidecar"};
  app.require_subcommand(0, 1);
  AddRunOptions(&app, &options);
  CLI::App* const drain = AddDrain(&app, &options);
  CLI::App* const topics = AddTopics(&app, &options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (drain->parsed()) return Drain(options);
  SetLogging(LogLevel::kInfo, FormatOf(options));
  return topics->parsed() ? Topics(options) : Run(options);
}

}  // namespace
}  // namespace millstream

int main(int argc, char** argv) { return millstream::Main(argc, argv); }
