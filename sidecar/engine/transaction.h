#ifndef MILLSTREAM_SIDECAR_ENGINE_TRANSACTION_H_
#define MILLSTREAM_SIDECAR_ENGINE_TRANSACTION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "sidecar/engine/event_time.h"
#include "sidecar/engine/io.h"

namespace millstream::engine {

// What one task has in a transaction. Its staged state is in TaskOverlays under the transaction's number.
struct TaskPart {
  TaskId task;
  std::vector<Offset> next;  // per input: the position it commits; kNoOffset: none known
  uint64_t records = 0;
  std::optional<StreamClock> clock = std::nullopt;  // stream time with it

  // What a worker has put into it, for hooks: the last batch, and whom BEGIN and FINALIZE were answered by.
  WorkerId worker = 0;
  uint64_t last_seq = 0;
  WorkerId begun = 0;
  bool finalized = false;

  // With an external store: what goes out with it, for its checkpoint (about so many bytes of a frame).
  std::vector<log::OutgoingRecord> outputs;
  int64_t output_bytes = 0;
  std::vector<std::string> also;  // it is one that is sent again, nothing else joins it: its earlier names
};

enum class Outcome : uint8_t {
  kCommitted,
  kAborted,
  kLost,  // somebody else committed for this task since (R6)
};

// One transaction over all tasks with effects in it (R1), from its first effect to its known outcome.
struct Transaction {
  explicit Transaction(uint64_t of) : number(of) {}

  const uint64_t number;
  absl::Duration first_effect{};  // when it was created
  absl::Duration not_before{};    // minDuration after the start of the one before
  std::vector<TaskPart> parts;
  int64_t bytes = 0;  // staged: state ops and outputs

  // Where it stands. kOpen: collects effects. The rest: on its way to the log, in this order. From
  // kDoomed on: on its way to an abort, or to somebody else's word about it.
  enum class Phase : uint8_t {
    kOpen,
    kFlushing,
    kSendingOffsets,
    kCommitting,
    kDoomed,
    kAborting,
    kRecreating,
    kResolving,
    kAborted
  };
  Phase phase = Phase::kOpen;
  bool begun = false;     // Begin was called: `writer`, `token`, `metadata` are fixed
  bool appended = false;  // something was given to the writer
  bool flushed = false;
  bool commit_called = false;  // from here on an error may mean that it happened
  WriterName writer = WriterName::kA;
  log::GroupToken token;  // the one in force at Begin (R7)
  std::string metadata;   // of every offset it commits (R6)
  absl::Duration closed_at{};
  absl::Duration phase_at{};                 // when the phase under way began, from kFlushing on
  std::vector<log::OutgoingRecord> waiting;  // not given to the writer yet
  int plain_appends = 0;                     // AtLeastOnce: outputs given to the plain writer, not flushed
  bool plain_flushed = true;
  log::AcknowledgedOffsets acknowledged;
  std::optional<absl::Duration> retry_at;  // of the call that the log asked to repeat
  int retries = 0;

  // The part of `task`, added with `inputs` unknown positions if it has none yet.
  TaskPart& Part(TaskId task, size_t inputs) {
    auto [it, added] = index_.try_emplace(task, parts.size());
    if (added) {
      parts.emplace_back();
      parts.back().task = task;
      parts.back().next.assign(inputs, kNoOffset);
    }
    return parts[it->second];
  }
  // nullptr: it has none.
  TaskPart* FindPart(TaskId task) {
    auto it = index_.find(task);
    return it == index_.end() ? nullptr : &parts[it->second];
  }
  bool Has(TaskId task) const { return index_.contains(task); }

 private:
  absl::flat_hash_map<TaskId, size_t> index_;
};

// The metadata of offsets: {"v":1,"owner":"<stamp>","tag":"<transactional id>/<process
// start>/<number>","topics":{...},"externalStore":true}. Everything but the number is made once.
class OffsetTags {
 public:
  OffsetTags() = default;
  // `topic_stamp`: a JSON object, or empty: then there is no "topics". `external_store`: the state that belongs to the
  // offsets is in a database of the worker's; told only if so.
  OffsetTags(std::string_view owner_stamp, std::string_view transactional_id, std::string_view process_start,
             std::string_view topic_stamp, bool external_store = false);
  std::string Metadata(uint64_t transaction) const;
  // Whether such offsets were committed with a checkpoint in an external store.
  static bool HasExternalStore(std::string_view metadata);

 private:
  std::string prefix_, suffix_;
};

}  // namespace millstream::engine

#endif  // MILLSTREAM_SIDECAR_ENGINE_TRANSACTION_H_
