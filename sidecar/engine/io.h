#ifndef MILLSTREAM_SIDECAR_ENGINE_IO_H_
#define MILLSTREAM_SIDECAR_ENGINE_IO_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "common/base/bytes.h"
#include "common/base/ids.h"
#include "common/log/record.h"
#include "common/log/writer.h"
#include "sidecar/protocol/messages.h"
#include "sidecar/store/task_store.h"

// What goes into the engine (events) and comes out of it (actions). The engine is a step function: it never blocks, has
// no thread and does no I/O; whoever drives it (sidecar/host in production, the tests, simulation) carries the actions
// out and feeds what came of them back as events. Each action says which event answers it; an action that says "none"
// needs no answer.
namespace millstream::engine {

using WorkerId = uint64_t;  // one connection of user code; never reused in a process
using ReadId = uint64_t;    // one read of state
using QueryId = uint64_t;   // one query from outside (HTTP)
using ApplyId = uint64_t;
using CallId = uint64_t;                                         // one call on a writer
enum class WriterName : uint8_t { kA = 0, kB = 1, kPlain = 2 };  // kPlain: idempotent writer of AtLeastOnce outputs

// ---------------------------------------------------------------- events

// Membership: the task is ours until TaskRevoked. Answered in time by OpenTask.
struct TaskAssigned {
  TaskId task;
};
// Give the task up: its transactions are finished or aborted first. Answered by TaskReleased.
struct TaskRevoked {
  TaskId task;
};
// The token offsets are sent with from the next transaction on (R7). Comes before the first TaskAssigned.
// `members`: of the group; the more there are, the less often each commits (transaction.maxPerSecond).
struct TokenChanged {
  log::GroupToken token;
  int members = 1;
};
// The group rebalances: finish the open transactions with the old token, begin none. Answered by RebalanceReady.
struct RebalanceStarted {};
// This member was expelled (generation void): settle by R6; every task is lost, and TaskReleased comes for each when
// its stores are closed. A new token and new assignments may follow at once.
struct MembershipLost {
  absl::Status cause;
};

// Where an input starts. `committed`: the group had an offset; otherwise it was resolved from startFrom and is
// committed before the first batch (R1).
struct InputStart {
  uint32_t input = 0;
  Offset next;
  bool committed = false;
  std::string metadata;  // of the committed offset
};
// Restore finished (status OK) or failed. A failed task is Stopped with that error and tried again with backoff if the
// status is UNAVAILABLE, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED or DATA_LOSS (state is wiped by then).
struct TaskOpened {
  TaskId task;
  absl::Status status;
  std::vector<InputStart> inputs;
  store::Positions positions;  // of the restored state
};
struct TaskClosed {
  TaskId task;
};

// `fetch` in these three: the number of the StartFetch or SeekFetch they are read under. The engine drops those of an
// earlier one, so a driver that fills it in need not hunt down what is already queued when it carries out a seek. 0:
// not told.
struct RecordsRead {
  TaskId task;
  uint32_t input = 0;
  std::vector<log::Record> records;
  Offset next;  // position behind them
  uint64_t fetch = 0;
};
struct EndOfInput {
  TaskId task;
  uint32_t input = 0;
  Offset position;
  uint64_t fetch = 0;
};
struct InputFailed {
  TaskId task;
  uint32_t input = 0;
  absl::Status status;
  uint64_t fetch = 0;
};

struct KeysRead {
  ReadId read = 0;
  absl::Status status;
  std::vector<MaybeBytes> values;  // aligned with the keys asked for
};
struct RangeScanned {
  ReadId read = 0;
  absl::Status status;
  store::ScanPage page;
};
struct StateApplied {
  ApplyId apply = 0;
  absl::Status status;
};

// The server checked HELLO and sent WELCOME (WelcomeFor, welcome.h).
struct WorkerConnected {
  WorkerId worker = 0;
  protocol::Hello hello;
};
// `buffer` owns the bytes that the message's views point into.
struct WorkerSent {
  WorkerId worker = 0;
  protocol::WorkerMessage message;
  std::shared_ptr<const void> buffer;
};
// `orderly`: it said GOODBYE first. Anything else counts as a crash.
struct WorkerDisconnected {
  WorkerId worker = 0;
  absl::Status cause;
  bool orderly = false;
};
// The worker's outgoing queue is full / has room again.
struct WorkerWritable {
  WorkerId worker = 0;
  bool writable = true;
};

struct WriterCallDone {
  WriterName writer = WriterName::kA;
  CallId call = 0;
  absl::Status status;
  log::AcknowledgedOffsets acknowledged;  // after Flush
};
// Answer to ResolveOutcome: the group's stable offsets of every task's inputs, with metadata (R6).
struct OutcomeRead {
  CallId call = 0;
  absl::Status status;
  std::vector<std::pair<TopicPartition, log::GroupOffset>> offsets;
};

// Ask for committed state from outside. Answered by QueryAnswered.
struct QueryKey {
  QueryId query = 0;
  TaskId task;
  store::StoreIndex store = 0;
  Bytes key;
};
struct QueryRange {
  QueryId query = 0;
  TaskId task;
  store::ScanRequest range;
};

// A person asked to pause: what is out is finished and committed, nothing new is fetched or sent; or to go on. Tasks
// stay where they are and answer queries.
struct SetPaused {
  bool paused = true;
};
// A person asked a stopped task to go on.
struct RestartTask {
  TaskId task;
};
// What a task reads (a join or lookup) cannot be kept up any more as it is: the task is closed and opened again, which
// reads it anew.
struct StateFailed {
  TaskId task;
  absl::Status status;
};
// Time has passed: at least once a second, and when NextDeadline() comes.
struct Tick {};
// Shut down: stop fetching, finish or abort within `deadline` from now, release all tasks, GOODBYE. Answered by
// Drained.
struct Drain {
  absl::Duration deadline;
};

using Event = std::variant<TaskAssigned, TaskRevoked, TokenChanged, RebalanceStarted, MembershipLost, TaskOpened,
                           TaskClosed, RecordsRead, EndOfInput, InputFailed, KeysRead, RangeScanned, StateApplied,
                           WorkerConnected, WorkerSent, WorkerDisconnected, WorkerWritable, WriterCallDone, OutcomeRead,
                           QueryKey, QueryRange, SetPaused, RestartTask, StateFailed, Tick, Drain>;

// ---------------------------------------------------------------- actions

// Open the task's stores, restore them, resolve the inputs' start offsets. Answer: TaskOpened.
struct OpenTask {
  TaskId task;
};
// Flush and close the task's stores. No read or apply of it is under way. Answer: TaskClosed.
struct CloseTask {
  TaskId task;
};
struct TaskReleased {
  TaskId task;
};                         // answer to TaskRevoked; none
struct RebalanceReady {};  // answer to RebalanceStarted; none
struct Drained {};         // answer to Drain; none

// Reading of an input partition; none. After Start or Seek only records from that offset on are fed in: the driver
// drops what it had read before.
struct StartFetch {
  TaskId task;
  uint32_t input = 0;
  Offset from;
  uint64_t fetch = 0;  // never reused; told back by what is read under it
};
struct SeekFetch {
  TaskId task;
  uint32_t input = 0;
  Offset to;
  uint64_t fetch = 0;
};
struct PauseFetch {
  TaskId task;
  uint32_t input = 0;
  bool paused = true;
};
struct StopFetch {
  TaskId task;
  uint32_t input = 0;
};

// `store` is a readable id: a store, a join (both of the task), or a lookup (of the process). Answer: KeysRead.
struct ReadKeys {
  ReadId read = 0;
  TaskId task;
  store::StoreIndex store = 0;
  std::vector<Bytes> keys;
};
// The same ids. Answer: RangeScanned.
struct ScanRange {
  ReadId read = 0;
  TaskId task;
  store::ScanRequest range;
};
// Answer: StateApplied. Applies of one task are carried out in order.
struct ApplyState {
  ApplyId apply = 0;
  TaskId task;
  std::vector<store::StoreWrite> writes;
  store::Positions positions;
};

struct SendToWorker {  // none
  WorkerId worker = 0;
  std::string frame;
};
struct DropWorker {  // ERROR frame, then close; answer: WorkerDisconnected
  WorkerId worker = 0;
  std::string code, message;
};
struct GoodbyeWorker {  // GOODBYE frame, then close when the worker has closed or after a grace; answer:
                        // WorkerDisconnected
  WorkerId worker = 0;
  std::string reason;
};

// One blocking call on a writer. Calls of one writer are carried out in the order given, one at a time.
// Answer: WriterCallDone for each.
struct WriterCall {
  enum class What : uint8_t { kCreate, kBegin, kAppend, kFlush, kSendOffsets, kCommit, kAbort };
  WriterName writer = WriterName::kA;
  CallId call = 0;
  // kCreate: (re-)create the writer under its transactional id and Init it. Everything else goes to the writer as it
  // is.
  What what = What::kBegin;
  std::vector<log::OutgoingRecord> records;                          // kAppend
  log::GroupToken token;                                             // kSendOffsets
  std::vector<std::pair<TopicPartition, log::GroupOffset>> offsets;  // kSendOffsets
};
// Read the stable group offsets of these partitions. Answer: OutcomeRead.
struct ResolveOutcome {
  CallId call = 0;
  std::vector<TopicPartition> partitions;
};

struct QueryAnswered {  // none
  QueryId query = 0;
  absl::Status status;   // UNAVAILABLE: the task is not running here
  MaybeBytes value;      // QueryKey
  store::ScanPage page;  // QueryRange
  // QueryRange: where to go on (ScanRequest::after) if page.more. The last row's key, or beyond it; a page may be empty
  // with more to come, where everything on it was deleted since.
  std::optional<Bytes> cursor;
};

using Action = std::variant<OpenTask, CloseTask, TaskReleased, RebalanceReady, Drained, StartFetch, SeekFetch,
                            PauseFetch, StopFetch, ReadKeys, ScanRange, ApplyState, SendToWorker, DropWorker,
                            GoodbyeWorker, WriterCall, ResolveOutcome, QueryAnswered>;

}  // namespace millstream::engine

#endif  // MILLSTREAM_SIDECAR_ENGINE_IO_H_
