#include "cli/context.h"

#include <iostream>
#include <optional>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "cli/access/kafka_access.h"
#include "cli/access/open_access.h"
#include "cli/kafka_properties.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/spec/manifest.h"
#include "nlohmann/json.hpp"
#include "sidecar/host/cluster_access.h"
#include "sidecar/host/data_folder.h"

namespace millstream::cli {

int Context::Fail(const absl::Status& status) const {
  if (json) {
    const nlohmann::json error = {
        {"error", {{"code", absl::StatusCodeToString(status.code())}, {"message", std::string(status.message())}}}};
    std::cerr << error.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
  } else {
    std::cerr << "millstream: " << status.message() << std::endl;
  }
  return kExitFailure;
}

int Context::Misuse(const std::string& message) const {
  std::cerr << "millstream: " << message << "\nRun with --help for more information." << std::endl;
  return kExitUsage;
}

absl::StatusOr<spec::StreamProcessorSpec> Context::Processor() const {
  std::vector<spec::Manifest> manifests;
  if (manifest.empty()) {
    manifests = host::DataFolder::KnownProcessorsIn(data);
  } else {
    spec::ParseResult parsed = spec::ValidateFiles({manifest});
    if (!parsed.ok()) return absl::InvalidArgumentError(spec::ToText(parsed.diagnostics));
    manifests = std::move(parsed.manifests);
  }
  std::string names;
  std::vector<const spec::StreamProcessorSpec*> meant;
  for (const spec::Manifest& each : manifests) {
    const spec::StreamProcessorSpec& known = each.processor;
    StrAppend(&names, names.empty() ? "" : ", ", known.QualifiedName());
    const bool named = processor == known.QualifiedName() || processor == known.name;
    if (processor.empty() || named) meant.push_back(&known);
  }
  if (meant.size() == 1) return *meant.front();
  const std::string where = manifest.empty() ? StrCat("the data folder ", data) : manifest;
  if (manifests.empty())
    return absl::InvalidArgumentError(
        StrCat("which processor? ", where, " knows none; give its manifest with --manifest FILE"));
  if (meant.empty())
    return absl::InvalidArgumentError(StrCat("no processor ", processor, " in ", where, "; there are: ", names));
  return absl::InvalidArgumentError(StrCat("there are several processors (", names, "); choose one with --processor"));
}

absl::StatusOr<std::unique_ptr<LogAccess>> Context::OpenKafka() const {
  absl::StatusOr<spec::StreamProcessorSpec> known = Processor();
  if (!manifest.empty() && !known.ok()) return known.status();
  kafka::ClusterAccess access;
  if (!kafka_config.empty()) {
    MS_ASSIGN_OR_RETURN(access, ReadKafkaProperties(kafka_config));
  } else if (!manifest.empty()) {
    MS_ASSIGN_OR_RETURN(access, host::ResolveClusterAccess(known->kafka, {kafka, secrets}));
  }
  if (!kafka.empty()) access.bootstrap_servers = kafka;
  if (access.bootstrap_servers.empty()) {
    return absl::InvalidArgumentError(
        StrCat(kafka_config, " has no bootstrap.servers: put them there, or pass --kafka HOST:PORT"));
  }
  MS_RETURN_IF_ERROR(host::CheckBootstrapServers(access.bootstrap_servers));
  std::optional<spec::StreamProcessorSpec> meant;
  if (known.ok()) meant = *std::move(known);
  return OpenKafkaAccess(access, meant);
}

absl::StatusOr<std::unique_ptr<LogAccess>> Context::Open(std::string_view command, bool create) const {
  if (OnKafka()) return OpenKafka();
  OpenAccessOptions options;
  options.folder = data;
  options.program = StrCat("millstream ", command);
  options.create = create;
  options.on_wait = [](const std::string& holder) { std::cerr << "millstream: waiting: " << holder << std::endl; };
  return OpenAccess(options);
}

absl::StatusOr<std::string> Context::RunTool(std::string_view command, const std::string& tool,
                                             const std::string& request) const {
  MS_ASSIGN_OR_RETURN(const std::unique_ptr<LogAccess> access, Open(command, false));
  return access->RunTool(tool, request);
}

void Context::AddDataOption(CLI::App* command) {
  command->add_option("--data", data, "Folder of the local run: topics, state, everything")
      ->envname("MILLSTREAM_DATA")
      ->capture_default_str();
}

void Context::AddLogOptions(CLI::App* command, ManifestFlag flag) {
  AddDataOption(command);
  command->add_option("--kafka", kafka, "Use the Kafka with these bootstrap servers instead of the data folder")
      ->envname("MILLSTREAM_KAFKA")
      ->type_name("HOST:PORT");
  command
      ->add_option("--kafka-config", kafka_config,
                   "How to log in there: a properties file as Kafka's own tools and kcat read")
      ->envname("MILLSTREAM_KAFKA_CONFIG")
      ->type_name("FILE");
  command
      ->add_option(flag == ManifestFlag::kShort ? "-f,--manifest" : "--manifest", manifest,
                   "Manifest of the processor; its kafka block says how to log in, unless --kafka-config does")
      ->type_name("FILE");
  command->add_option("--secrets", secrets, "Folder of the secrets the manifest names: DIR/NAME/KEY")
      ->envname("MILLSTREAM_SECRETS")
      ->type_name("DIR");
  command->add_option("--processor", processor, "Processor, where the manifest or the data folder has several")
      ->type_name("NAME");
}

void Context::AddClusterOption(CLI::App* command) {
  command
      ->add_option("--cluster", cluster,
                   "Name of the cluster that runs the processor (clusterName of the chart): a group belongs to "
                   "<cluster>/<namespace>/<name>")
      ->capture_default_str()
      ->type_name("NAME");
}

void Context::AddOutputOption(CLI::App* command) {
  command
      ->add_option_function<std::string>(
          "-o,--output", [this](const std::string& format) { json = format == "json"; },
          "How to print results: text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->type_name("text|json");
}

}  // namespace millstream::cli
