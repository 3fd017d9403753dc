// millstream-operator: makes and keeps what the StreamProcessors of a Kubernetes cluster ask for.
#include <signal.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "common/base/log_line.h"
#include "common/http/client.h"
#include "common/http/threads.h"
#include "operator/process.h"

namespace millstream::program {
namespace {

constexpr int kWrongArguments = 2;
// Within the 30 s that a kubelet gives.
constexpr absl::Duration kGrace = absl::Seconds(20);

int Probe(const std::string& url) {
  const absl::StatusOr<http::Response> response = http::Get(url, absl::Seconds(10));
  if (!response.ok()) {
    std::cerr << response.status().message() << std::endl;
    return 1;
  }
  std::cout << response->body << std::flush;
  return response->status >= 200 && response->status <= 299 ? 0 : 1;
}

int Run(const Options& options, const sigset_t& signals) {
  SetLogging(options.log_level, options.log_format);
  auto process = Process::Start(options, kube::ProcessEnvironment(), &SystemClock());
  if (!process.ok()) {
    LogError("the operator ends", {{"error", std::string(process.status().message())}});
    return 1;
  }
  int signal_number = 0;
  sigwait(&signals, &signal_number);
  LogInfo("the operator ends", {{"signal", signal_number}});
  if ((*process)->Stop(kGrace)) return 0;
  LogWarning("something is still under way; others take over when the lease has run out");
  std::_Exit(1);
}

int Main(int argc, char** argv) {
  // Before any thread: all of them leave these to sigwait.
  signal(SIGPIPE, SIG_IGN);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  const absl::StatusOr<Options> options =
      ParseOptions(std::vector<std::string>(argv + 1, argv + argc), kube::ProcessEnvironment());
  if (absl::IsCancelled(options.status())) {
    std::cout << options.status().message();
    return 0;
  }
  if (!options.ok()) {
    std::cerr << kProgram << ": " << options.status().message() << std::endl;
    return kWrongArguments;
  }
  return options->probe.empty() ? Run(*options, signals) : Probe(options->probe);
}

}  // namespace
}  // namespace millstream::program

int main(int argc, char** argv) {
  millstream::http::SetThreads(4);  // before cpprestsdk starts forty
  return millstream::program::Main(argc, argv);
}
