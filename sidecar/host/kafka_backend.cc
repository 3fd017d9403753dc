#include <utility>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/log/kafka/open.h"
#include "sidecar/group/kafka_membership.h"
#include "sidecar/group/net/cluster_client.h"
#include "sidecar/group/plan/group_protocol.h"
#include "sidecar/group/transaction_ender.h"
#include "sidecar/host/backend.h"

namespace millstream::host {
namespace {

// What ends a transaction is an answer of one broker, after markers on others: milliseconds, unless one of them is
// away.
constexpr absl::Duration kEndingPatience = absl::Seconds(5);

TaskOwners::Member MemberFrom(const kafka::KafkaLog::Member& member, const std::string& input) {
  TaskOwners::Member result;
  const absl::StatusOr<group::MemberData> said = group::ReadSubscription(member.metadata);
  // As the broker sees it, where the member does not say where it answers.
  const std::string address = said.ok() && !said->host.empty() ? said->host : member.host;
  result.where = StrCat("member ", member.member_id, " at ", address);
  for (const TopicPartition& of : member.assigned) {
    if (of.topic == input) result.tasks.emplace_back(of.partition.value());
  }
  return result;
}

class KafkaBackend : public Backend {
 public:
  KafkaBackend(std::shared_ptr<kafka::LiveAccess> access, std::string client_id, std::unique_ptr<kafka::KafkaLog> log)
      : access_(std::move(access)), client_id_(std::move(client_id)), log_(std::move(log)) {}

  log::Log* log() override { return log_.get(); }
  bool shared() const override { return true; }
  MembershipFactory Membership(const spec::StreamProcessorSpec& spec, const MemberIdentity& member,
                               MetricsRegistry* metrics) override {
    group::KafkaMembershipOptions options;
    options.live_access = access_;
    options.group = spec.group;
    options.client_id = client_id_;
    options.instance_id = member.instance_id;
    for (const spec::InputSpec& input : spec.inputs) options.topics.push_back(input.topic);
    if (spec.is_view()) {
      for (const spec::TableSpec& join : spec.joins) options.topics.push_back(join.topic);
    }
    options.tasks = member.partitions;
    if (!spec.manual_partitions.empty()) options.manual = spec.TasksOf(member.partitions);
    options.session_timeout = spec.membership.session_timeout;
    options.heartbeat_interval = spec.membership.heartbeat_interval;
    options.rebalance_timeout = spec.membership.rebalance_timeout;
    options.transaction_timeout = spec.transaction.timeout;
    options.host = member.host;
    options.transactional_ids = member.transactional_ids;
    options.metrics = metrics;
    return [options](const group::ProcessState& process, group::MembershipEvents* events) mutable {
      options.process = process;
      return group::NewKafkaMembership(options, events);
    };
  }

  ForeignTransactions TransactionsOf(const spec::StreamProcessorSpec& spec) override {
    return {
        .offsets_now = [log = log_.get(), group = spec.group](
                           const std::vector<TopicPartition>& inputs) { return log->GroupOffsetsNow(group, inputs); },
        .end =
            [access = access_, timeout = spec.transaction.timeout](const std::vector<std::string>& ids) {
              return group::EndTransactions(access->Now()->access, ids, timeout, kEndingPatience);
            }};
  }
  TaskOwners::MembersFn MembersOf(const spec::StreamProcessorSpec& spec) override {
    if (spec.is_view() && spec.joins.empty()) return nullptr;  // lookups are whole everywhere
    return [log = log_.get(), group = spec.group,
            input = spec.is_view() ? spec.joins.front().topic
                                   : spec.inputs.front().topic]() -> absl::StatusOr<std::vector<TaskOwners::Member>> {
      MS_ASSIGN_OR_RETURN(const std::vector<kafka::KafkaLog::Member> members, log->GroupMembers(group));
      std::vector<TaskOwners::Member> result;
      for (const kafka::KafkaLog::Member& member : members) result.push_back(MemberFrom(member, input));
      return result;
    };
  }

 private:
  const std::shared_ptr<kafka::LiveAccess> access_;
  const std::string client_id_;
  const std::unique_ptr<kafka::KafkaLog> log_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> OpenKafkaBackend(std::shared_ptr<kafka::LiveAccess> access,
                                                          const std::string& client_id, MetricsRegistry* metrics) {
  kafka::KafkaLogOptions options;
  options.live_access = access;
  options.client_id = client_id;
  options.metrics = metrics;
  MS_ASSIGN_OR_RETURN(std::unique_ptr<kafka::KafkaLog> log, kafka::OpenKafkaLog(options));
  return std::make_unique<KafkaBackend>(std::move(access), client_id, std::move(log));
}

absl::Status TryKafkaAccess(const kafka::ClusterAccess& access, const std::string& client_id, absl::Duration patience) {
  kafka::KafkaLogOptions options;
  options.access = access;
  options.client_id = client_id;
  MS_RETURN_IF_ERROR(kafka::OpenKafkaLog(options).status());
  // Of the two the group client says why it is not let in, librdkafka only that nobody answers.
  return group::TryAccess(access, client_id, group::IoLimit::In(patience, /*cancel=*/nullptr));
}

}  // namespace millstream::host
