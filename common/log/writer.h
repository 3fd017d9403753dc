#ifndef MILLSTREAM_COMMON_LOG_WRITER_H_
#define MILLSTREAM_COMMON_LOG_WRITER_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/log/record.h"

namespace millstream::log {

// Offset of the last acknowledged record per partition.
using AcknowledgedOffsets = absl::flat_hash_map<TopicPartition, Offset>;

struct WriterOptions {
  std::string transactional_id;
  // The log aborts a transaction that is open for longer, and fences its writer.
  absl::Duration transaction_timeout = absl::Seconds(15);
  // Own bound on every call below.
  absl::Duration call_deadline = absl::Seconds(30);
};

// Writes records and group offsets in transactions, all or nothing for read_committed readers.
//
// Thread-compatible: one thread uses a writer; its calls block. Order of calls: Init, then any number of
// Begin, Append*, Flush, SendOffsets?, (Commit | Abort). Append takes offsets at once, as in Kafka: records lie in the
// log, invisible to read_committed readers, before the outcome is known.
//
// Every error carries a Recovery (common/base/status.h):
//   kRetry     nothing happened, call again
//   kAbort     call Abort, then Begin afresh. FAILED_PRECONDITION with the message "ILLEGAL_GENERATION" or
//              "UNKNOWN_MEMBER_ID" in it: the token is not (any more) the group's
//   kRecreate  destroy the writer and make one with the same transactional id, whose Init fences what is in flight.
//              With IsOutcomeUnknown(status) a commit or abort may have happened, or happen until that Init returns
// A Commit that returned OK is durable.
class TransactionalWriter {
 public:
  virtual ~TransactionalWriter() = default;

  // Fences earlier writers of this transactional id and ends their open transaction (abort, or completes a commit under
  // way). Must succeed before anything else.
  virtual absl::Status Init() = 0;

  virtual absl::Status Begin() = 0;
  // Queues the records, in order per partition; blocks when the writer's bounded queue is full.
  // INVALID_ARGUMENT names a record that is too large for its topic: the transaction must be aborted.
  virtual absl::Status Append(std::vector<OutgoingRecord> records) = 0;
  // Waits until all appended records are acknowledged; returns their highest offset per partition since Begin.
  virtual absl::StatusOr<AcknowledgedOffsets> Flush() = 0;
  // Offsets become the group's when the transaction commits; until then stable reads of them wait.
  virtual absl::Status SendOffsets(const GroupToken& token,
                                   absl::Span<const std::pair<TopicPartition, GroupOffset>> offsets) = 0;
  virtual absl::Status Commit() = 0;
  virtual absl::Status Abort() = 0;
};

// Writes single records without a transaction, in order and without duplicates while it lives (Kafka: idempotent
// producer). For AtLeastOnce outputs and `millstream produce`. Thread-compatible.
class PlainWriter {
 public:
  virtual ~PlainWriter() = default;
  virtual absl::Status Append(std::vector<OutgoingRecord> records) = 0;
  // Durable when it returns OK.
  virtual absl::StatusOr<AcknowledgedOffsets> Flush() = 0;
};

}  // namespace millstream::log

#endif  // MILLSTREAM_COMMON_LOG_WRITER_H_
