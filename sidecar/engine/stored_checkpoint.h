#ifndef MILLSTREAM_SIDECAR_ENGINE_STORED_CHECKPOINT_H_
#define MILLSTREAM_SIDECAR_ENGINE_STORED_CHECKPOINT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/log/record.h"

namespace millstream::engine {

// What a worker's database holds of one task beside its data (STORE, CHECKPOINT): the transaction that was committed
// there last, from which it can be finished in the log. Bytes to everybody but the sidecar: one MessagePack array
//   [1, metadata str, [topic str], [input], [output], [metadata str]]
// with inputs [topic index, partition, next, previous metadata str] and outputs
//   [topic index, partition, timestamp, key or nil, value or nil, [[header name bin, value or nil]]].
// The first number is the version of the format.
struct StoredCheckpoint {
  struct Input {
    TopicPartition of;
    Offset next;           // the position that the transaction commits
    std::string previous;  // metadata of the offset that was committed before it; empty: none was
  };

  std::string metadata;  // of the offsets that the transaction commits: its name (R6)
  std::vector<Input> inputs;
  std::vector<log::OutgoingRecord> outputs;  // dead letters among them
  // Where it is a transaction that is sent again, and nothing else: its earlier names, the latest first. Whoever was
  // taken for dead may commit it in the log under one of them yet. At most kMostNames: so many owners one after the
  // other would have to be interrupted while they send it again, and the first of them to live on.
  std::vector<std::string> also;
  static constexpr size_t kMostNames = 64;
};

// What the log knows of an input of the task.
struct CommittedInput {
  TopicPartition of;
  Offset next;  // kNoOffset: nothing is committed
  std::string_view metadata;
};

// How a checkpoint and the committed offsets stand to each other.
enum class CheckpointAge : uint8_t {
  kSame,     // the transaction is committed in the log too
  kNewer,    // it is not: its outputs and offsets are still to be sent
  kForeign,  // neither: somebody else has set the offsets or the checkpoint since
};

std::string EncodeCheckpoint(const StoredCheckpoint& checkpoint);
// About what the record takes in it; never less.
int64_t CheckpointBytes(const log::OutgoingRecord& record);
// Elements of its lists: DecodeCheckpoint takes protocol::kMaxElements.
size_t CheckpointElements(const StoredCheckpoint& checkpoint);
// InvalidArgument: no checkpoint; Unimplemented: of a later version.
absl::StatusOr<StoredCheckpoint> DecodeCheckpoint(std::string_view bytes);
// Inputs that only one of the two has were added to the manifest or taken out of it, and say nothing.
CheckpointAge AgeOf(const StoredCheckpoint& checkpoint, absl::Span<const CommittedInput> committed);

}  // namespace millstream::engine

#endif  // MILLSTREAM_SIDECAR_ENGINE_STORED_CHECKPOINT_H_
