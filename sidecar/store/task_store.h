#ifndef MILLSTREAM_SIDECAR_STORE_TASK_STORE_H_
#define MILLSTREAM_SIDECAR_STORE_TASK_STORE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/bytes.h"
#include "common/base/ids.h"

namespace millstream::store {

class StateEnvironment;

// Index of a store in the processor's list of stores (the readable id of the worker protocol).
using StoreIndex = uint32_t;

struct StoreDefinition {
  std::string name;
  enum class Backend { kDisk, kMemory } backend = Backend::kDisk;
  std::string changelog_topic;     // empty: no changelog, the store is a cache that is emptied whenever the task opens
  std::string changelog_topic_id;  // identity of the topic: another id means another topic, and the state is rebuilt
  // The topic is written by others (a join): what is committed there is enough, nothing of this group can be pending.
  bool foreign = false;
  // Its rows begin with the time of their last write (timed_value.h).
  bool timed = false;
};

// Whose state a database holds. Everything in it is in the stamp and compared at open.
struct TaskIdentity {
  std::string group;
  TaskId task;
  std::vector<StoreDefinition> stores;
};

// How far a task's state has come, written in the same batch as the state.
struct Positions {
  std::map<StoreIndex, Offset> changelog;  // next changelog position per store with a changelog
  std::map<std::string, Offset> inputs;    // by input topic: next offset whose effects are in the state
  int64_t wall_ms = 0;                     // when this was written
};

struct StoreWrite {
  StoreIndex store = 0;
  Bytes key;
  MaybeBytes value;  // nullopt: delete
};

struct ScanRequest {
  StoreIndex store = 0;
  std::optional<Bytes> from, to;  // [from, to) by byte order; absent: open end
  bool reverse = false;           // from high to low, within the same range
  std::optional<Bytes> after;     // resume behind this key (before it when reversed)
  size_t max_rows = 1000;
  size_t max_bytes = 1 << 20;  // at least one row is returned
};

struct ScanPage {
  std::vector<std::pair<Bytes, Bytes>> rows;
  bool more = false;  // resume with `after` = last row's key
};

// The stores of one task: one RocksDB database with a column family per disk store, plus maps for memory stores.
// WAL off, atomic flush: after kill -9 the disk holds some earlier Apply in whole, state and positions together, or
// nothing.
//
// Thread-safe: reads run beside one Apply at a time; a read sees an Apply in whole or not at all.
// Errors: DATA_LOSS (checksum, missing file): wipe and rebuild. RESOURCE_EXHAUSTED: disk full, see message.
class TaskStore {
 public:
  // Opens or creates the database in `directory`. A database of another identity, of an unknown format version or a
  // damaged one is wiped first: `wiped_reason()` says why, and positions() start empty. Only I/O errors and a folder
  // held by another process are returned as errors.
  static absl::StatusOr<std::unique_ptr<TaskStore>> Open(StateEnvironment* environment, const std::string& directory,
                                                         const TaskIdentity& identity);
  virtual ~TaskStore() = default;

  // Empty unless Open had to wipe what was there.
  virtual const std::string& wiped_reason() const = 0;
  // As of the last Apply. Memory stores and stores without a changelog have no position after Open.
  virtual Positions positions() const = 0;

  virtual absl::StatusOr<MaybeBytes> Get(StoreIndex store, std::string_view key) const = 0;
  // Aligned with `keys`.
  virtual absl::StatusOr<std::vector<MaybeBytes>> MultiGet(StoreIndex store,
                                                           absl::Span<const std::string_view> keys) const = 0;
  virtual absl::StatusOr<ScanPage> Scan(const ScanRequest& request) const = 0;

  // One atomic batch: the writes in order, and what `positions` names (positions of others stay).
  virtual absl::Status Apply(absl::Span<const StoreWrite> writes, const Positions& positions) = 0;
  // Refreshes the wall time of the stamp.
  virtual absl::Status Touch(int64_t wall_ms) = 0;

  // Makes everything applied so far survive kill -9.
  virtual absl::Status Flush() = 0;
  // Bytes of changelog applied and not flushed: what a kill -9 now would cost to replay.
  virtual int64_t UnflushedBytes() const = 0;
  // Empties the stores and positions (rebuild from scratch).
  virtual absl::Status Wipe() = 0;
  virtual int64_t ApproximateBytes() const = 0;
};

}  // namespace millstream::store

#endif  // MILLSTREAM_SIDECAR_STORE_TASK_STORE_H_
