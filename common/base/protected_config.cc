#include "common/base/protected_config.h"

#include "common/base/strings.h"

namespace millstream {
namespace {

constexpr std::string_view kAcknowledged = "a record counts as written only when every in-sync replica has it";
constexpr std::string_view kDeadlines = "Millstream bounds every wait itself";
constexpr std::string_view kOrder = "records of a partition must keep their order";
constexpr std::string_view kOffsets = "offsets are committed in the transaction with the results, never by the client";
constexpr std::string_view kGroup = "Millstream speaks the group protocol itself and assigns partitions explicitly";
constexpr std::string_view kVersions = "brokers are asked what they understand";
constexpr std::string_view kBothClients = "the group client could not do the same";
constexpr std::string_view kMemory = "it follows from the memory the process may use (--memory)";
constexpr std::string_view kCallbacks = "it holds an address in this program";
constexpr std::string_view kSecurity = "the log and the group client must log in the same way";

using Match = ProtectedProperty::Match;

constexpr ProtectedProperty kProperties[] = {
    {"bootstrap.servers", "kafka.bootstrapServers", "both clients must reach the same cluster"},
    {"metadata.broker.list", "kafka.bootstrapServers", "both clients must reach the same cluster"},
    // Ids.
    {"client.id", "", "it is made from group and member, so that brokers' logs and quotas show which is which"},
    {"group.id", "group", kGroup},
    {"group.instance.id", "", kGroup},
    {"transactional.id", "group", "transactional ids are fenced by name"},
    // Group.
    {"group.protocol", "", kGroup},
    {"group.remote.assignor", "", kGroup},
    {"group.protocol.type", "", kGroup},
    {"partition.assignment.strategy", "", kGroup},
    {"session.timeout.ms", "membership.sessionTimeout", kGroup},
    {"heartbeat.interval.ms", "membership.heartbeatInterval", kGroup},
    {"max.poll.interval.ms", "", kGroup},
    {"coordinator.query.interval.ms", "", kGroup},
    {"topic.blacklist", "", kGroup},
    // Guarantee.
    {"transaction.timeout.ms", "transaction.timeout", "it must fit the transactions"},
    {"enable.idempotence", "guarantee", kOrder},
    {"enable.gapless.guarantee", "guarantee", kOrder},
    {"max.in.flight", "", kOrder},
    {"max.in.flight.requests.per.connection", "", kOrder},
    {"queuing.strategy", "", kOrder},
    {"acks", "guarantee", kAcknowledged},
    {"request.required.acks", "guarantee", kAcknowledged},
    {"delivery.report.only.error", "", kAcknowledged},
    {"produce.offset.report", "", kAcknowledged},
    {"isolation.level", "guarantee", "inputs and changelogs are read without aborted records"},
    {"check.crcs", "", "damaged records are always refused"},
    {"socket.max.fails", "",
     "a connection ends with its first request that is not answered: that is how the log hears of it"},
    {"message.timeout.ms", "transaction.timeout", kDeadlines},
    {"delivery.timeout.ms", "transaction.timeout", kDeadlines},
    {"message.send.max.retries", "", kDeadlines},
    {"retries", "", kDeadlines},
    {"partitioner", "outputs[].partitioner", "partitions are chosen before librdkafka sees a record"},
    {"allow.auto.create.topics", "outputs[].create", "a topic made by accident has the wrong partitions"},
    {"test.mock.num.brokers", "", "it would talk to brokers that do not exist"},
    {"test.mock.broker.rtt", "", "it would talk to brokers that do not exist"},
    // Offsets.
    {"enable.auto.commit", "", kOffsets},
    {"enable.auto.offset.store", "", kOffsets},
    {"auto.commit.enable", "", kOffsets},
    {"auto.commit.interval.ms", "", kOffsets},
    {"auto.offset.reset", "inputs[].startFrom", "offsets that are gone stop a task, they are never jumped over"},
    {"enable.partition.eof", "", "restoring ends by it"},
    // Memory.
    {"queued.max.messages.kbytes", "", kMemory},
    {"queued.min.messages", "", kMemory},
    {"queue.buffering.max.kbytes", "", kMemory},
    {"queue.buffering.max.messages", "", kMemory},
    {"fetch.max.bytes", "", kMemory},
    {"fetch.message.max.bytes", "", kMemory},
    {"max.partition.fetch.bytes", "", kMemory},
    {"message.max.bytes", "", "what a record may take is the topic's to say (max.message.bytes)"},
    {"receive.message.max.bytes", "", kMemory},
    // What the group client cannot honour.
    {"api.version.request", "", kVersions},
    {"api.version.request.timeout.ms", "", kVersions},
    {"api.version.fallback.ms", "", kVersions},
    {"broker.version.fallback", "", kVersions},
    {"broker.address.family", "", kBothClients},
    {"client.dns.lookup", "", kBothClients},
    // Code and addresses.
    {"plugin.library.paths", "", "it loads foreign code into the process that holds state and credentials"},
    {"interceptors", "", kCallbacks},
    {"opaque", "", kCallbacks},
    {"default_topic_conf", "", kCallbacks},
    {"enabled_events", "", kCallbacks},
    {"msg_order_cmp", "", kCallbacks},
    {"log.queue", "", "log lines go where Millstream's own go"},
    {"internal.termination.signal", "", "signals belong to Millstream"},
    {"security.protocol", "kafka.tls and kafka.sasl", kSecurity},
    // Families.
    {"offset.store.", "", kOffsets, Match::kPrefix},
    {"offset_", "", kCallbacks, Match::kPrefix},
    {"sasl.", "kafka.sasl", kSecurity, Match::kPrefix},
    {"enable.sasl.", "kafka.sasl", kSecurity, Match::kPrefix},
    {"oauthbearer", "kafka.sasl", kSecurity, Match::kPrefix},
    {"ssl.", "kafka.tls", kSecurity, Match::kPrefix},
    {"ssl_", "kafka.tls", kSecurity, Match::kPrefix},
    {"enable.ssl.", "kafka.tls", kSecurity, Match::kPrefix},
    {"https.", "kafka.tls", kSecurity, Match::kPrefix},
    {"_cb", "", kCallbacks, Match::kSuffix},
};

}  // namespace

std::span<const ProtectedProperty> ProtectedProperties() { return kProperties; }

const ProtectedProperty* FindProtectedProperty(std::string_view name) {
  for (const ProtectedProperty& property : kProperties) {
    const bool found = property.match == Match::kPrefix   ? name.starts_with(property.name)
                       : property.match == Match::kSuffix ? name.ends_with(property.name)
                                                          : name == property.name;
    if (found) return &property;
  }
  return nullptr;
}

std::string WayOut(const ProtectedProperty& property) {
  if (property.field.empty()) return StrCat("leave it out: ", property.reason);
  return StrCat("use spec.", property.field, ": ", property.reason);
}

absl::Status CheckNotProtected(std::string_view name) {
  const ProtectedProperty* property = FindProtectedProperty(name);
  if (property == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(StrCat("the property ", name, " of librdkafka cannot be set; ", WayOut(*property)));
}

}  // namespace millstream
