#include "cli/kubernetes/command_line.h"

#include <signal.h>

#include <iostream>
#include <string>

#include "CLI/CLI.hpp"
#include "cli/kubernetes/commands.h"
#include "common/http/threads.h"

namespace millstream::cli {

bool IsKubectlPlugin(std::string_view program) {
  return program.substr(program.rfind('/') + 1) == "kubectl-millstream";
}

int ClusterContext::WithProcessor(
    const std::function<absl::Status(Cluster& cluster, const Json& processor)>& use) const {
  const absl::StatusOr<std::unique_ptr<Cluster>> cluster = Connect();
  if (!cluster.ok()) return base.Fail(cluster.status());
  const absl::StatusOr<Json> processor = (*cluster)->Processor(name);
  if (!processor.ok()) return base.Fail(processor.status());
  const absl::Status used = use(**cluster, *processor);
  std::cout.flush();
  return used.ok() ? kExitOk : base.Fail(used);
}

void ClusterContext::AddConnectionOptions(CLI::App* command) {
  command->add_option("-n,--namespace", options.name_space, "Namespace; default: that of the context")
      ->type_name("NAMESPACE");
  command->add_option("--context", options.context, "Context of the kubeconfig; default: its current one")
      ->type_name("NAME");
  command->add_option("--kubeconfig", options.kubeconfig, "Default: $KUBECONFIG, the pod, ~/.kube/config")
      ->type_name("FILE");
}

void ClusterContext::AddClusterOptions(CLI::App* command) {
  AddConnectionOptions(command);
  base.AddOutputOption(command);
}

void ClusterContext::AddName(CLI::App* command, bool required) {
  command->add_option("name", name, "StreamProcessor")->required(required)->type_name("NAME");
}

int RunKubectlPlugin(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);
  http::SetThreads(2);  // before anything else of the library
  ClusterContext context;
  CLI::App app{"Millstream's stream processors in a Kubernetes cluster: what they do, and what can be done about it.",
               "kubectl millstream"};
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "Help of every command");
  app.get_formatter()->column_width(34);
  app.footer(
      "It reads sidecars through the API server (right: get on pods/proxy) and writes only StreamProcessors and Jobs.\n"
      "Exit codes: 0 done; 1 failed, the reason is on standard error; 2 wrong arguments.\n\n"
      "Examples:\n"
      "  kubectl millstream status -A\n"
      "  kubectl millstream tasks totals -n shop\n"
      "  kubectl millstream state get totals sums alice");
  RegisterStatus(&app, &context);
  RegisterClusterTasks(&app, &context);
  RegisterClusterLag(&app, &context);
  RegisterClusterState(&app, &context);
  RegisterChanges(&app, &context);
  RegisterClusterJobs(&app, &context);
  RegisterReport(&app, &context);
  app.set_version_flag("--version", "kubectl-millstream " MILLSTREAM_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitOk : kExitUsage;
  }
  try {
    return context.base.selected ? context.base.selected() : kExitUsage;
  } catch (const std::exception& error) {
    std::cerr << "kubectl millstream: internal error: " << error.what() << std::endl;
    return kExitFailure;
  }
}

}  // namespace millstream::cli
