#ifndef MILLSTREAM_SIDECAR_ENGINE_TESTING_SCRIPTED_WORLD_H_
#define MILLSTREAM_SIDECAR_ENGINE_TESTING_SCRIPTED_WORLD_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sidecar/engine/testing/scripted_member.h"
#include "sidecar/engine/testing/scripted_time.h"
#include "sidecar/engine/testing/scripted_visits.h"

namespace millstream::engine::testing {

inline constexpr int kWorldOutputPartitions = 2;
inline constexpr int64_t kIdsPerTask = 1'000'000;  // a record's id tells its task

struct WorldOptions {
  uint64_t seed = 1;
  spec::Guarantee guarantee = spec::Guarantee::kExactlyOnce;
  spec::FailureAction on_failure = spec::FailureAction::kSkip;
  int members = 1;
  int partitions = 3;
  int inputs = 1;     // or 2
  bool loop = false;  // some records send another one through it; with kExactlyOnce only
  bool merge_by_time = false;
  bool gather = false;  // workers keep outputs until FINALIZE
  int records = 150;    // over all partitions
  int keys = 5;
  bool external = false;    // the state is in a database of the workers'
  bool timed = false;       // windows, sessions and timers; with one input
  bool visits = false;      // walks over "totals"; with `timed`
  bool bad_records = true;  // records that fail, crash, exceed limits; not with kStop, which they would end
  FaultRates faults;
  bool only_workers_end = false;  // no process, no transaction: `faults` have nothing of the kind
  EngineOptions::Mutation mutation = EngineOptions::Mutation::kNone;
  // Bounds of the engines, small enough that they are reached.
  int64_t transaction_bytes = 4000, overlay_bytes = 20'000, fetched_bytes = 20'000;
};

// A log, a group and its members, driven one small step at a time in an order that the seed decides: deliveries, calls,
// reads, crashes, rebalances, time. Everything an engine is promised holds, and nothing more.
//
//   std::string wrong = ScriptedWorld(options).Run();   // empty: state == changelog replay == model, outputs as
//   promised
class ScriptedWorld {
 public:
  explicit ScriptedWorld(const WorldOptions& options);
  // To the end: all input handled, all members drained. What is wrong, with the seed; empty if nothing.
  std::string Run();

  // What happened, over all processes: a run in which nothing went wrong proves little.
  struct Totals {
    uint64_t transactions = 0, aborted = 0, records = 0, skipped = 0, dead_letters = 0, late_results = 0, kills = 0;
  };
  const Totals& totals() const { return totals_; }

 private:
  struct Seat {  // a member as the group sees it
    std::unique_ptr<ScriptedMember> process;
    bool joined = false;
    bool zombie = false;    // expelled, and does not know yet
    bool leaving = false;   // knows, and gives its tasks up
    int id_number = 0;      // of its member id: a new one after each expulsion
    std::set<TaskId> told;  // tasks it was assigned and has not released
    std::string id() const { return process->name() + "#" + std::to_string(id_number); }
  };

  struct Source {                                                       // one partition of one input, and who writes it
    std::vector<std::pair<std::optional<std::string>, Input>> records;  // all there will be
    size_t produced = 0;
    std::optional<ScriptedLog::Handle> open;  // of a transaction under way upstream
    bool doomed = false;                      // it will be aborted: nothing of it is in `records`
    bool Done() const { return produced == records.size(); }
  };

  bool AtMostOnce() const { return options_.guarantee == spec::Guarantee::kAtMostOnce; }
  std::string Standing() const;
  void Produce();
  void ProduceTo(const TopicPartition& partition, Source& source);
  void Step();
  void Faults();
  void PassTime(bool idle);
  bool Finished() const;
  bool TimeIsUp(bool now = false);
  bool LivesAgain();
  std::string Verify();
  std::string VerifyTask(TaskId task);
  struct Fates {
    std::set<int64_t> done;
    std::vector<int64_t> dead;  // in order
  };
  Fates FatesOf(TaskId task);
  bool MayLack(const std::string& name) const;
  std::string VerifyOnce(const std::vector<std::pair<std::optional<std::string>, Input>>& inputs, const Fates& fates,
                         const std::set<int64_t>& late) const;
  TimedModel ModelOfTime(TaskId task, const Fates& fates, std::set<int64_t>* late) const;
  std::string VerifyTime(TaskId task, const TimedModel& model) const;
  VisitModel ModelOfVisits(TaskId task, const Fates& fates, const std::set<int64_t>& late) const;
  std::string VerifyVisits(TaskId task, const VisitModel& model) const;
  std::map<Bytes, Bytes> Replay(TaskId task, size_t store) const;
  Model::Stores Restored(TaskId task, const ScriptedDisk::Contents& disk) const;
  std::string VerifyLoop();
  TaskId TaskOfOutput(const log::Record& record) const;
  std::vector<std::pair<std::optional<std::string>, Input>> InputsOf(TaskId task, const spec::InputSpec& input) const;
  std::string CheckOutputs(TaskId task, const std::map<int64_t, std::string>& expected, std::vector<int64_t>* order);

  // The group.
  void StartMember(size_t seat);
  void Count(const ScriptedMember& process);
  void KillMember(size_t seat);
  void Expel(size_t seat);
  void ExpireDead();
  void TellZombie(size_t seat);
  void StartRebalance();
  void FinishRebalance();
  void OnReleased(size_t seat, TaskId task);
  void OnReady(size_t seat);
  void Give(TaskId task);
  void SendToken(Seat& seat);

  WorldOptions options_;
  ScriptedScene scene_;
  std::vector<Seat> seats_;
  bool rebalancing_ = false;
  std::set<size_t> awaited_;  // members that have not answered the rebalance
  std::map<TaskId, std::optional<size_t>> owners_;
  std::map<TaskId, size_t> planned_;
  std::map<TopicPartition, Source> sources_;
  std::map<int64_t, int> looped_;  // what the model sent through the loop, by id
  uint64_t steps_ = 0;
  Totals totals_;
  bool draining_ = false, time_is_up_ = false;
  std::string not_yet_;  // what time has still to bring
  int lives_ = 1;        // of all members: they are drained at the end of each
};

// The spec and options of the world's processor: two stores ("totals" prefetched, "index" not), one output.
EngineOptions WorldEngineOptions(const WorldOptions& options);

}  // namespace millstream::engine::testing

#endif  // MILLSTREAM_SIDECAR_ENGINE_TESTING_SCRIPTED_WORLD_H_
