#include <utility>

#include "common/base/status.h"
#include "common/log/kafka/open.h"
#include "sidecar/group/kafka_membership.h"
#include "sidecar/host/backend.h"

namespace millstream::host {
namespace {

class KafkaBackend : public Backend {
 public:
  KafkaBackend(kafka::ClusterAccess access, std::string client_id, std::unique_ptr<log::Log> log)
      : access_(std::move(access)), client_id_(std::move(client_id)), log_(std::move(log)) {}

  log::Log* log() override { return log_.get(); }
  bool shared() const override { return true; }
  MembershipFactory Membership(const spec::StreamProcessorSpec& spec, const MemberIdentity& member,
                               MetricsRegistry* metrics) override {
    group::KafkaMembershipOptions options;
    options.access = access_;
    options.group = spec.group;
    options.client_id = client_id_;
    options.instance_id = member.instance_id;
    for (const spec::InputSpec& input : spec.inputs) options.topics.push_back(input.topic);
    options.tasks = member.tasks;
    options.session_timeout = spec.membership.session_timeout;
    options.heartbeat_interval = spec.membership.heartbeat_interval;
    options.rebalance_timeout = spec.membership.rebalance_timeout;
    options.transaction_timeout = spec.transaction.timeout;
    options.host = member.host;
    options.transactional_ids = member.transactional_ids;
    options.metrics = metrics;
    return [options](group::MembershipEvents* events) { return group::NewKafkaMembership(options, events); };
  }

 private:
  const kafka::ClusterAccess access_;
  const std::string client_id_;
  const std::unique_ptr<log::Log> log_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> OpenKafkaBackend(const kafka::ClusterAccess& access,
                                                          const std::string& client_id, MetricsRegistry* metrics) {
  kafka::KafkaLogOptions options;
  options.access = access;
  options.client_id = client_id;
  options.metrics = metrics;
  MS_ASSIGN_OR_RETURN(std::unique_ptr<log::Log> log, kafka::OpenKafkaLog(options));
  return std::make_unique<KafkaBackend>(access, client_id, std::move(log));
}

}  // namespace millstream::host
