#ifndef MILLSTREAM_OPERATOR_MODEL_TESTING_WORKLOAD_WORLD_H_
#define MILLSTREAM_OPERATOR_MODEL_TESTING_WORKLOAD_WORLD_H_

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "operator/model/next_steps.h"
#include "operator/model/observation.h"
#include "operator/model/processor.h"

namespace millstream::model {

// A little cluster with one processor: the StatefulSet's controller, kubelets, a disruption budget, and sidecars that
// share tasks, keep copies, drain and restore with delays. NextSteps runs it, while a user edits and nodes fail; one
// seed decides everything. What must never be is checked at every step; at the end edits and faults stop, and
// everything has to be as wanted and stay so.
class WorkloadWorld {
 public:
  explicit WorkloadWorld(uint64_t seed);
  // Empty: all was as it should. Else the first thing that was not, and what happened before.
  std::string Run();

  struct Counts {
    int passes = 0, evictions = 0, refused_evictions = 0, deletions = 0, drains = 0, drained_evictions = 0,
        scale_ins = 0, recreated_sets = 0, grown_claims = 0, lost_claims = 0, edits = 0;
  };
  const Counts& counts() const { return counts_; }

 private:
  enum class Quality { kGood, kNeverReady, kCrashesLater };
  struct Template {
    std::string hash, spec_hash;
    Quality quality = Quality::kGood;
  };
  struct Pod {
    std::string uid;
    Template made_from;
    absl::Time created, started, ready_changed, ends = absl::InfiniteFuture();
    bool ready = false, ever_ready = false, terminating = false, lives = false, on_volume = false;
    absl::Time first_ready = absl::InfiniteFuture();
    absl::Time breaks = absl::InfiniteFuture();     // its program crashes from then on
    absl::Time flaps_until = absl::InfinitePast();  // not ready for a moment
    std::string orders, orders_seen;                // annotation; projected
    absl::Time orders_arrive = absl::InfiniteFuture(), drain_since = absl::InfiniteFuture();
  };
  struct Claim {
    std::string uid;
    int64_t asked = 0, granted = 0;
    bool lost = false, terminating = false;
  };
  struct Set {
    std::string uid;
    int64_t generation = 1, observed = 0;
    Json spec;
    Template made_from;
    bool terminating = false;
  };
  struct Task {
    int owner = -1;       // ordinal
    absl::Duration left;  // until it is restored there
    absl::Time owner_missing = absl::InfiniteFuture();
    std::map<int, absl::Duration> copies;  // by ordinal
  };

  int Random(int from, int to);  // both included
  bool Chance(double probability);
  void Log(std::string what);
  void Fail(std::string what);

  void Edit();     // by the user, or another operator
  void Rebuild();  // processor_ and wanted_ from the edited fields
  void Trouble();  // nodes, workers, volumes, hands of people
  void RunController();
  void RunKubelets();
  void RunGroup();
  void MoveOneTask(const std::vector<int>& members);
  void KeepCopies(const std::vector<int>& members);
  bool Drains(const Pod& pod) const;
  // As everybody could have seen by now.
  bool WasReady(const Pod& pod) const;
  bool IsMember(int ordinal) const;
  int TasksOf(int ordinal) const;
  void Hear();
  Observation Look();
  void Pass();
  void ApplySet(const Decision& decision);
  void CheckRemoval(int from, int to);
  void Execute(const Step& step);
  void Evict(int ordinal, const Step& step);
  void Terminate(int ordinal);
  int OrdinalOf(const std::string& name) const;
  std::string WhatIsWrong(const Decision& decision) const;  // at the end

  std::mt19937_64 random_;
  absl::Time now_ = absl::FromUnixSeconds(1'700'000'000);
  const absl::Time start_ = now_;
  std::string failure_;
  std::vector<std::string> log_;
  Counts counts_;

  // What the user wants.
  int replicas_ = 3, standbys_ = 0, storage_gib_ = 0, image_ = 0, operator_image_ = 0;
  bool paused_ = false;
  Quality quality_ = Quality::kGood;
  std::map<int, Quality> image_quality_;
  std::optional<Processor> processor_;
  Json wanted_;

  std::optional<Set> set_;
  std::map<int, Pod> pods_;
  std::map<int, Claim> claims_;
  std::vector<Task> tasks_;
  absl::Duration restore_time_;
  std::map<std::string, SidecarReport> heard_;
  std::set<int> down_by_us_;  // were ready when we took them, and are not again
  std::optional<Observation> last_look_;
  absl::Time looked_ = absl::InfinitePast();  // last_look_ is of then
  bool wrote_ = true;                         // since then
  bool quiet_ = false;                        // edits and faults are over
  int next_uid_ = 1;
};

}  // namespace millstream::model

#endif  // MILLSTREAM_OPERATOR_MODEL_TESTING_WORKLOAD_WORLD_H_
