#ifndef MILLSTREAM_TESTS_SIM_OPERATOR_SIMULATION_H_
#define MILLSTREAM_TESTS_SIM_OPERATOR_SIMULATION_H_

#include <cstdint>
#include <functional>
#include <queue>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "common/base/clock.h"
#include "tests/sim/operator/cluster.h"
#include "tests/sim/operator/member.h"
#include "tests/sim/operator/person.h"
#include "tests/sim/operator/rules.h"

namespace millstream::sim {

// One life of a cluster with two operators, decided by its seed: some minutes in which everything that can go wrong
// does, then rest, then nothing. What is wrong is in `failures`.
class Simulation {
 public:
  Simulation(uint64_t seed, bool trace);

  void Run();
  const std::vector<std::string>& failures() const { return failures_; }
  // What went wrong, behind Run.
  const Tally& tally() const { return tally_; }
  // What it came to, for people: passes, writes, virtual time.
  std::string Summary() const;

 private:
  struct Actor {
    std::string name;
    std::function<absl::Duration()> step;  // says how long to wait before the next
  };
  void AddActors();
  void RunFor(absl::Duration time);
  void Storm();
  void Calm();
  void ComeToRest();
  void StaySteady();
  bool Moves() const;
  bool Scales() const;
  // A write in the steady state that has to be: a missing topic is looked for again and again; lag that moves has
  // processors scaled.
  bool HasToBe(const std::string& write) const;
  absl::Duration ChangeWeather();
  void Trace(const std::string& what) const;
  int64_t Chance(int64_t bound) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(bound)); }

  const uint64_t seed_;
  const bool trace_;
  std::mt19937_64 random_;
  FakeClock clock_;
  Cluster cluster_{&clock_, &random_};
  Rules rules_{&cluster_, [this](const std::string& write) { Trace(write); }};
  Weather weather_;
  Tally tally_;
  Member first_{"a", &cluster_, &clock_, &random_, &weather_, &rules_, &tally_};
  Member second_{"b", &cluster_, &clock_, &random_, &weather_, &rules_, &tally_};
  Person person_{&cluster_, &random_, &rules_};
  const Member* leader_ = nullptr;  // the last one that led
  bool storming_ = false;
  int acts_ = 0;
  std::vector<Actor> actors_;
  std::priority_queue<std::tuple<absl::Duration, uint64_t, size_t>,
                      std::vector<std::tuple<absl::Duration, uint64_t, size_t>>,
                      std::greater<>>
      due_;  // (when, chance, actor)
  std::vector<std::string> failures_;
  absl::Duration rest_took_;
};

}  // namespace millstream::sim

#endif  // MILLSTREAM_TESTS_SIM_OPERATOR_SIMULATION_H_
