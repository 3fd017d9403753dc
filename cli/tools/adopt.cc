#include "cli/tools/adopt.h"

#include <utility>

#include "cli/tools/empty_group.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::cli {

absl::StatusOr<AdoptPlan> PlanAdoption(log::Log* log, const AdoptRequest& request) {
  AdoptPlan plan;
  MS_ASSIGN_OR_RETURN(plan.members, MembersOf(log, request.group));
  std::vector<TopicPartition> partitions;
  for (const std::string& topic : request.topics) {
    MS_ASSIGN_OR_RETURN(const log::TopicInfo info, log->admin().DescribeTopic(topic));
    for (int number = 0; number < info.partitions; ++number) partitions.push_back({topic, Partition(number)});
  }
  MS_ASSIGN_OR_RETURN(const auto committed, log->admin().StableGroupOffsets(request.group, partitions));
  for (const TopicPartition& of : partitions) {
    const auto found = committed.find(of);
    if (found == committed.end()) continue;
    std::string owner = OwnerOf(found->second.metadata);
    if (owner == request.owner) {
      ++plan.already_ours;
    } else {
      plan.rows.push_back({.of = of, .next = found->second.next, .owner = std::move(owner)});
    }
  }
  return plan;
}

absl::Status ExecuteAdoption(log::Log* log, const AdoptRequest& request, const AdoptPlan& plan) {
  if (plan.rows.empty()) return absl::OkStatus();
  MS_ASSIGN_OR_RETURN(const std::unique_ptr<EmptyGroupWriter> writer,
                      EmptyGroupWriter::Open(log, request.group, StrCat(request.group, "-adopt"), request.owner));
  std::vector<std::pair<TopicPartition, Offset>> positions;
  for (const AdoptPlan::Row& row : plan.rows) positions.push_back({row.of, row.next});
  return writer->Commit(positions);
}

}  // namespace millstream::cli
