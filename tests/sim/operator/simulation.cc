#include "tests/sim/operator/simulation.h"

#include <algorithm>
#include <iostream>
#include <utility>

#include "absl/strings/match.h"
#include "common/base/strings.h"
#include "tests/sim/operator/rest.h"

namespace millstream::sim {
namespace {

// Everything that waits for something bounded is done by then: failed keys come back after at most 1000 s, hopeless
// ones and failed Jobs sooner, a roll waits at most ten minutes for a standby.
constexpr absl::Duration kRestWithin = absl::Minutes(90);
// An operator takes away what it made for former manifests, and does not wait for the hour of the Jobs to be over.
constexpr absl::Duration kFormerJobsWithin = absl::Minutes(20);
constexpr absl::Duration kLookEvery = absl::Seconds(20);
constexpr absl::Duration kSteady = absl::Minutes(3);
// Windows of autoscaling are over by then.
constexpr absl::Duration kScalesWithin = absl::Minutes(45);

model::ModelOptions ExpectedOptions() {
  model::ModelOptions options;
  options.sidecar_image = "registry.example.com/millstream-sidecar:0.1.0";
  options.operator_namespace = "millstream-system";
  options.network_policies = true;
  return options;
}

}  // namespace

Simulation::Simulation(uint64_t seed, bool trace) : seed_(seed), trace_(trace), random_(seed) {
  cluster_.api().LimitPages(3);
  first_.set_partner(&second_);
  second_.set_partner(&first_);
  AddActors();
}

void Simulation::Trace(const std::string& what) const {
  if (!trace_) return;
  std::cerr << absl::FormatTime("%H:%M:%E3S ", clock_.WallTime(), absl::UTCTimeZone()) << what << std::endl;
}

void Simulation::AddActors() {
  actors_.push_back({"cluster", [this] { return cluster_.Step(); }});
  for (Member* member : {&first_, &second_}) {
    actors_.push_back({"election", [this, member] {
                         const absl::Duration wait = member->StepElection();
                         if (member->leads() && std::exchange(leader_, member) != member) ++tally_["change of leader"];
                         return wait;
                       }});
    for (size_t i = 0; i < member->reflectors(); ++i) {
      actors_.push_back({"reflector", [member, i] { return member->StepReflector(i); }});
    }
    actors_.push_back({"work", [member] { return member->StepWork(); }});
  }
  actors_.push_back({"person", [this] {
                       if (!storming_) return absl::Seconds(10);
                       if (const std::string what = person_.Act(); !what.empty()) {
                         ++acts_;
                         if (absl::StrContains(what, "namespace goes")) ++tally_["namespace deleted"];
                         Trace(what);
                       }
                       return absl::Milliseconds(Chance(2) == 0 ? Chance(1000) : Chance(10'000));
                     }});
  actors_.push_back({"weather", [this] { return storming_ ? ChangeWeather() : absl::Seconds(10); }});
  for (size_t i = 0; i < actors_.size(); ++i) due_.emplace(absl::ZeroDuration(), random_(), i);
}

void Simulation::RunFor(absl::Duration time) {
  const absl::Duration end = clock_.Monotonic() + time;
  while (rules_.broken().empty()) {
    const auto [when, chance, index] = due_.top();
    if (when >= end) break;
    due_.pop();
    if (when > clock_.Monotonic()) clock_.Advance(when - clock_.Monotonic());
    // Not less than a millisecond: nothing is done twice at one time.
    const absl::Duration wait = std::max(absl::Milliseconds(1), actors_[index].step());
    due_.emplace(absl::Ceil(clock_.Monotonic() + wait, absl::Milliseconds(1)), random_(), index);
  }
  if (clock_.Monotonic() < end) clock_.Advance(end - clock_.Monotonic());
}

absl::Duration Simulation::ChangeWeather() {
  weather_.faults = Chance(2) == 0 ? 0 : static_cast<double>(Chance(25)) / 100;
  weather_.slow = Chance(2) == 0 ? 0 : static_cast<double>(Chance(10)) / 100;
  cluster_.kafka_up = Chance(5) != 0;
  if (!cluster_.kafka_up) ++tally_["Kafka away"];
  for (Member* member : {&first_, &second_}) {
    member->partitioned = Chance(6) == 0;
    member->unauthorized = Chance(12) == 0;
    if (member->partitioned) ++tally_["partition"];
    if (member->unauthorized) ++tally_["token not taken any more"];
    if (Chance(8) == 0) {
      ++tally_["operator stands still"];
      member->StandStill(clock_.Monotonic() + absl::Seconds(5 + Chance(40)));
      Trace("an operator stands still");
    }
    if (Chance(8) == 0) {
      ++tally_["operator killed"];
      member->Restart();
      Trace("an operator starts anew");
    } else if (Chance(10) == 0) {
      ++tally_["operator ended in order"];
      member->EndInOrder();
      Trace("an operator ends");
    } else if (!member->alive()) {
      member->Restart();
    }
  }
  if (Chance(4) == 0) {
    ++tally_["history forgotten"];
    cluster_.api().ForgetHistory();
  }
  // Now and then the API server is away, once for ten minutes.
  weather_.api_down = Chance(12) == 0;
  if (!weather_.api_down) return absl::Seconds(1 + Chance(30));
  const bool is_long = Chance(4) == 0;
  ++tally_[is_long ? "API server away for ten minutes" : "API server away"];
  return is_long ? absl::Minutes(10) : absl::Seconds(Chance(60));
}

void Simulation::Storm() {
  storming_ = cluster_.accidents = true;
  RunFor(absl::Minutes(4));
}

void Simulation::Calm() {
  storming_ = cluster_.accidents = false;
  weather_ = Weather();
  cluster_.kafka_up = true;
  for (Member* member : {&first_, &second_}) {
    member->partitioned = member->unauthorized = false;
    member->StandStill(absl::ZeroDuration());
    if (!member->alive()) member->Restart();
  }
  person_.Tidy();
  Trace("calm");
}

void Simulation::ComeToRest() {
  const absl::Duration began = clock_.Monotonic();
  std::vector<std::string> unrest;
  absl::Duration restless_at = began;
  while (clock_.Monotonic() - began < kRestWithin && rules_.broken().empty()) {
    rules_.ForgetWrites();
    RunFor(kLookEvery);
    unrest = Unrest(&cluster_, ExpectedOptions());
    if (!unrest.empty() || Moves()) restless_at = clock_.Monotonic();
    rest_took_ = restless_at - began;
    // Pods that are not ready are given a minute before they are replaced.
    if (clock_.Monotonic() - restless_at >= absl::Minutes(2)) return;
    if (clock_.Monotonic() - began < kFormerJobsWithin) continue;
    for (const std::string& what : unrest) {
      if (absl::StrContains(what, "of a former manifest")) failures_.push_back("is left: " + what);
    }
    if (!failures_.empty()) return;
  }
  for (const std::string& what : unrest) failures_.push_back("never comes to rest: " + what);
}

bool Simulation::Scales() const {
  const kube::StoredObjects processors = cluster_.All(kube::kStreamProcessors);
  return std::any_of(processors.begin(), processors.end(),
                     [](const Json& processor) { return processor["spec"].contains("autoscale"); });
}

bool Simulation::HasToBe(const std::string& write) const {
  for (const Json& processor : cluster_.All(kube::kStreamProcessors)) {
    if (!absl::StrContains(write, " " + kube::KeyOf(processor).Text())) continue;
    const Json& spec = processor["spec"];
    if (absl::StrContains(write, " jobs ") && absl::StrContains(spec.dump(), "missing-topic")) return true;
    if (cluster_.numbers_move && spec.contains("autoscale")) return true;
  }
  return false;
}

// Whether pods or workloads were written lately.
bool Simulation::Moves() const {
  for (const auto& [what, count] : rules_.writes()) {
    if (absl::StrContains(what, " pods") || absl::StrContains(what, " statefulsets")) return true;
  }
  return false;
}

void Simulation::StaySteady() {
  RunFor(absl::Minutes(1));  // the last numbers
  rules_.ForgetWrites();
  RunFor(kSteady);
  for (const auto& [what, count] : rules_.writes()) {
    if (HasToBe(what)) continue;
    const bool numbers = absl::StrContains(what, "streamprocessors/status");
    if (numbers && count <= kSteady / absl::Seconds(30) + 1) continue;
    failures_.push_back(StrCat("steady, and yet ", count, " writes: ", what));
  }
  cluster_.numbers_move = false;
  // Rarely: it is long.
  if (Scales() && seed_ % 8 != 0) return;
  RunFor(Scales() ? kScalesWithin : absl::Minutes(2));
  rules_.ForgetWrites();
  RunFor(kSteady);
  for (const auto& [what, count] : rules_.writes()) {
    if (!HasToBe(what)) failures_.push_back(StrCat("nothing moves, and yet ", count, " writes: ", what));
  }
  // A Job that goes, when its hour is over or it is made anew, takes its pod with it a moment later.
  for (int look = 0; look < 5 && !Unrest(&cluster_, ExpectedOptions()).empty(); ++look) RunFor(kLookEvery);
  for (const std::string& what : Unrest(&cluster_, ExpectedOptions()))
    failures_.push_back("was at rest, and is not: " + what);
}

void Simulation::Run() {
  Storm();
  Calm();
  if (rules_.broken().empty()) ComeToRest();
  if (rules_.broken().empty() && failures_.empty()) StaySteady();
  tally_["watch in pieces"] = cluster_.api().split_events();
  tally_["accident of a pod"] = cluster_.accidents_so_far();
  for (const std::string& rule : rules_.broken()) failures_.push_back("a rule is broken: " + rule);
}

std::string Simulation::Summary() const {
  return StrCat("seed ", seed_, ": ", acts_, " acts of people, ", cluster_.accidents_so_far(), " accidents of pods, ",
                first_.passes() + second_.passes(), " passes, ", rules_.total(), " writes, at rest after ",
                absl::FormatDuration(rest_took_), ", ", absl::FormatDuration(clock_.Monotonic()), " of time");
}

}  // namespace millstream::sim
