#ifndef MILLSTREAM_SIDECAR_GROUP_KAFKA_MEMBERSHIP_H_
#define MILLSTREAM_SIDECAR_GROUP_KAFKA_MEMBERSHIP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/metrics.h"
#include "common/log/kafka/cluster_access.h"
#include "common/log/kafka/live_access.h"
#include "sidecar/group/membership.h"
#include "sidecar/group/plan/member_data.h"

namespace millstream::group {

struct KafkaMembershipOptions {
  kafka::ClusterAccess access;
  // In place of `access` where that changes during the membership, because secrets are rotated: calls from then on are
  // made with it, by the same member.
  std::shared_ptr<kafka::LiveAccess> live_access;
  std::string group;
  std::string client_id = "millstream";  // seen in Kafka's tools; a member id is <client id>-<uuid>
  // Static membership: the name that survives a restart of the process (a pod's name); a restart within the session
  // timeout moves nothing. Empty: dynamic.
  std::string instance_id;
  std::vector<std::string> topics;            // every input, the loop included: the subscription
  int tasks = 0;                              // 0 .. tasks-1, the inputs' partition count; at least 1
  std::optional<std::vector<TaskId>> manual;  // partitions.manual: the only tasks this processor runs
  absl::Duration session_timeout = absl::Seconds(45);
  absl::Duration heartbeat_interval = absl::Milliseconds(500);
  absl::Duration rebalance_timeout = absl::Seconds(60);
  absl::Duration transaction_timeout = absl::Seconds(15);  // of those ended for others; under the brokers' maximum
  std::string host;                                        // host:port where this process answers queries
  std::vector<std::string> transactional_ids;              // of this process's writers
  ProcessState process;                 // asked for positions at every join, before heartbeats if alive
  const Clock* clock = &SystemClock();  // for waiting; connections use the system's clock
  MetricsRegistry* metrics = nullptr;   // may be null
};

// Membership in a consumer group on real brokers (2.5 to 4.4), with our own client of the group protocol: see README.md
// of this folder. Members of one group must agree on `topics` and `tasks`; a task goes only to members that know it.
//
// Join returns at once, INVALID_ARGUMENT if the options cannot be used; all else comes as events: no broker, a wrong
// password, a missing ACL as OnProblem while it tries on; another process under the same instance id as OnStopped.
// The destructor ends its threads without leaving the group: a static member can come back within the session timeout.
// `events` outlives it and gets its calls from one thread of it, which also tells the time to the group's broker: it
// must not block.
std::unique_ptr<Membership> NewKafkaMembership(KafkaMembershipOptions options, MembershipEvents* events);

}  // namespace millstream::group

#endif  // MILLSTREAM_SIDECAR_GROUP_KAFKA_MEMBERSHIP_H_
