#ifndef MILLSTREAM_SIDECAR_GROUP_TRANSACTION_ENDER_H_
#define MILLSTREAM_SIDECAR_GROUP_TRANSACTION_ENDER_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/log/kafka/cluster_access.h"
#include "sidecar/group/net/address.h"
#include "sidecar/group/net/cluster_client.h"
#include "sidecar/group/net/io_limit.h"

namespace millstream::group {

// Ends the open transactions of writers that are gone, by taking over their transactional ids (InitProducerId): readers
// go on in milliseconds instead of after the transaction's timeout and the broker's next look at it, 10 to 20 s. A
// writer alive under such an id is fenced, so that ids must belong to nobody alive. librdkafka does the same in its
// init_transactions, but waits a fixed 500 ms where a transaction was open; here it is asked every 20 ms.
// One thread at a time.
class TransactionEnder {
 public:
  // `client` outlives it. `transaction_timeout`: at most the brokers' transaction.max.timeout.ms.
  TransactionEnder(ClusterClient* client, absl::Duration transaction_timeout)
      : client_(client), transaction_timeout_(transaction_timeout) {}

  struct Failure {
    std::string transactional_id;
    absl::Status status;  // PERMISSION_DENIED, FAILED_PRECONDITION: a person has to mend it; else out of time
  };
  // Blocks until all are ended or given up. What is not in the result has no open transaction.
  std::vector<Failure> End(const std::vector<std::string>& transactional_ids, const IoLimit& limit);

 private:
  // OK: ended. UNAVAILABLE and what the network brings: to be asked again.
  absl::Status Ask(const std::string& id, const IoLimit& limit);

  ClusterClient* const client_;
  const absl::Duration transaction_timeout_;
  std::map<std::string, BrokerAddress> coordinators_;  // of the ids of the End under way
};

// The same with connections of its own: for a process that starts again under its ids, before its writers do, and for
// ids that are named by committed offsets and belong to no member (Membership::PresentTransactionalIds). Blocks for
// `timeout` at most. The first failure, if any.
absl::Status EndTransactions(const kafka::ClusterAccess& access, const std::vector<std::string>& transactional_ids,
                             absl::Duration transaction_timeout, absl::Duration timeout);

}  // namespace millstream::group

#endif  // MILLSTREAM_SIDECAR_GROUP_TRANSACTION_ENDER_H_
