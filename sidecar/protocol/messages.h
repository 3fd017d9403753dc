#ifndef MILLSTREAM_SIDECAR_PROTOCOL_MESSAGES_H_
#define MILLSTREAM_SIDECAR_PROTOCOL_MESSAGES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/header.h"
#include "common/base/ids.h"
#include "sidecar/protocol/capabilities.h"  // of HELLO and WELCOME

// The messages of the worker protocol, version 1 (docs/reference/protocol.md). A frame is a 4-byte big-endian length
// and one MessagePack array [kind, field...]. The comment above each struct gives its array; `S->W` is sidecar to
// worker. Fields are positional; a receiver ignores further ones at the end, and a missing optional one at the end is
// nil.
//
// Notation: bin = byte string, str = UTF-8, nil = null, x? = nil or left out at the end. Times are milliseconds since
// 1970, possibly negative. Senders write keys, values and header values as bin; receivers take str there too.
//
// Lifetime: a string_view in a decoded message points into the frame it was decoded from and lives as long as that
// buffer.
namespace millstream::protocol {

inline constexpr int kMinVersion = 1;
inline constexpr int kMaxVersion = 1;
inline constexpr uint32_t kDefaultFrameCap = 16u << 20;
// HELLO may come before the worker knows the cap: it and any first frame stay under this.
inline constexpr uint32_t kHelloFrameCap = 64u << 10;
// MessagePack extension type of a state value that was not sent along; its data is empty.
inline constexpr int8_t kNotPrefetchedExt = 1;

enum class Kind : uint8_t {
  kHello = 1,
  kWelcome = 2,
  kOpen = 3,
  kClose = 4,
  kBatch = 5,
  kResult = 6,
  kCancel = 7,
  kGet = 8,
  kValues = 9,
  kScan = 10,
  kRows = 11,
  kExtend = 12,
  kBegin = 13,
  kFinalize = 14,
  kCommitted = 15,
  kLoad = 16,
  kCheckpoint = 17,
  kStore = 18,
  kStored = 19,
  kPing = 20,
  kPong = 21,
  kError = 22,
  kGoodbye = 23,
};

using MaybeView = std::optional<std::string_view>;

// W->S [1, {"protocol": [min, max], "sdk": str, "language": str, "version": str, "capabilities": [str], "inputs":
// [str]?,
//           "parallel": int, "name": str?}]
// `inputs`: names of the inputs the program has handlers for; absent = not told. `parallel`: tasks it takes at once (>=
// 1).
struct Hello {
  int min_version = 0, max_version = 0;
  std::string sdk, language, version, name;
  std::vector<std::string> capabilities;
  std::optional<std::vector<std::string>> inputs;
  int parallel = 1;
};

struct NamedTopic {
  std::string name, topic;
  friend bool operator==(const NamedTopic&, const NamedTopic&) = default;
};

// "prefetched": values for the record keys travel with every batch. "max_value_bytes": larger values fail their item.
struct StoreInfo {
  std::string name, type;  // type: "KeyValue" | "Window" | "Session"
  bool prefetched = true;
  int64_t max_value_bytes = 0;
  // {"size", "advance", "grace", "retention": ms, "final": bool}; with type Window.
  struct Window {
    int64_t size_ms = 0, advance_ms = 0, grace_ms = 0, retention_ms = 0;
    bool final = false;
    friend bool operator==(const Window&, const Window&) = default;
  };
  // {"gap", "grace", "retention": ms, "final": bool?}; with type Session.
  struct Session {
    int64_t gap_ms = 0, grace_ms = 0, retention_ms = 0;
    bool final = false;  // told only if so
    friend bool operator==(const Session&, const Session&) = default;
  };
  std::optional<Window> window = std::nullopt;
  std::optional<Session> session = std::nullopt;
  friend bool operator==(const StoreInfo&, const StoreInfo&) = default;
};

// S->W [2, {"protocol": int, "session": int, "processor": str, "inputs": [{"name", "topic"}],
//           "outputs": [{"name", "topic", "max_bytes"}], "stores": [{"name", "type", "prefetched", "max_value_bytes",
//           "window"?, "session"?}], "timers": bool?, "visits": [{"name", "store"}]?, "joins": [{"name", "topic"}],
//           "lookups": [{"name", "topic"}], "capabilities": [str], "limits": {"frame": bytes, "deadline_ms": int,
//           "min_timestamp": ms, "max_timestamp": ms}}]
// Ids are indexes: input id = index in inputs, output id = index in outputs, visit id = index in visits; readable id =
// stores, then joins, then lookups.
struct Welcome {
  int version = kMaxVersion;
  uint64_t session = 0;  // below 2^53
  std::string processor;
  struct Output {
    std::string name, topic;
    int64_t max_bytes = 0;  // of key + value + headers
    friend bool operator==(const Output&, const Output&) = default;
  };
  std::vector<NamedTopic> inputs;
  std::vector<Output> outputs;
  std::vector<StoreInfo> stores;
  bool timers = false;  // the program may set them
  struct Visit {
    std::string name;
    uint32_t store = 0;
    friend bool operator==(const Visit&, const Visit&) = default;
  };
  std::vector<Visit> visits;
  std::vector<NamedTopic> joins, lookups;
  std::vector<std::string> capabilities;
  uint32_t frame_cap = kDefaultFrameCap;
  int64_t deadline_ms = 0;
  int64_t min_timestamp_ms = 0, max_timestamp_ms = 0;
};

// S->W [3, task] / [4, task]: the task starts / stops on this worker; caches of it are dropped.
struct Open {
  TaskId task;
};
struct Close {
  TaskId task;
};

// A prefetched value: bin, nil (no such key) or ext 1 (ask by GET).
struct StateValue {
  enum class What : uint8_t { kAbsent, kValue, kNotPrefetched };
  What what = What::kAbsent;
  std::string_view value;
};

// A window that a record belongs to: [store, start, end]; of a session store [store, start, end, [[start, end]]] with
// the sessions that the record joins or connects.
struct ItemWindow {
  uint32_t store = 0;
  int64_t start_ms = 0, end_ms = 0;
  bool session = false;
  std::vector<std::pair<int64_t, int64_t>> merged;
};

// A row of a windowed store: [start, end, bin or ext 1].
struct WindowValue {
  int64_t start_ms = 0, end_ms = 0;
  StateValue value;
};

enum class TimerClock : uint8_t { kEventTime = 0, kWallClock = 1 };

// One item of a batch. A record:
//   [0, input, offset, timestamp, key index or nil (null key), value or nil, headers or nil, attempt, [window]?]
// with headers [[str, bin or nil]]; a timer that is due:
//   [1, key index, clock, name, time, attempt]
// a window that closes:
//   [2, store, key index, start, end, value, attempt]
// a row that is visited, or (key index nil) the end of a visit:
//   [3, visit, key index or nil, time, data or nil, attempt]
// `attempt` counts from 1.
struct RecordItem {
  enum class Type : uint8_t { kRecord = 0, kTimer = 1, kClosing = 2, kVisit = 3 };
  Type type = Type::kRecord;
  uint32_t input = 0;
  Offset offset;
  int64_t timestamp_ms = 0;
  int32_t key_index = -1;  // -1: null key
  MaybeView value;
  std::vector<std::pair<std::string_view, MaybeView>> headers;
  uint32_t attempt = 1;
  std::vector<ItemWindow> windows;
  // kTimer; its time is timestamp_ms.
  TimerClock clock = TimerClock::kEventTime;
  std::string_view name;
  // kClosing.
  uint32_t store = 0;
  WindowValue closing;
  // kVisit; the time of its start is timestamp_ms, its data is value.
  uint32_t visit = 0;
};

inline constexpr uint32_t kFlagTrace = 1;  // EXTEND before every item

// S->W [5, seq, task, flags, [key bin], [item], {store id: [state value per key]}, watermark or nil]
// Of a windowed store there is a list of rows per key: {store id: [[[start, end, value]]]}.
struct Batch {
  uint64_t seq = 0;
  TaskId task;
  uint32_t flags = 0;
  std::vector<std::string_view> keys;  // distinct
  std::vector<RecordItem> items;
  struct StoreState {
    uint32_t store = 0;
    std::vector<StateValue> values;                 // aligned with keys
    bool windowed = false;                          // then not `values` but
    std::vector<std::vector<WindowValue>> windows;  // aligned with keys
  };
  std::vector<StoreState> state;
  std::optional<int64_t> watermark_ms;
};

// {"class": "Decode" | "Handler" | "Output" | "Store", "error": str, "message": str, "retriable": bool}; message at
// most 16 KiB.
struct Failure {
  std::string failure_class, error, message;
  bool retriable = true;
};
// With an external store: the class of a failure of the database, which voids the whole transaction of the task there.
inline constexpr std::string_view kStoreFailure = "Store";

struct StateOp {
  std::string_view key;
  MaybeView value;    // nullopt: delete
  uint32_t item = 0;  // only in "new ops" of GET and SCAN: the item that made it
};
using StateOps = std::vector<std::pair<uint32_t, std::vector<StateOp>>>;  // by store id, in the order written

// [output id, key or nil, value or nil, timestamp?, headers?, partition?]; timestamp nil: the wall clock of the
// sidecar.
struct OutputRecord {
  uint32_t output = 0;
  MaybeView key, value;
  std::optional<int64_t> timestamp_ms;
  std::vector<std::pair<std::string_view, MaybeView>> headers;
  std::optional<int32_t> partition;
};

// [key, clock, name, time or nil]; nil: cancel.
struct TimerOp {
  std::string_view key;
  TimerClock clock = TimerClock::kEventTime;
  std::string_view name;
  std::optional<int64_t> time_ms;
};
inline constexpr size_t kMaxTimerName = 255;

// [visit id, what, data or nil]; data only with kStart.
struct VisitOp {
  enum class What : uint8_t { kStart = 0, kStop = 1, kPause = 2, kResume = 3 };
  uint32_t visit = 0;
  What what = What::kStart;
  MaybeView data;
};
inline constexpr size_t kMaxVisitData = 4096;

// W->S [6, seq, done, failure or nil, {store id: [[key, value or nil]]}, [output], [timer]?, [visit op]?]
// The effects of the first `done` items; `failure` is that of item number `done`. SDKs put a timestamp into every
// output (default: that of the record being handled).
struct Result {
  uint64_t seq = 0;
  uint32_t done = 0;
  std::optional<Failure> failure;
  StateOps ops;
  std::vector<OutputRecord> outputs;
  std::vector<TimerOp> timers;  // in the order they were made
  std::vector<VisitOp> visits;  // the same
};

// S->W [7, seq]
struct Cancel {
  uint64_t seq = 0;
};

// W->S [8, seq, rid, store id, [key], new ops?]; new ops: {store id: [[key, value or nil, item]]} since the last frame
// of seq
struct Get {
  uint64_t seq = 0, rid = 0;
  uint32_t store = 0;
  std::vector<std::string_view> keys;
  StateOps new_ops;
};

// S->W [9, seq, rid, [value or nil], error?]; error is str ("cancelled"), then the values are empty
struct Values {
  uint64_t seq = 0, rid = 0;
  std::vector<MaybeBytes> values;
  std::optional<std::string> error;
};

// W->S [10, seq, rid, store id, from or nil, to or nil, limit, reverse, cursor or nil, new ops?]
// Keys in [from, to) by byte order; limit 0 = as many as fit a page; the cursor is what the last ROWS gave.
struct Scan {
  uint64_t seq = 0, rid = 0;
  uint32_t store = 0;
  MaybeView from, to;
  uint32_t limit = 0;
  bool reverse = false;
  MaybeView cursor;
  StateOps new_ops;
};

// S->W [11, seq, rid, [[key, value]], cursor or nil (end reached), error?]
struct Rows {
  uint64_t seq = 0, rid = 0;
  std::vector<std::pair<Bytes, Bytes>> rows;
  MaybeBytes cursor;
  std::optional<std::string> error;
};

// W->S [12, seq, done]
struct Extend {
  uint64_t seq = 0;
  uint32_t done = 0;
};

// S->W [13, seq, task]: the task's part of a transaction begins. Answered by RESULT with done 0.
struct BeginTransaction {
  uint64_t seq = 0;
  TaskId task;
};

// S->W [14, seq, task]: the transaction is about to be closed: send what you gathered. Answered by RESULT with done 0.
struct FinalizeTransaction {
  uint64_t seq = 0;
  TaskId task;
};

// S->W [15, [[task, seq]]]: everything of these tasks up to that seq is committed.
struct Committed {
  std::vector<std::pair<TaskId, uint64_t>> tasks;
};

// S->W [16, seq, task]: make yourself the owner of the task's checkpoint (raise its fence) and tell it. Answered by
// CHECKPOINT, or by RESULT with done 0 and a failure.
struct Load {
  uint64_t seq = 0;
  TaskId task;
};

// W->S [17, seq, fence, checkpoint bin or nil]; nil: the database has none. `fence` is the one the worker set.
struct Checkpoint {
  uint64_t seq = 0, fence = 0;
  MaybeView checkpoint;
};

// S->W [18, seq, task, fence, checkpoint bin]: commit it with the task's data, if its fence is still this one. Answered
// by STORED, or by RESULT with done 0 and a failure.
struct Store {
  uint64_t seq = 0;
  TaskId task;
  uint64_t fence = 0;
  std::string_view checkpoint;
};

// W->S [19, seq, stored bool]; false: the fence is another's, nothing was committed.
struct Stored {
  uint64_t seq = 0;
  bool stored = false;
};

// both [20, nonce] / [21, nonce]
struct Ping {
  uint64_t nonce = 0;
};
struct Pong {
  uint64_t nonce = 0;
};

// both [22, code str, message str]; the sender closes the connection after it. Codes: docs/reference/protocol.md.
struct Error {
  std::string code, message;
};

// both [23, reason str]: orderly end. From the sidecar: no batch follows, disconnect. From a worker: send me nothing
// more.
struct Goodbye {
  std::string reason;
};

using WorkerMessage = std::variant<Hello, Result, Get, Scan, Extend, Checkpoint, Stored, Ping, Pong, Error, Goodbye>;
using SidecarMessage = std::variant<Welcome, Open, Close, Batch, Cancel, Values, Rows, BeginTransaction,
                                    FinalizeTransaction, Committed, Load, Store, Ping, Pong, Error, Goodbye>;

}  // namespace millstream::protocol

#endif  // MILLSTREAM_SIDECAR_PROTOCOL_MESSAGES_H_
