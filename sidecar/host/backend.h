#ifndef MILLSTREAM_SIDECAR_HOST_BACKEND_H_
#define MILLSTREAM_SIDECAR_HOST_BACKEND_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/metrics.h"
#include "common/log/kafka/cluster_access.h"
#include "common/log/kafka/live_access.h"
#include "common/log/log.h"
#include "common/spec/stream_processor.h"
#include "sidecar/group/membership.h"
#include "sidecar/host/abandoned_transactions.h"
#include "sidecar/host/memory_budget.h"
#include "sidecar/host/task_owners.h"

namespace millstream::host {

// Makes the membership of a processor, telling `events` and asking `process`. What both refer to outlives it.
using MembershipFactory = std::function<std::unique_ptr<group::Membership>(const group::ProcessState& process,
                                                                           group::MembershipEvents* events)>;

// Who a processor of this process is in its group.
struct MemberIdentity {
  int partitions = 0;                          // that its inputs share
  std::string instance_id;                     // kept in the data folder: a restart is the same member again
  std::vector<std::string> transactional_ids;  // of its writers, for whoever has to end what this process left open
  std::string host;                            // where it answers queries
};

// Where the topics of a processor are, and how it becomes a member of its group. Thread-safe.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual log::Log* log() = 0;
  // One processor among possibly many of its group, in other processes: it joins when it has a worker, not before.
  virtual bool shared() const = 0;
  // The spec outlives the membership.
  virtual MembershipFactory Membership(const spec::StreamProcessorSpec& spec, const MemberIdentity& member,
                                       MetricsRegistry* metrics) = 0;
  // What this one has to know of the others in the processor's group; empty where there are none. The backend outlives
  // both.
  virtual ForeignTransactions TransactionsOf(const spec::StreamProcessorSpec&) { return {}; }
  virtual TaskOwners::MembersFn MembersOf(const spec::StreamProcessorSpec&) { return nullptr; }
};

// The embedded log in `directory`; this process is the only member of its groups. For all processors of a process.
absl::StatusOr<std::unique_ptr<Backend>> OpenEmbeddedBackend(const std::string& directory, const MemoryShares& memory);

// A Kafka, as one processor reaches it. `client_id` names this process in the brokers' logs and tools. Nothing is
// connected yet: errors are those of the configuration. When `access` changes, everything goes on with the new one
// (docs/design/0009-rotated-secrets.md).
absl::StatusOr<std::unique_ptr<Backend>> OpenKafkaBackend(std::shared_ptr<kafka::LiveAccess> access,
                                                          const std::string& client_id, MetricsRegistry* metrics);

// Whether both clients of a backend can use the access and some broker takes it, on a connection of its own. Blocks for
// `patience` at most, and a little to end clients. INVALID_ARGUMENT: certificates or keys cannot be used;
// FAILED_PRECONDITION: the broker's certificate is not to be trusted; UNAUTHENTICATED: refused; UNAVAILABLE,
// DEADLINE_EXCEEDED: no answer.
absl::Status TryKafkaAccess(const kafka::ClusterAccess& access, const std::string& client_id, absl::Duration patience);

}  // namespace millstream::host

#endif  // MILLSTREAM_SIDECAR_HOST_BACKEND_H_
