#ifndef MILLSTREAM_COMMON_LOG_EMBEDDED_COORDINATOR_H_
#define MILLSTREAM_COMMON_LOG_EMBEDDED_COORDINATOR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/log/embedded/appender.h"
#include "common/log/embedded/core.h"

namespace millstream::log::embedded {

// One incarnation of a transactional writer: valid until another one raises the producer's epoch.
struct ProducerHandle {
  std::shared_ptr<Producer> producer;
  int32_t epoch = 0;
};

// Transactions, on the state in Core. Thread-safe. Errors carry the Recovery of TransactionalWriter.

// Fences earlier incarnations, ends their transaction, and gives the next epoch.
absl::StatusOr<ProducerHandle> InitProducer(Core& core, const std::string& transactional_id, absl::Duration timeout,
                                            absl::Duration deadline);

absl::Status AppendInTransaction(Core& core, const ProducerHandle& handle, absl::Span<PendingBatch> batches);

absl::Status SendOffsets(Core& core, const ProducerHandle& handle, const GroupToken& token,
                         absl::Span<const std::pair<TopicPartition, GroupOffset>> offsets);

// Without a transaction (nothing appended, no offsets sent) they do nothing. A commit is on the disk when it returns
// OK.
absl::Status EndTransaction(Core& core, const ProducerHandle& handle, bool commit);

// Aborts what is open for longer than its writer allowed, and fences that writer. Returns the first error.
absl::Status AbortExpired(Core& core);

}  // namespace millstream::log::embedded

#endif  // MILLSTREAM_COMMON_LOG_EMBEDDED_COORDINATOR_H_
