// log::Admin on a cluster: ends of partitions, offsets of groups, groups.
#include <cstdlib>
#include <cstring>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/log/kafka/admin.h"
#include "common/log/kafka/assignment.h"
#include "common/log/kafka/errors.h"

namespace millstream::kafka {
namespace {

using log::GroupInfo;
using log::GroupOffset;
using OffsetMap = std::map<TopicPartition, GroupOffset>;

// librdkafka frees it with free().
void SetMetadata(const std::string& metadata, rd_kafka_topic_partition_t* of) {
  if (metadata.empty()) return;
  of->metadata = std::malloc(metadata.size());
  std::memcpy(of->metadata, metadata.data(), metadata.size());
  of->metadata_size = metadata.size();
}

TopicPartition PartitionOf(const rd_kafka_topic_partition_t& entry) {
  return {entry.topic, Partition(entry.partition)};
}

// The one group's result of a call about one group.
absl::StatusOr<const rd_kafka_group_result_t*> OneResult(const rd_kafka_group_result_t** results, size_t count,
                                                         const std::string& what) {
  if (count != 1) return absl::InternalError(StrCat(what, ": an answer with ", count, " results"));
  const rd_kafka_error_t* const error = rd_kafka_group_result_error(results[0]);
  if (error == nullptr || rd_kafka_error_code(error) == RD_KAFKA_RESP_ERR_NO_ERROR) return results[0];
  return ToStatus(rd_kafka_error_code(error), what, rd_kafka_error_string(error));
}

std::string_view Bytes(const void* data, int size) {
  return {static_cast<const char*>(data), data == nullptr ? 0 : static_cast<size_t>(size)};
}

GroupInfo GroupOf(const rd_kafka_group_info& from) {
  GroupInfo group{.group = from.group, .state = from.state, .generation = Generation(-1), .members = {}};
  for (int i = 0; i < from.member_cnt; ++i) {
    const rd_kafka_group_member_info& member = from.members[i];
    const std::string_view assignment = Bytes(member.member_assignment, member.member_assignment_size);
    group.members.push_back({.member_id = member.member_id,
                             .instance_id = "",
                             .host = member.client_host,
                             .assigned = DecodeAssignment(assignment)});
  }
  return group;
}

}  // namespace

// The library knows no leader: there is no such partition, or what it remembers of the topic is out of date, or there
// is none at the moment.
absl::Status KafkaAdmin::WhyNoLeader(const TopicPartition& of, const std::string& doing) {
  const std::shared_ptr<Client> client = client_->client();
  const Owned<rd_kafka_topic_t> topic(rd_kafka_topic_new(client->get(), of.topic.c_str(), nullptr));
  if (!topic) return absl::InvalidArgumentError(StrCat(doing, ": not a legal name of a topic"));
  const rd_kafka_metadata_t* raw = nullptr;
  rd_kafka_resp_err_t error = rd_kafka_metadata(client->get(), 0, topic.get(), &raw, Millis(client_->deadline()));
  const OwnedMetadata metadata(raw);
  if (!error && metadata->topic_cnt == 1) error = metadata->topics[0].err;
  if (error) return ToStatus(error, doing);
  if (of.partition.value() < 0 || of.partition.value() >= metadata->topics[0].partition_cnt) {
    return absl::NotFoundError(StrCat(doing, ": there is no such partition"));
  }
  return absl::UnavailableError(StrCat(doing, ": the partition has no leader"));
}

absl::StatusOr<Offset> KafkaAdmin::LookUp(const TopicPartition& of, int64_t spec, log::Isolation isolation,
                                          std::string_view what) {
  const auto wanted = PartitionList(of.topic, of.partition.value(), spec);
  const std::string doing = StrCat(what, " of ", of.ToString());
  Offset offset;
  MS_RETURN_IF_ERROR(client_->UntilSettled([&]() -> absl::Status {
    const auto event = client_->Call(
        RD_KAFKA_ADMIN_OP_LISTOFFSETS, doing,
        [&](rd_kafka_t* client, const rd_kafka_AdminOptions_t* options, rd_kafka_queue_t* queue) {
          rd_kafka_ListOffsets(client, wanted.get(), options, queue);
        },
        [&](rd_kafka_AdminOptions_t* options) {
          return rd_kafka_AdminOptions_set_isolation_level(options, isolation == log::Isolation::kReadCommitted
                                                                        ? RD_KAFKA_ISOLATION_LEVEL_READ_COMMITTED
                                                                        : RD_KAFKA_ISOLATION_LEVEL_READ_UNCOMMITTED);
        });
    if (absl::IsNotFound(event.status())) return WhyNoLeader(of, doing);
    if (!event.ok()) return event.status();
    size_t count = 0;
    const rd_kafka_ListOffsetsResultInfo_t** const infos =
        rd_kafka_ListOffsets_result_infos(rd_kafka_event_ListOffsets_result(event->get()), &count);
    if (count != 1) return absl::InternalError(StrCat(doing, ": an answer with ", count, " results"));
    const rd_kafka_topic_partition_t* const found = rd_kafka_ListOffsetsResultInfo_topic_partition(infos[0]);
    if (found->err) return ToStatus(found->err, doing);
    offset = Offset(found->offset);
    return absl::OkStatus();
  }));
  return offset;
}

absl::StatusOr<Offset> KafkaAdmin::StartOffset(const TopicPartition& of) {
  return LookUp(of, RD_KAFKA_OFFSET_SPEC_EARLIEST, log::Isolation::kReadUncommitted, "start offset");
}

absl::StatusOr<Offset> KafkaAdmin::EndOffset(const TopicPartition& of, log::Isolation isolation) {
  return LookUp(of, RD_KAFKA_OFFSET_SPEC_LATEST, isolation, "end offset");
}

absl::StatusOr<Offset> KafkaAdmin::OffsetForTime(const TopicPartition& of, int64_t timestamp_ms) {
  // Negative numbers are not times in the protocol, and no record that Kafka takes has one (it refuses them).
  MS_ASSIGN_OR_RETURN(const Offset offset, LookUp(of, std::max<int64_t>(timestamp_ms, 0),
                                                  log::Isolation::kReadUncommitted, "offset for a time"));
  return offset.value() >= 0 ? offset : EndOffset(of, log::Isolation::kReadUncommitted);
}

absl::StatusOr<OffsetMap> KafkaAdmin::StableGroupOffsets(const std::string& group,
                                                         absl::Span<const TopicPartition> partitions) {
  return Offsets(group, partitions, /*stable=*/true);
}

absl::StatusOr<OffsetMap> KafkaAdmin::GroupOffsetsNow(const std::string& group,
                                                      absl::Span<const TopicPartition> partitions) {
  return Offsets(group, partitions, /*stable=*/false);
}

absl::StatusOr<OffsetMap> KafkaAdmin::Offsets(const std::string& group, absl::Span<const TopicPartition> partitions,
                                              bool stable) {
  OffsetMap offsets;
  if (partitions.empty()) return offsets;
  const Owned<rd_kafka_topic_partition_list_t> list(rd_kafka_topic_partition_list_new(partitions.size()));
  for (const TopicPartition& tp : partitions) {
    rd_kafka_topic_partition_list_add(list.get(), tp.topic.c_str(), tp.partition.value());
  }
  const Owned<rd_kafka_ListConsumerGroupOffsets_t> request(
      rd_kafka_ListConsumerGroupOffsets_new(group.c_str(), list.get()));
  rd_kafka_ListConsumerGroupOffsets_t* requests[] = {request.get()};
  const std::string what = StrCat("offsets of group ", group);
  std::string pending;
  const absl::Status status = client_->UntilSettled([&]() -> absl::Status {
    offsets.clear();
    MS_ASSIGN_OR_RETURN(const auto event,
                        client_->Call(
                            RD_KAFKA_ADMIN_OP_LISTCONSUMERGROUPOFFSETS, what,
                            [&](rd_kafka_t* client, const rd_kafka_AdminOptions_t* options, rd_kafka_queue_t* queue) {
                              rd_kafka_ListConsumerGroupOffsets(client, requests, 1, options, queue);
                            },
                            [stable](rd_kafka_AdminOptions_t* options) {
                              return rd_kafka_AdminOptions_set_require_stable_offsets(options, stable ? 1 : 0);
                            }));
    size_t count = 0;
    const rd_kafka_group_result_t** const results = rd_kafka_ListConsumerGroupOffsets_result_groups(
        rd_kafka_event_ListConsumerGroupOffsets_result(event.get()), &count);
    const auto result = OneResult(results, count, what);
    if (absl::IsNotFound(result.status())) return absl::OkStatus();  // no such group: no offsets
    if (!result.ok()) return result.status();
    const rd_kafka_topic_partition_list_t* const found = rd_kafka_group_result_partitions(*result);
    for (int i = 0; found != nullptr && i < found->cnt; ++i) {
      const rd_kafka_topic_partition_t& entry = found->elems[i];
      const TopicPartition tp = PartitionOf(entry);
      if (entry.err == RD_KAFKA_RESP_ERR_UNSTABLE_OFFSET_COMMIT) pending = tp.ToString();
      if (entry.err) return ToStatus(entry.err, StrCat(what, ", ", tp.ToString()));
      if (entry.offset < 0) continue;
      offsets[tp] = {Offset(entry.offset),
                     std::string(static_cast<const char*>(entry.metadata), entry.metadata ? entry.metadata_size : 0)};
    }
    return absl::OkStatus();
  });
  if (absl::IsUnavailable(status) && !pending.empty()) {
    return absl::DeadlineExceededError(StrCat(what, ": a transaction with an offset of ", pending,
                                              " is still open after ", absl::FormatDuration(client_->deadline())));
  }
  MS_RETURN_IF_ERROR(status);
  return offsets;
}

absl::Status KafkaAdmin::SetGroupOffsets(const std::string& group,
                                         absl::Span<const std::pair<TopicPartition, GroupOffset>> offsets) {
  if (offsets.empty()) return absl::OkStatus();
  const Owned<rd_kafka_topic_partition_list_t> list(rd_kafka_topic_partition_list_new(offsets.size()));
  for (const auto& [tp, offset] : offsets) {
    rd_kafka_topic_partition_t* const entry =
        rd_kafka_topic_partition_list_add(list.get(), tp.topic.c_str(), tp.partition.value());
    entry->offset = offset.next.value();
    SetMetadata(offset.metadata, entry);
  }
  const Owned<rd_kafka_AlterConsumerGroupOffsets_t> request(
      rd_kafka_AlterConsumerGroupOffsets_new(group.c_str(), list.get()));
  rd_kafka_AlterConsumerGroupOffsets_t* requests[] = {request.get()};
  const std::string what = StrCat("set offsets of group ", group);
  return client_->UntilSettled([&]() -> absl::Status {
    MS_ASSIGN_OR_RETURN(
        const auto event,
        client_->Call(RD_KAFKA_ADMIN_OP_ALTERCONSUMERGROUPOFFSETS, what,
                      [&](rd_kafka_t* client, const rd_kafka_AdminOptions_t* options, rd_kafka_queue_t* queue) {
                        rd_kafka_AlterConsumerGroupOffsets(client, requests, 1, options, queue);
                      }));
    size_t count = 0;
    const rd_kafka_group_result_t** const results = rd_kafka_AlterConsumerGroupOffsets_result_groups(
        rd_kafka_event_AlterConsumerGroupOffsets_result(event.get()), &count);
    MS_ASSIGN_OR_RETURN(const rd_kafka_group_result_t* const result, OneResult(results, count, what));
    const rd_kafka_topic_partition_list_t* const set = rd_kafka_group_result_partitions(result);
    for (int i = 0; set != nullptr && i < set->cnt; ++i) {
      const rd_kafka_resp_err_t error = set->elems[i].err;
      // How a broker says that a commit without membership meets a group that has members.
      if (error == RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID) {
        return absl::FailedPreconditionError(StrCat(what, ": the group has members: stop them first"));
      }
      if (error) return ToStatus(error, StrCat(what, ", ", PartitionOf(set->elems[i]).ToString()));
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<std::vector<GroupInfo>> KafkaAdmin::Groups(const char* only, std::vector<std::string>* metadata) {
  const std::string what = only == nullptr ? "list groups" : StrCat("describe group ", only);
  std::vector<GroupInfo> groups;
  MS_RETURN_IF_ERROR(client_->UntilSettled([&]() -> absl::Status {
    const rd_kafka_group_list* raw = nullptr;
    const std::shared_ptr<Client> client = client_->client();
    const rd_kafka_resp_err_t error = rd_kafka_list_groups(client->get(), only, &raw, Millis(client_->deadline()));
    const OwnedGroupList list(raw);
    if (error) {
      const absl::Status status = ToStatus(error, what, StrCat(rd_kafka_err2str(error), client->ConnectionTrouble()));
      // Some brokers have not answered: as good as unavailable.
      return error == RD_KAFKA_RESP_ERR__PARTIAL ? absl::UnavailableError(status.message()) : status;
    }
    groups.clear();
    if (metadata != nullptr) metadata->clear();
    for (int i = 0; i < list->group_cnt; ++i) {
      const rd_kafka_group_info& from = list->groups[i];
      if (from.err) return ToStatus(from.err, StrCat(what, ": group ", from.group));
      if (std::string_view(from.state) == "Dead") continue;  // deleted
      groups.push_back(GroupOf(from));
      for (int j = 0; metadata != nullptr && j < from.member_cnt; ++j)
        metadata->emplace_back(Bytes(from.members[j].member_metadata, from.members[j].member_metadata_size));
    }
    return absl::OkStatus();
  }));
  return groups;
}

absl::StatusOr<std::vector<GroupInfo>> KafkaAdmin::ListGroups() { return Groups(nullptr); }

absl::StatusOr<GroupInfo> KafkaAdmin::DescribeGroup(const std::string& group) {
  MS_ASSIGN_OR_RETURN(std::vector<GroupInfo> groups, Groups(group.c_str()));
  if (!groups.empty()) return std::move(groups.front());
  return GroupInfo{.group = group, .state = "Dead", .generation = Generation(-1), .members = {}};
}

absl::StatusOr<std::vector<KafkaLog::Member>> KafkaAdmin::GroupMembers(const std::string& group) {
  std::vector<std::string> metadata;  // of the members, in their order: one group has been asked for
  MS_ASSIGN_OR_RETURN(std::vector<GroupInfo> groups, Groups(group.c_str(), &metadata));
  std::vector<KafkaLog::Member> members;
  if (groups.empty()) return members;
  for (size_t i = 0; i < groups.front().members.size(); ++i) {
    log::GroupMember& member = groups.front().members[i];
    members.push_back({.member_id = std::move(member.member_id),
                       .host = std::move(member.host),
                       .metadata = std::move(metadata[i]),
                       .assigned = std::move(member.assigned)});
  }
  return members;
}

absl::Status KafkaAdmin::DeleteGroup(const std::string& group) {
  const std::string what = StrCat("delete group ", group);
  const Owned<rd_kafka_DeleteGroup_t> deletion(rd_kafka_DeleteGroup_new(group.c_str()));
  rd_kafka_DeleteGroup_t* deletions[] = {deletion.get()};
  return client_->UntilSettled([&]() -> absl::Status {
    MS_ASSIGN_OR_RETURN(const auto event, client_->Call(RD_KAFKA_ADMIN_OP_DELETEGROUPS, what,
                                                        [&](rd_kafka_t* client, const rd_kafka_AdminOptions_t* options,
                                                            rd_kafka_queue_t* queue) {
                                                          rd_kafka_DeleteGroups(client, deletions, 1, options, queue);
                                                        }));
    size_t count = 0;
    const rd_kafka_group_result_t** const results =
        rd_kafka_DeleteGroups_result_groups(rd_kafka_event_DeleteGroups_result(event.get()), &count);
    return OneResult(results, count, what).status();
  });
}

}  // namespace millstream::kafka
