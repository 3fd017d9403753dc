#include <iostream>
#include <map>

#include "CLI/CLI.hpp"
#include "cli/commands.h"
#include "cli/text_format.h"
#include "common/base/strings.h"
#include "nlohmann/json.hpp"

namespace millstream::cli {
namespace {

using Json = nlohmann::json;

struct CreateOptions {
  std::string topic;
  int partitions = 4;
  int replication_factor = -1;
  std::vector<std::string> config;
  bool if_missing = false;
};

int64_t RecordsIn(const TopicDetail& detail) {
  int64_t sum = 0;
  for (const PartitionExtent& extent : detail.partitions) sum += extent.stable_end - extent.start;
  return sum;
}

int List(const Context& context) {
  absl::StatusOr<std::unique_ptr<LogAccess>> access = context.Open("topics", false);
  if (!access.ok()) return context.Fail(access.status());
  const absl::StatusOr<std::vector<log::TopicInfo>> topics = (*access)->ListTopics();
  if (!topics.ok()) return context.Fail(topics.status());
  Json list = Json::array();
  std::vector<std::vector<std::string>> rows = {{"TOPIC", "PARTITIONS", "OFFSETS", "CLEANUP"}};
  for (const log::TopicInfo& topic : *topics) {
    const absl::StatusOr<TopicDetail> detail = (*access)->DescribeTopic(topic.name);
    if (!detail.ok()) continue;  // deleted meanwhile
    const auto policy = topic.config.find("cleanup.policy");
    const std::string cleanup = policy == topic.config.end() ? "delete" : policy->second;
    list.push_back({{"topic", topic.name},
                    {"partitions", topic.partitions},
                    {"offsets", RecordsIn(*detail)},
                    {"cleanup", cleanup}});
    rows.push_back({topic.name, std::to_string(topic.partitions), WithCommas(RecordsIn(*detail)), cleanup});
  }
  if (context.json) {
    std::cout << list.dump() << std::endl;
  } else if (rows.size() == 1) {
    std::cout << "no topics yet; `millstream topics create` makes one" << std::endl;
  } else {
    std::cout << Table(rows);
  }
  return kExitOk;
}

int Describe(const Context& context, const std::string& topic) {
  absl::StatusOr<std::unique_ptr<LogAccess>> access = context.Open("topics", false);
  if (!access.ok()) return context.Fail(access.status());
  const absl::StatusOr<TopicDetail> detail = (*access)->DescribeTopic(topic);
  if (!detail.ok()) return context.Fail(detail.status());
  if (context.json) {
    Json partitions = Json::array();
    for (const PartitionExtent& extent : detail->partitions) {
      partitions.push_back({{"partition", extent.partition.value()},
                            {"start", extent.start.value()},
                            {"stableEnd", extent.stable_end.value()},
                            {"end", extent.end.value()}});
    }
    std::cout << Json{{"topic", detail->info.name},
                      {"id", detail->info.id},
                      {"config", detail->info.config},
                      {"partitions", partitions}}
                     .dump()
              << std::endl;
    return kExitOk;
  }
  std::cout << "topic  " << detail->info.name << "\nid     " << detail->info.id << "\n";
  for (const auto& [name, value] : detail->info.config) std::cout << "config " << name << " = " << value << "\n";
  std::vector<std::vector<std::string>> rows = {{"PARTITION", "START", "STABLE END", "END"}};
  for (const PartitionExtent& extent : detail->partitions) {
    rows.push_back({StrCat(extent.partition.value()), StrCat(extent.start.value()), StrCat(extent.stable_end.value()),
                    StrCat(extent.end.value())});
  }
  std::cout << Table(rows);
  return kExitOk;
}

int Create(const Context& context, const CreateOptions& options) {
  log::TopicSpec spec{.name = options.topic,
                      .partitions = options.partitions,
                      .replication_factor = options.replication_factor,
                      .config = {}};
  for (const std::string& pair : options.config) {
    const size_t at = pair.find('=');
    if (at == std::string::npos || at == 0) return context.Misuse(StrCat("--config ", pair, ": give it as NAME=VALUE"));
    spec.config[pair.substr(0, at)] = pair.substr(at + 1);
  }
  absl::StatusOr<std::unique_ptr<LogAccess>> access = context.Open("topics", true);
  if (!access.ok()) return context.Fail(access.status());
  const absl::Status created = (*access)->CreateTopic(spec);
  const bool there = absl::IsAlreadyExists(created) && options.if_missing;
  if (!created.ok() && !there) return context.Fail(created);
  if (context.json) {
    std::cout << Json{{"topic", options.topic}, {"created", !there}}.dump() << std::endl;
  } else {
    std::cout << "topic " << options.topic
              << (there ? " is there already" : StrCat(" made with ", options.partitions, " partitions")) << std::endl;
  }
  return kExitOk;
}

int Delete(const Context& context, const std::string& topic) {
  absl::StatusOr<std::unique_ptr<LogAccess>> access = context.Open("topics", false);
  if (!access.ok()) return context.Fail(access.status());
  const absl::Status deleted = (*access)->DeleteTopic(topic);
  if (!deleted.ok()) return context.Fail(deleted);
  if (context.json) {
    std::cout << Json{{"topic", topic}, {"deleted", true}}.dump() << std::endl;
  } else {
    std::cout << "topic " << topic << " deleted" << std::endl;
  }
  return kExitOk;
}

}  // namespace

void RegisterTopics(CLI::App* app, Context* context) {
  CLI::App* group = app->add_subcommand("topics", "List, describe, create and delete topics");
  group->require_subcommand(1);
  group->footer(
      "Examples:\n  millstream topics list\n  millstream topics create orders --partitions 8 --config "
      "retention.ms=3600000");

  CLI::App* list = group->add_subcommand("list", "All topics, their partitions and how many offsets they hold");
  list->callback([=] { context->selected = [=] { return List(*context); }; });

  auto topic = std::make_shared<std::string>();
  CLI::App* describe =
      group->add_subcommand("describe", "One topic: configuration, first and last offsets of its partitions");
  describe->add_option("topic", *topic, "Topic")->required();
  describe->callback([=] { context->selected = [=] { return Describe(*context, *topic); }; });

  auto options = std::make_shared<CreateOptions>();
  CLI::App* create = group->add_subcommand("create", "Make a topic");
  create->add_option("topic", options->topic, "Topic")->required();
  create->add_option("--partitions", options->partitions, "Partitions")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  create
      ->add_option("--replication-factor", options->replication_factor,
                   "Copies on Kafka; default: the broker's; the embedded log has one")
      ->check(CLI::Range(1, 32767));
  create
      ->add_option("-c,--config", options->config,
                   "Configuration as Kafka names it (cleanup.policy, retention.ms, ...), may be repeated")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  create->add_flag("--if-missing", options->if_missing, "No error if it is there already");
  create->callback([=] { context->selected = [=] { return Create(*context, *options); }; });

  CLI::App* remove = group->add_subcommand("delete", "Delete a topic and its records");
  remove->add_option("topic", *topic, "Topic")->required();
  remove->callback([=] { context->selected = [=] { return Delete(*context, *topic); }; });

  for (CLI::App* command : {list, describe, create, remove}) {
    context->AddLogOptions(command, Context::ManifestFlag::kShort);
    context->AddOutputOption(command);
  }
}

}  // namespace millstream::cli
