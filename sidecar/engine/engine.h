#ifndef MILLSTREAM_SIDECAR_ENGINE_ENGINE_H_
#define MILLSTREAM_SIDECAR_ENGINE_ENGINE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/metrics.h"
#include "common/spec/stream_processor.h"
#include "sidecar/engine/io.h"

namespace millstream::engine {

// How far the time of a record may be from the clock where a topic's brokers check it. Unset: as far as it likes.
struct TimestampBounds {
  std::optional<int64_t> ahead_ms, behind_ms;
};

struct EngineOptions {
  spec::StreamProcessorSpec spec;
  // Partition count of every output, dead-letter and changelog topic, in the spec's order of outputs.
  std::vector<int> output_partitions;
  int dead_letter_partitions = 0;  // 0: no dead-letter topic
  // Prefix of the tags in committed offsets: "<transactional id>/<process start>" per writer (R6).
  std::string transactional_id_a, transactional_id_b, process_start;
  std::string owner_stamp;  // <clusterName>/<namespace>/<name>
  std::string topic_stamp;  // a JSON object: which topics these offsets and their state are of; empty: unknown
  // Bounds on what the engine holds (engine.md, "Memory").
  int64_t overlay_bytes = 64 << 20;  // staged and committed-not-applied state, all tasks
  int64_t fetched_bytes = 32 << 20;  // records read and not yet sent, all tasks
  uint32_t frame_cap = protocol::kDefaultFrameCap;
  uint64_t seed = 0;  // of the first batch sequence number
  // Largest record (key + value + headers) each output and each changelog takes, in the spec's order; missing ones are
  // kDefaultRecordBytes. Told to workers in WELCOME and checked again before anything is staged.
  std::vector<int64_t> output_max_bytes, store_max_bytes;
  std::vector<TimestampBounds> output_timestamps;  // the same way; missing ones have no bounds
  // How finely a `ttl` is kept: rows are hidden within one such part of the shortest one after their time, and never
  // before. More parts make smaller batches where stream time moves fast.
  int ttl_steps = 100;
  // Timestamps outputs may have.
  int64_t min_timestamp_ms = -(int64_t{1} << 53), max_timestamp_ms = int64_t{1} << 53;

  // For mutation checks only: switches one rule of engine.md off, so that a test can show that its oracle notices.
  enum class Mutation : uint8_t {
    kNone,
    kR3,  // N+1 appends before N is flushed, and survives the abort of N
    kR4,  // state goes to disk when its transaction closes, before the commit
    kR6,  // an unknown outcome is taken for an abort
    kR7,  // offsets are sent without a generation
    // Of docs/design/0004-windows-timers.md:
    kTtlSteps,  // a batch holds records of several steps
    kTtlTimes,  // a row's age is that of stream time, not of the record that wrote it
    kGiven,     // a session that was given takes records all the same
    kClaims,    // AtMostOnce: a batch is sent before it is claimed
  };
  // What options start with; the test build of the programs (cli/crashtest_main.cc) sets it first thing in main.
  inline static Mutation default_mutation = Mutation::kNone;
  Mutation mutation = default_mutation;
};

// Under the usual limit of a topic (1 MiB) with what the log adds to a record.
inline constexpr int64_t kDefaultRecordBytes = (1 << 20) - 512;

// What a person wants to know of one task; for /v1/tasks and the status line.
struct TaskStatus {
  TaskId task;
  enum class State { kOpening, kRunning, kStopped, kClosing } state = State::kOpening;
  std::string error;  // why it is stopped, with input, offset and what to do
  struct Input {
    Offset committed, position, end;  // end: as far as known, kNoOffset if not
  };
  // The record it stopped at; unset where no record is meant.
  struct Place {
    uint32_t input = 0;
    Offset offset;
  };
  std::optional<Place> error_at;
  std::vector<Input> inputs;
  uint64_t records = 0;  // committed since it was opened
  int attempt = 0;       // of the record it is busy with, when more than 1
};

struct EngineStatus {
  std::vector<TaskStatus> tasks;
  uint64_t records_committed = 0, transactions = 0, aborted = 0, skipped = 0, dead_letters = 0, late_results = 0;
  int64_t lag_records = 0;
  // Age of the oldest record that waits, by its timestamp; unset: none that waits is in memory, as without a worker.
  std::optional<absl::Duration> lag_time;
  std::string first_error, last_error;
  int workers = 0;
  bool paused = false;        // desiredState, or SetPaused
  bool commits_wait = false;  // no writer is usable: R6
  absl::Status writer_error;  // why the last attempt to make a writer failed; OK: it succeeded
  int aborts_in_a_row = 0;    // since the last commit
  absl::Status abort_cause;   // of the last of them
};

// The exactly-once core of one process: see README.md of this folder and engine.md. One thread at a time.
class Engine {
 public:
  // `clock` and `metrics` outlive the engine. The writers are created with the first TokenChanged.
  static std::unique_ptr<Engine> Create(const EngineOptions& options, const Clock* clock, MetricsRegistry* metrics);
  virtual ~Engine() = default;

  // One step: takes in the event, appends what is to be done. Never blocks.
  virtual void Handle(Event event, std::vector<Action>* actions) = 0;
  // Monotonic time at which a Tick is wanted at the latest; nullopt: nothing is waiting.
  virtual std::optional<absl::Duration> NextDeadline() const = 0;
  virtual EngineStatus Status() const = 0;
};

}  // namespace millstream::engine

#endif  // MILLSTREAM_SIDECAR_ENGINE_ENGINE_H_
