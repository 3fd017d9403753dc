// state get, state scan: the same as `millstream state`, asked of the sidecars of a processor's pods.
#include <memory>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "cli/kubernetes/cluster_state.h"
#include "cli/kubernetes/commands.h"
#include "cli/state_source.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::cli {
namespace {

absl::StatusOr<std::unique_ptr<ProcessorBackend>> Open(const ClusterContext& context) {
  MS_ASSIGN_OR_RETURN(std::unique_ptr<Cluster> connected, context.Connect());
  const std::shared_ptr<Cluster> cluster = std::move(connected);
  MS_ASSIGN_OR_RETURN(const Json processor, cluster->Processor(context.name));
  MS_ASSIGN_OR_RETURN(const std::vector<Json> pods, cluster->Pods(processor));
  std::vector<StateHolder> holders;
  for (const Json& pod : pods) {
    const kube::ObjectKey key = kube::KeyOf(pod);
    holders.push_back({.name = StrCat("pod ", key.name),
                       .ask = [cluster, key](const std::string& path) { return cluster->AskSidecar(key, path); }});
  }
  return NewClusterState(std::move(holders));
}

}  // namespace

void RegisterClusterState(CLI::App* app, ClusterContext* context) {
  StateSource source;
  source.open = [context] { return Open(*context); };
  source.add_options = [context](CLI::App* command) {
    context->AddName(command);
    context->AddConnectionOptions(command);
  };
  RegisterState(app, &context->base, source);
}

}  // namespace millstream::cli
