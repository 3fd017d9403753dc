#ifndef MILLSTREAM_SIDECAR_ENGINE_TESTING_ENGINE_DRIVER_H_
#define MILLSTREAM_SIDECAR_ENGINE_TESTING_ENGINE_DRIVER_H_

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "gtest/gtest.h"
#include "sidecar/engine/engine.h"

namespace millstream::engine::testing {

// A BATCH as a test looks at it.
struct SentBatch {
  WorkerId worker = 0;
  uint64_t seq = 0;
  TaskId task;
  bool trace = false;
  std::vector<std::string> keys;
  std::vector<int64_t> offsets;
  std::vector<int> attempts;
  std::vector<std::string> visited;  // rows of visits: "KEY@TIME=DATA", the end of one: "end@TIME=DATA"
  std::vector<std::vector<std::string>>
      state;  // per prefetched store, per key: the value, "-" absent, "?" not prefetched
};

struct Op {
  uint32_t store;
  std::string key;
  MaybeBytes value;
};
struct Emit {
  MaybeBytes key;
  MaybeBytes value;
  std::optional<int32_t> partition = std::nullopt;
  int64_t timestamp_ms = 7;
};
struct Reply {
  std::optional<uint32_t> done = std::nullopt;  // absent: all
  std::vector<Op> ops = {};
  std::vector<Emit> outputs = {};
  std::optional<protocol::Failure> failure = std::nullopt;
  std::vector<protocol::VisitOp> visits = {};
};

// Drives an engine one event at a time and lets a test look for the actions it expects. What is not looked for stays in
// the list. A processor with input "in" (topic in), stores "totals" (prefetched) and "index", output "out" with 4
// partitions.
class EngineDriver {
 public:
  static EngineOptions Options();
  explicit EngineDriver(EngineOptions options = Options());

  Engine& engine() { return *engine_; }
  FakeClock& clock() { return clock_; }
  void Do(Event event);
  // Moves the clock, with a Tick.
  void Wait(absl::Duration time);
  // Ticks whenever the engine wants to, up to `time` from now.
  void Pass(absl::Duration time);

  template <typename T>
  bool Has() const {
    for (const Action& action : actions_) {
      if (std::holds_alternative<T>(action)) return true;
    }
    return false;
  }
  // The first action of that kind, removed; fails the test if there is none.
  template <typename T>
  T Take() {
    for (auto it = actions_.begin(); it != actions_.end(); ++it) {
      if (!std::holds_alternative<T>(*it)) continue;
      T found = std::get<T>(std::move(*it));
      actions_.erase(it);
      return found;
    }
    ADD_FAILURE() << "no such action: " << __PRETTY_FUNCTION__;
    return T();
  }
  void Forget() { actions_.clear(); }

  // A token, writers created, worker 1 connected, the tasks open at their committed offset `next` and fetching.
  void Start(std::vector<int> tasks = {0}, int64_t next = 0, int parallel = 4);
  void Connect(WorkerId worker, int parallel = 4);
  void Open(int task, int64_t next, bool committed = true);
  void Token(int generation);
  // `count` records with keys "k<offset>" (or the given key) from `first` on.
  void Records(int task, int64_t first, int count, std::optional<std::string> key = std::nullopt,
               size_t value_bytes = 5);
  void Records(int task, std::vector<log::Record> records, int64_t next);

  // The next frame of that kind that the engine sent; others before it are dropped from the list.
  std::optional<SentBatch> Batch();
  SentBatch NeedBatch();
  std::optional<uint64_t> Cancelled();
  void Result(const SentBatch& batch, const Reply& reply);
  void Say(WorkerId worker, const std::string& frame);
  // Answers reads of prefetched state: no such keys.
  void AnswerReads();

  // The next call to a writer, which must be of that kind.
  WriterCall Call(WriterCall::What what);
  void Answer(const WriterCall& call, absl::Status status = absl::OkStatus(),
              log::AcknowledgedOffsets acknowledged = {});
  void AnswerCall(WriterCall::What what, absl::Status status = absl::OkStatus()) {
    Answer(Call(what), std::move(status));
  }
  bool HasCall() const { return Has<WriterCall>(); }
  // Answers every call with success until there is none: whatever is closing commits. Changelog offsets count up from
  // 100.
  void Commit();
  void AnswerApplies();

 private:
  template <typename Message>
  std::optional<std::pair<WorkerId, Message>> TakeFrame();

  FakeClock clock_;
  std::unique_ptr<MetricsRegistry> metrics_ = NewMetricsRegistry();
  std::unique_ptr<Engine> engine_;
  std::deque<Action> actions_;
  std::deque<std::string> frames_;  // of batches taken, kept for their views
  int64_t next_acknowledged_ = 100;
};

}  // namespace millstream::engine::testing

#endif  // MILLSTREAM_SIDECAR_ENGINE_TESTING_ENGINE_DRIVER_H_
