// millstream-sidecar: one processor beside its worker, as in a pod. Reads the manifest from a file and runs it on the
// Kafka of its kafka block, or, with --data alone, on the embedded log of a data folder; the worker is somebody else's
// process and connects to the socket.
#include <poll.h>
#include <signal.h>

#include <cstdlib>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "CLI/CLI.hpp"
#include "common/base/clock.h"
#include "common/base/log_line.h"
#include "common/base/strings.h"
#include "sidecar/host/cluster_access.h"
#include "sidecar/host/local_stack.h"

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
};

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

int Run(const Options& options) {
  const LogFormat format = options.log_format == "json" ? LogFormat::kJson : LogFormat::kText;
  SetLogging(LogLevel::kInfo, format);
  const absl::StatusOr<spec::Manifest> manifest = spec::LoadOneManifest(options.manifest);
  if (!manifest.ok()) return Fail(manifest.status());
  SetLogging(LevelOf(manifest->processor.sidecar.log_level), format);

  host::LocalStackOptions stack_options;
  stack_options.data = options.data.empty() ? options.state : options.data;
  stack_options.program = "millstream-sidecar";
  if (options.data.empty()) {
    host::AccessSources sources;
    sources.bootstrap_servers = options.kafka;
    sources.secrets_folder = options.secrets;
    const absl::StatusOr<kafka::ClusterAccess> cluster = host::ResolveClusterAccess(manifest->processor.kafka, sources);
    if (!cluster.ok()) return Fail(cluster.status());
    stack_options.clusters = {*cluster};
    stack_options.member_name = options.member;
    if (!options.member.empty()) stack_options.owner = options.member;
  }
  stack_options.manifests = {*manifest};
  stack_options.socket_paths = {options.socket};
  stack_options.http_address = options.http_address;
  stack_options.http_port = options.http_port;
  stack_options.memory_bytes = static_cast<int64_t>(options.memory);
  stack_options.interrupted = [] { return interrupted != 0; };
  stack_options.on_wait = [](const std::string& what) { LogWarning("waiting to begin", {{"cause", what}}); };
  const auto stack = host::LocalStack::Start(std::move(stack_options));
  if (!stack.ok()) return Fail(stack.status());
  LogInfo("the sidecar runs", {{"processor", manifest->processor.QualifiedName()}, {"socket", options.socket}});

  std::set<std::string> told;
  absl::Status ended;
  while (interrupted == 0 && ended.ok()) {
    poll(nullptr, 0, 1000);  // ends early with a signal
    const host::SidecarStatus status = (*stack)->processors().front().sidecar->Status();
    ReportConditions(status, &told);
    ended = status.ended;
  }
  const absl::Duration deadline = SystemClock().Monotonic() + absl::Seconds(options.grace);
  (*stack)->BeginDrain(absl::Seconds(options.grace));
  while (!(*stack)->drained() && SystemClock().Monotonic() < deadline + absl::Seconds(1)) poll(nullptr, 0, 20);
  const bool in_order = (*stack)->Stop();
  LogInfo("the sidecar ends", {{"drained", in_order ? "yes" : "no"}});
  if ((*stack)->stuck_calls() > 0) std::_Exit(1);  // the log cannot be closed under a call that never came back
  return ended.ok() ? 0 : 1;
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
  app.add_option("--manifest", options.manifest, "StreamProcessor, YAML or JSON")->capture_default_str();
  CLI::Option* data =
      app.add_option("--data", options.data, "Run on the embedded log of this data folder, without a Kafka");
  app.add_option("--kafka", options.kafka, "Bootstrap servers; default: those of the manifest's kafka block")
      ->excludes(data);
  app.add_option("--secrets", options.secrets, "Folder of the secrets the manifest refers to, as DIR/<name>/<key>")
      ->excludes(data);
  app.add_option("--state", options.state, "Folder of state and ids, on Kafka")->capture_default_str()->excludes(data);
  app.add_option("--member", options.member,
                 "Who this process is in its group, unique and the same after a restart, as the pod's name; default: a "
                 "random id kept in the folder")
      ->envname("MILLSTREAM_MEMBER")
      ->excludes(data);
  app.add_option("--socket", options.socket, "Where the worker connects")
      ->envname("MILLSTREAM_SOCKET")
      ->capture_default_str();
  app.add_option("--http-address", options.http_address, "Where HTTP listens")->capture_default_str();
  app.add_option("--http-port", options.http_port, "0: a free one")->check(CLI::Range(0, 65535))->capture_default_str();
  app.add_option("--memory", options.memory, "Bound on the memory of this process; default: the cgroup's limit")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--grace", options.grace, "Seconds to finish what is in flight after SIGTERM")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
  app.add_option("--log-format", options.log_format, "json or text")
      ->check(CLI::IsMember({"json", "text"}))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return Run(options);
}

}  // namespace
}  // namespace millstream

int main(int argc, char** argv) { return millstream::Main(argc, argv); }
