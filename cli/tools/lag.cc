#include "cli/tools/lag.h"

#include <algorithm>
#include <map>

#include "cli/tools/empty_group.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::cli {
namespace {

using Json = nlohmann::json;

absl::StatusOr<std::vector<log::TopicInfo>> TopicsOf(log::Log* log, const LagRequest& request) {
  if (request.topics.empty()) return log->admin().ListTopics();
  std::vector<log::TopicInfo> topics;
  for (const std::string& topic : request.topics) {
    MS_ASSIGN_OR_RETURN(log::TopicInfo info, log->admin().DescribeTopic(topic));
    topics.push_back(std::move(info));
  }
  return topics;
}

absl::StatusOr<PartitionLag> ReadPartition(log::Log* log, const TopicPartition& of) {
  PartitionLag lag{.of = of, .committed = {}, .start = {}, .stable_end = {}, .end = {}, .owner = ""};
  MS_ASSIGN_OR_RETURN(lag.start, log->admin().StartOffset(of));
  MS_ASSIGN_OR_RETURN(lag.stable_end, log->admin().EndOffset(of, log::Isolation::kReadCommitted));
  MS_ASSIGN_OR_RETURN(lag.end, log->admin().EndOffset(of, log::Isolation::kReadUncommitted));
  return lag;
}

}  // namespace

int64_t PartitionLag::lag() const { return std::max<int64_t>(0, end - committed.value_or(start)); }

absl::StatusOr<LagReport> ReadLag(log::Log* log, const LagRequest& request) {
  LagReport report{.group = request.group, .state = "Dead", .members = {}, .partitions = {}};
  std::map<TopicPartition, std::string> owners;
  MS_ASSIGN_OR_RETURN(const log::GroupInfo info, log->admin().DescribeGroup(request.group));
  report.state = info.state;
  for (const log::GroupMember& member : info.members) {
    const std::string& name = member.instance_id.empty() ? member.member_id : member.instance_id;
    report.members.push_back(name);
    for (const TopicPartition& of : member.assigned) owners[of] = name;
  }

  MS_ASSIGN_OR_RETURN(const std::vector<log::TopicInfo> topics, TopicsOf(log, request));
  std::vector<TopicPartition> partitions;
  for (const log::TopicInfo& topic : topics) {
    for (int number = 0; number < topic.partitions; ++number) {
      const auto& wanted = request.partitions;
      if (wanted.empty() || std::find(wanted.begin(), wanted.end(), number) != wanted.end())
        partitions.push_back({topic.name, Partition(number)});
    }
  }
  MS_ASSIGN_OR_RETURN(const auto committed, log->admin().StableGroupOffsets(request.group, partitions));
  for (const TopicPartition& of : partitions) {
    const auto found = committed.find(of);
    if (request.topics.empty() && found == committed.end()) continue;
    MS_ASSIGN_OR_RETURN(PartitionLag lag, ReadPartition(log, of));
    if (found != committed.end()) lag.committed = found->second.next;
    if (const auto owner = owners.find(of); owner != owners.end()) lag.owner = owner->second;
    report.partitions.push_back(std::move(lag));
  }
  return report;
}

Json ToJson(const LagRequest& request) {
  return {{"group", request.group}, {"topics", request.topics}, {"partitions", request.partitions}};
}

LagRequest LagRequestFrom(const Json& json) {
  return {.group = json.at("group"),
          .topics = json.at("topics").get<std::vector<std::string>>(),
          .partitions = json.at("partitions").get<std::vector<int32_t>>()};
}

Json ToJson(const LagReport& report) {
  Json partitions = Json::array();
  int64_t total = 0;
  for (const PartitionLag& lag : report.partitions) {
    total += lag.lag();
    partitions.push_back({{"topic", lag.of.topic},
                          {"partition", lag.of.partition.value()},
                          {"committed", lag.committed.has_value() ? Json(lag.committed->value()) : Json()},
                          {"start", lag.start.value()},
                          {"stableEnd", lag.stable_end.value()},
                          {"end", lag.end.value()},
                          {"lag", lag.lag()},
                          {"lost", lag.lost()},
                          {"owner", lag.owner.empty() ? Json() : Json(lag.owner)}});
  }
  return {{"group", report.group},
          {"state", report.state},
          {"members", report.members},
          {"lag", total},
          {"partitions", partitions}};
}

}  // namespace millstream::cli
