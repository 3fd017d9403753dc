#ifndef MILLSTREAM_SIDECAR_ENGINE_TESTING_SCRIPTED_MEMBER_H_
#define MILLSTREAM_SIDECAR_ENGINE_TESTING_SCRIPTED_MEMBER_H_

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "sidecar/engine/engine.h"
#include "sidecar/engine/testing/scripted_database.h"
#include "sidecar/engine/testing/scripted_handovers.h"
#include "sidecar/engine/testing/scripted_log.h"
#include "sidecar/engine/testing/scripted_worker.h"

namespace millstream::engine::testing {

// How often things go wrong, per step.
struct FaultRates {
  double process_crash = 0.0015;
  double expel = 0.0015;  // the group takes a living member for dead
  double worker_crash = 0.004;
  double worker_hang = 0.0007;
  double worker_goodbye = 0.002;
  double call_abort = 0.01;  // of a writer call: "abort the transaction"
  double call_retry = 0.01;  // "call again"
  double call_recreate = 0.005;
  double commit_unknown = 0.08;  // of a commit: no answer; it happened, did not, or happens later
  double apply_full = 0.02;      // the disk is full for a while
  double old_reply = 0.002;      // a worker repeats a RESULT of long ago
  double nonsense = 0.001;       // a worker says what it must not say
  double database = 0.01;        // a LOAD, a STORE or an item meets a database that is gone
  double input_fails = 0.001;    // an input cannot be read: its task stops until a person restarts it
  double query = 0.01;           // somebody asks for state

  static FaultRates None();
  friend bool operator==(const FaultRates&, const FaultRates&) = default;
};

// State of one task on one disk. A kill loses what was not flushed, state and positions together.
struct ScriptedDisk {
  struct Contents {
    std::vector<std::map<Bytes, Bytes>> stores;
    store::Positions positions;
  };
  Contents now, flushed;
};

// The row that a changelog record makes, as it lies on disk. Precondition: no tombstone.
Bytes RowOf(const spec::StoreSpec& store, const log::Record& record);

// What members share.
struct ScriptedScene {
  ScriptedLog log;
  FakeClock clock;
  std::mt19937_64 random;
  EngineOptions options;  // names of processes and writers are added by each member
  FaultRates faults;
  bool gather = false;        // workers want BEGIN and FINALIZE
  ScriptedDatabase database;  // with an external store
  Handovers handovers;
  bool calm = false;                              // no faults any more
  std::string failure;                            // the first thing that is wrong with the world; empty: nothing
  std::vector<ScriptedLog::Handle> late_commits;  // EndTxn requests still under way to the log
  bool tracing = false;

  bool Chance(double of) { return !calm && std::uniform_real_distribution<>(0, 1)(random) < of; }
  size_t Pick(size_t of) { return random() % of; }
  void Wrong(const std::string& what) {
    if (failure.empty()) failure = what;
  }
};

// One sidecar process: an engine, the things its actions ask for, its disks (which outlive it) and its workers. Every
// small thing happens when the world picks it, in any order that the promises of io.h allow.
class ScriptedMember {
 public:
  // What the group hears of it.
  struct Callbacks {
    std::function<void(TaskId)> released;
    std::function<void()> rebalance_ready;
  };
  ScriptedMember(std::string name, ScriptedScene* scene, Callbacks callbacks);

  const std::string& name() const { return name_; }
  bool running() const { return engine_ != nullptr; }
  bool drained() const { return drained_; }
  const Engine* engine() const { return engine_.get(); }
  std::map<TaskId, ScriptedDisk>& disks() { return disks_; }
  std::vector<std::string> transactional_ids() const { return {name_ + "-a", name_ + "-b"}; }

  void Start();
  // SIGKILL: everything in memory is gone.
  void Kill();
  // Puts an event into the queue of the process.
  void Post(Event event) { inbox_.push_back(std::move(event)); }
  void CrashSomeWorker();
  void HangSomeWorker();
  void CloseSilentWorkers();
  void PartWithSomeWorker();
  void RepeatOldReply();
  void TalkNonsense();
  void FailSomeInput();
  void RestartTasks();
  void AskForState();

  // Adds what could happen next, as steps to call.
  void AddChoices(std::vector<std::function<void()>>* choices);

 private:
  struct Fetch {
    Offset position;
    uint64_t fetch = 0;
    bool paused = false;
    Offset told_end = kNoOffset;
  };
  struct Writer {
    ScriptedLog::Handle handle;
    bool alive = false;
    log::AcknowledgedOffsets acknowledged;
    std::deque<WriterCall> calls;
  };

  void Deliver();
  void Carry(Action action);
  void RunCall(WriterName name);
  absl::Status Call(Writer& writer, WriterName name, WriterCall& call);
  absl::Status PlainCall(Writer& writer, WriterCall& call);
  absl::Status CommitCall(Writer& writer);
  void RunRead(size_t index);
  void RunApply(TaskId task);
  void RunOpen(TaskId task);
  bool CanOpen(TaskId task) const;
  void RunFetch(TaskId task, uint32_t input);
  bool CanFetch(TaskId task, uint32_t input, const Fetch& fetch) const;
  void RunResolve(size_t index);
  bool CanResolve(const ResolveOutcome& ask) const;
  void StepWorker(size_t index);
  void ConnectWorker();
  void EndWorker(size_t index, bool orderly, const std::string& cause);
  store::ScanPage Scan(const store::ScanRequest& request, const std::map<Bytes, Bytes>& rows) const;
  // The state that the committed records of the changelogs up to the positions make.
  ScriptedDisk::Contents Replay(TaskId task, const store::Positions* up_to) const;
  TopicPartition InputOf(TaskId task, uint32_t input) const;
  TopicPartition ChangelogOf(TaskId task, size_t store) const;

  const std::string name_;
  ScriptedScene* scene_;
  Callbacks callbacks_;
  std::unique_ptr<MetricsRegistry> metrics_ = NewMetricsRegistry();
  int starts_ = 0;
  WorkerId next_worker_ = 1;
  QueryId next_query_ = 0;
  std::map<TaskId, ScriptedDisk> disks_;

  // Of the process.
  std::unique_ptr<Engine> engine_;
  bool drained_ = false;
  std::deque<Event> inbox_;
  std::array<Writer, 3> writers_;
  std::map<std::pair<TaskId, uint32_t>, Fetch> fetches_;
  std::vector<std::variant<ReadKeys, ScanRange>> reads_;
  std::map<TaskId, std::deque<ApplyState>> applies_;
  std::set<TaskId> opening_, open_;
  std::vector<ResolveOutcome> resolves_;
  std::vector<std::unique_ptr<ScriptedWorker>> workers_;
  std::vector<WorkerSent> old_replies_;
};

}  // namespace millstream::engine::testing

#endif  // MILLSTREAM_SIDECAR_ENGINE_TESTING_SCRIPTED_MEMBER_H_
