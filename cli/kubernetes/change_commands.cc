// pause, resume, restart: one field of the StreamProcessor; the operator does the rest.
#include <iostream>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "cli/kubernetes/commands.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "operator/kube/json.h"

namespace millstream::cli {
namespace {

int SetState(const ClusterContext& context, const std::string& state) {
  return context.WithProcessor([&](Cluster& cluster, const Json& processor) -> absl::Status {
    const Json patch = {{"spec", {{"desiredState", state}}}};
    MS_ASSIGN_OR_RETURN(const Json changed,
                        cluster.client().Patch(kube::kStreamProcessors, kube::KeyOf(processor), patch));
    if (context.base.json) {
      std::cout << Json{{"desiredState", kube::TextAt(changed, {"spec", "desiredState"})}}.dump() << "\n";
    } else if (state == "Paused") {
      std::cout << context.name
                << " is to pause: what is in flight is finished, nothing new is handled. Its pods learn "
                   "of it within about a minute\n";
    } else {
      std::cout << context.name << " is to go on; its pods learn of it within about a minute\n";
    }
    if (kube::Find(processor, {"metadata", "annotations", "argocd.argoproj.io/tracking-id"}) != nullptr)
      std::cerr << "it is managed by Argo CD, which may put spec.desiredState back" << std::endl;
    return absl::OkStatus();
  });
}

int Restart(const ClusterContext& context) {
  return context.WithProcessor([&](Cluster& cluster, const Json& processor) -> absl::Status {
    const std::string now = absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now(), absl::UTCTimeZone());
    const Json patch = {{"metadata", {{"annotations", {{"millstream.dev/restartedAt", now}}}}}};
    MS_RETURN_IF_ERROR(cluster.client().Patch(kube::kStreamProcessors, kube::KeyOf(processor), patch).status());
    if (context.base.json) {
      std::cout << Json{{"restartedAt", now}}.dump() << "\n";
    } else {
      std::cout << context.name << " restarts, one pod at a time; follow it with: kubectl millstream status "
                << context.name << "\n";
    }
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterChanges(CLI::App* app, ClusterContext* context) {
  CLI::App* pause = app->add_subcommand("pause", "Handle nothing new; tasks, state and queries stay");
  pause->callback([=] { context->base.selected = [=] { return SetState(*context, "Paused"); }; });
  CLI::App* resume = app->add_subcommand("resume", "Go on after pause");
  resume->callback([=] { context->base.selected = [=] { return SetState(*context, "Running"); }; });
  CLI::App* restart = app->add_subcommand(
      "restart", "Replace the pods one by one: new secrets in the environment, stopped tasks go on");
  restart->callback([=] { context->base.selected = [=] { return Restart(*context); }; });
  for (CLI::App* command : {pause, resume, restart}) {
    context->AddName(command);
    context->AddClusterOptions(command);
  }
}

}  // namespace millstream::cli
