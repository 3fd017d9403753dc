#ifndef MILLSTREAM_COMMON_LOG_READER_H_
#define MILLSTREAM_COMMON_LOG_READER_H_

#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/log/record.h"

namespace millstream::log {

// Records of one partition in offset order. Offsets may have gaps (compaction, control records).
struct RecordsRead {
  TopicPartition from;
  std::vector<Record> records;
  Offset next;  // position after them: beyond any control records the reader has passed
};

// The reader is at the end of what its isolation lets it see. Sent once per end: again only after the end has moved,
// also when it moved without a visible record (control records, aborted ones).
struct EndOfPartition {
  TopicPartition from;
  Offset position;
};

// The partition cannot be read from where it was to be read; it is paused until Seek or Remove.
// kOutOfRange: the offset is before the log start or beyond its end (never silently reset). kNotFound: topic is gone or
// was re-created. kDataLoss: the log is damaged. Others are transient and retried by the reader itself: not reported.
struct PartitionFailed {
  TopicPartition from;
  absl::Status status;
};

using ReaderEvent = std::variant<RecordsRead, EndOfPartition, PartitionFailed>;

struct ReaderOptions {
  Isolation isolation = Isolation::kReadCommitted;
  // Bound on records held for the caller, over all partitions: keys, values, headers and their bookkeeping.
  int64_t max_buffered_bytes = 16 << 20;
  // At most so much in one RecordsRead (at least one record).
  int64_t max_read_bytes = 1 << 20;
};

// Reads partitions from explicit positions; knows no group and commits nothing.
//
// One thread at a time may call; Wake alone may be called from any thread. A change (Add, Seek, Pause, Remove) takes
// effect before the next Poll: no event of the old position is returned after it.
class Reader {
 public:
  virtual ~Reader() = default;

  // Starts reading `from` at `start`. kAlreadyExists if it is read already; kNotFound if there is no such partition.
  virtual absl::Status Add(const TopicPartition& from, Offset start) = 0;
  // Stops; unknown partitions are ignored.
  virtual void Remove(const TopicPartition& from) = 0;
  virtual absl::Status Seek(const TopicPartition& from, Offset to) = 0;
  // A paused partition yields no events. Pausing keeps the position.
  virtual void Pause(const TopicPartition& from) = 0;
  virtual void Resume(const TopicPartition& from) = 0;

  // Waits up to `wait` for at least one event. Empty after the wait or a Wake. An error is one of the whole reader:
  // destroy it. Partitions are served in turn: none starves.
  virtual absl::StatusOr<std::vector<ReaderEvent>> Poll(absl::Duration wait) = 0;
  // Makes a running or the next Poll return at once.
  virtual void Wake() = 0;
};

}  // namespace millstream::log

#endif  // MILLSTREAM_COMMON_LOG_READER_H_
