#include "sidecar/engine/testing/scripted_world.h"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <utility>

#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::engine::testing {
namespace {

constexpr uint64_t kMostSteps = 400'000;

}  // namespace

EngineOptions WorldEngineOptions(const WorldOptions& options) {
  EngineOptions out;
  spec::StreamProcessorSpec& spec = out.spec;
  spec.name = "scripted";
  spec.group = "g";
  spec.guarantee = options.guarantee;
  for (const char* name : {"orders", "returns"}) {
    if (static_cast<int>(spec.inputs.size()) == options.inputs) break;
    spec.inputs.push_back({.name = name, .topic = name, .start_from = {}, .partitioner = {}, .prefetch = {"totals"}});
  }
  spec.external_store = options.external;
  if (!options.external) {
    spec.stores.push_back({.name = "totals", .backend = {}, .changelog = {true, "g-totals-changelog", {}}});
    spec.stores.push_back({.name = "index", .backend = {}, .changelog = {true, "g-index-changelog", {}}});
  }
  if (options.timed) AddTimedStores(&spec);
  if (options.timed) out.ttl_steps = kRecentSteps;
  if (options.visits) {
    MS_CHECK(options.timed);  // the internal store
    spec.visits.push_back({"walk", kTotals});
  }
  spec.outputs.push_back({.name = "out", .topic = "out", .create = std::nullopt, .partitioner = {}});
  if (options.merge_by_time) spec.merge_by = spec::MergeBy::kTimestamp;
  for (spec::InputSpec& input : spec.inputs) input.idle_after = absl::Milliseconds(200);
  spec.transaction.max_bytes = options.transaction_bytes;
  spec.batch.max_records = 6;
  spec.batch.deadline = absl::Seconds(5);
  spec.errors.max_attempts = 5;
  spec.errors.backoff_initial = absl::Milliseconds(10);
  spec.errors.on_failure = options.on_failure;
  spec.errors.dead_letter_topic = "g-dead-letter";
  spec.sidecar.workers.max = 8;
  spec.membership.rebalance_timeout = absl::Seconds(4);
  out.output_partitions = {kWorldOutputPartitions};
  out.output_max_bytes = {1000};
  if (options.loop) {
    MS_CHECK(options.guarantee == spec::Guarantee::kExactlyOnce);  // nothing else bounds how often a record goes round
    spec.inputs.push_back(
        {.name = "loop", .topic = "g-loop", .start_from = {}, .partitioner = {}, .prefetch = {"totals"}, .loop = true});
    spec.outputs.push_back(
        {.name = "loop", .topic = "g-loop", .create = std::nullopt, .partitioner = {}, .loop = true});
    out.output_partitions.push_back(options.partitions);
    out.output_max_bytes.push_back(1000);
  }
  for (spec::InputSpec& input : spec.inputs) {
    if (options.external) input.prefetch.clear();
  }
  out.dead_letter_partitions = options.partitions;
  out.owner_stamp = "local/default/scripted";
  out.overlay_bytes = options.overlay_bytes;
  out.fetched_bytes = options.fetched_bytes;
  out.mutation = options.mutation;
  return out;
}

ScriptedWorld::ScriptedWorld(const WorldOptions& options) : options_(options) {
  scene_.random.seed(options.seed);
  scene_.options = WorldEngineOptions(options);
  scene_.faults = options.faults;
  scene_.gather = options.gather;
  scene_.tracing = std::getenv("MILLSTREAM_SIM_TRACE") != nullptr;
  for (const spec::InputSpec& input : scene_.options.spec.inputs) {
    scene_.log.CreateTopic(input.topic, options.partitions);
    for (int task = 0; task < options.partitions && !input.loop; ++task) sources_[{input.topic, Partition(task)}];
  }
  scene_.log.CreateTopic("out", kWorldOutputPartitions);
  scene_.log.CreateTopic("g-dead-letter", options.partitions);
  for (const spec::StoreSpec& store : scene_.options.spec.stores)
    scene_.log.CreateTopic(store.changelog.topic, options.partitions);
  for (int i = 0; i < options.members; ++i) {
    Seat seat;
    const auto index = static_cast<size_t>(i);
    seat.process = std::make_unique<ScriptedMember>(
        "m" + std::to_string(i), &scene_,
        ScriptedMember::Callbacks{[this, index](TaskId task) { OnReleased(index, task); },
                                  [this, index] { OnReady(index); }});
    seats_.push_back(std::move(seat));
  }
  for (int task = 0; task < options.partitions; ++task) owners_[TaskId(task)] = std::nullopt;
  for (int i = 0; i < options.records; ++i) {
    Input input;
    const auto task = static_cast<int32_t>(scene_.Pick(static_cast<size_t>(options.partitions)));
    input.side = static_cast<int>(scene_.Pick(static_cast<size_t>(options.inputs)));
    input.loops = options.loop;
    const size_t side = static_cast<size_t>(input.side);
    auto& records = sources_[{scene_.options.spec.inputs[side].topic, Partition(task)}].records;
    input.id = task * kIdsPerTask + input.side * (kIdsPerTask / 2) + static_cast<int64_t>(records.size());
    const size_t dice = scene_.Pick(100);
    // AtMostOnce: it would move time and be gone, which the model of time could not know.
    const bool leaves_no_trace =
        options.timed && AtMostOnce() && options.on_failure != spec::FailureAction::kDeadLetter;
    if (dice < 2 && !leaves_no_trace) input.fate = Fate::kFailsOnce;
    if (options.bad_records && options.on_failure != spec::FailureAction::kStop) {
      if (dice == 3) input.fate = Fate::kFails;
      if (dice == 4) input.fate = Fate::kCrashes;
      if (dice == 5 && !options.gather) input.fate = Fate::kOverLimit;  // nobody would be charged
    }
    std::optional<std::string> key;
    if (scene_.Pick(20) != 0) {
      key = StrCat(input.side == 0 ? "k" : "r", scene_.Pick(static_cast<size_t>(options.keys)));
      if (options.timed) StrAppend(&*key, "@", task);
    }
    records.emplace_back(std::move(key), input);
  }
}

// ---------------------------------------------------------------- running

std::string ScriptedWorld::Run() {
  for (size_t seat = 0; seat < seats_.size(); ++seat) StartMember(seat);
  while (scene_.failure.empty() && !Finished()) {
    if (++steps_ > kMostSteps) {
      scene_.Wrong(StrCat("no end after ", kMostSteps, " steps", Standing()));
      break;
    }
    Step();
  }
  if (scene_.failure.empty()) scene_.failure = Verify();
  for (const Seat& seat : seats_) {
    if (seat.process->running()) Count(*seat.process);
  }
  if (scene_.failure.empty()) return "";
  return StrCat("seed ", options_.seed, ", step ", steps_, ": ", scene_.failure);
}

// Where everything stands, for a run that does not end.
std::string ScriptedWorld::Standing() const {
  std::string out = StrCat("; rebalancing ", rebalancing_, ", awaited ", awaited_.size(), ", draining ", draining_);
  if (!not_yet_.empty()) StrAppend(&out, "; not as expected yet: ", not_yet_);
  for (const auto& [partition, source] : sources_) {
    const auto committed = scene_.log.Committed(partition);
    const auto owner = owners_.at(TaskId(partition.partition.value()));
    StrAppend(&out, "; ", partition.ToString(), " at ", committed ? committed->next.value() : -1, " of ",
              scene_.log.EndOffset(partition, log::Isolation::kReadUncommitted).value(), ", owner ",
              owner ? seats_[*owner].process->name() : "none");
  }
  for (const Seat& seat : seats_) {
    StrAppend(&out, "; ", seat.id(), " joined ", seat.joined, " zombie ", seat.zombie, " leaving ", seat.leaving,
              " told ", seat.told.size());
    if (!seat.process->running()) continue;
    const EngineStatus status = seat.process->engine()->Status();
    StrAppend(&out, " workers ", status.workers, " lag ", status.lag_records);
    for (const TaskStatus& task : status.tasks) {
      StrAppend(&out, " [", task.task.value(), " state ", static_cast<int>(task.state), " position ",
                task.inputs.empty() ? -1 : task.inputs[0].position.value(), " ", task.error, "]");
    }
  }
  return out;
}

void ScriptedWorld::Produce() {
  for (auto& [partition, source] : sources_) ProduceTo(partition, source);
}

// Some records are written in transactions, which leave control records behind, some of them aborted.
void ScriptedWorld::ProduceTo(const TopicPartition& partition, Source& source) {
  if (source.open && scene_.Pick(2) == 0) {
    MS_CHECK_OK(source.doomed ? scene_.log.Abort(*source.open) : scene_.log.Commit(*source.open));
    source.open.reset();
  }
  if (!source.open && scene_.Pick(6) == 0) {
    source.open = scene_.log.Init("upstream-" + partition.ToString());
    source.doomed = scene_.Pick(3) == 0;
    MS_CHECK_OK(scene_.log.Begin(*source.open, scene_.clock.Monotonic()));
  }
  for (size_t n = scene_.Pick(4); n > 0 && !source.Done(); --n) {
    log::OutgoingRecord record{partition, 0, std::nullopt, "never to be seen", {}};
    if (!source.open || !source.doomed) {
      const auto& [key, input] = source.records[source.produced++];
      record = {partition, options_.timed ? TimeOf(input.id) : input.id, key, input.Encode(), {}};
    }
    Offset offset;
    if (source.open) {
      MS_CHECK_OK(scene_.log.Append(*source.open, record, &offset));
    } else {
      scene_.log.Append(record);
    }
  }
}

void ScriptedWorld::Step() {
  const bool all_produced =
      std::all_of(sources_.begin(), sources_.end(), [](const auto& of) { return of.second.Done() && !of.second.open; });
  // Some trouble goes on after the last record, then it is quiet.
  if (all_produced && !scene_.calm && scene_.Pick(300) == 0) {
    scene_.calm = true;
    for (size_t seat = 0; seat < seats_.size(); ++seat) {
      if (seats_[seat].zombie) TellZombie(seat);
      if (!seats_[seat].process->running()) StartMember(seat);
    }
  }
  if (!all_produced && scene_.Pick(10) == 0) Produce();
  if (!scene_.calm) Faults();
  if (!scene_.late_commits.empty() && scene_.Pick(30) == 0) {
    const size_t which = scene_.Pick(scene_.late_commits.size());
    (void)scene_.log.Commit(scene_.late_commits[which]);  // fenced by now, perhaps
    scene_.late_commits.erase(scene_.late_commits.begin() + static_cast<ptrdiff_t>(which));
  }
  if (rebalancing_ && awaited_.empty() && scene_.Pick(4) == 0) FinishRebalance();

  if (scene_.Pick(100) == 0) {
    for (Seat& seat : seats_) {
      if (seat.process->running()) seat.process->RestartTasks();
    }
  }

  std::vector<std::function<void()>> choices;
  for (Seat& seat : seats_) seat.process->AddChoices(&choices);
  if (choices.empty() || scene_.Pick(25) == 0) {
    PassTime(choices.empty());
  } else {
    choices[scene_.Pick(choices.size())]();
  }
}

void ScriptedWorld::PassTime(bool idle) {
  absl::Duration step = absl::Microseconds(static_cast<int64_t>(scene_.Pick(20'000)));
  if (idle) {
    // Nothing happens before somebody's deadline.
    step = absl::Seconds(1);
    for (Seat& seat : seats_) {
      if (!seat.process->running()) continue;
      if (auto deadline = seat.process->engine()->NextDeadline()) {
        step = std::min(step, std::max(*deadline - scene_.clock.Monotonic(), absl::Milliseconds(1)));
      }
    }
  }
  scene_.clock.Advance(step);
  scene_.log.AbortOpenSince(scene_.clock.Monotonic() - scene_.options.spec.transaction.timeout);
  for (Seat& seat : seats_) {
    if (!seat.process->running()) continue;
    seat.process->Post(Tick{});
    if (idle) seat.process->CloseSilentWorkers();
  }
}

void ScriptedWorld::Faults() {
  const FaultRates& faults = scene_.faults;
  for (size_t i = 0; i < seats_.size(); ++i) {
    Seat& seat = seats_[i];
    if (!seat.process->running()) {
      if (scene_.Chance(0.02)) StartMember(i);
      continue;
    }
    if (scene_.Chance(faults.process_crash)) {
      KillMember(i);
      continue;
    }
    if (scene_.Chance(faults.expel) && seat.joined) Expel(i);
    if (scene_.Chance(0.01) && seat.zombie) TellZombie(i);
    if (scene_.Chance(faults.worker_crash)) seat.process->CrashSomeWorker();
    if (scene_.Chance(faults.worker_hang)) seat.process->HangSomeWorker();
    if (scene_.Chance(faults.worker_goodbye)) seat.process->PartWithSomeWorker();
    if (scene_.Chance(faults.old_reply)) seat.process->RepeatOldReply();
    if (scene_.Chance(faults.nonsense)) seat.process->TalkNonsense();
    if (scene_.Chance(faults.input_fails)) seat.process->FailSomeInput();
    if (scene_.Chance(faults.query)) seat.process->AskForState();
  }
  if (scene_.Chance(0.01)) ExpireDead();
  if (scene_.Chance(0.001) && !rebalancing_ && seats_.size() > 1) StartRebalance();
}

// Everything that the records make due has come. Looked at now and then: it costs.
bool ScriptedWorld::TimeIsUp(bool now) {
  if (time_is_up_ || (!now && steps_ % 100 != 0)) return time_is_up_;
  for (int task = 0; task < options_.partitions; ++task) {
    std::set<int64_t> late;
    const Fates fates = FatesOf(TaskId(task));
    not_yet_ = VerifyTime(TaskId(task), ModelOfTime(TaskId(task), fates, &late));
    if (options_.visits && not_yet_.empty())
      not_yet_ = VerifyVisits(TaskId(task), ModelOfVisits(TaskId(task), fates, late));
    if (!not_yet_.empty()) return false;
  }
  return time_is_up_ = true;
}

// All records committed; then every member drains, and that is the end.
bool ScriptedWorld::Finished() const {
  if (!scene_.calm) return false;
  auto* self = const_cast<ScriptedWorld*>(this);
  if (!draining_) {
    if (rebalancing_) return false;
    if (options_.timed && !self->TimeIsUp()) return false;
    for (const spec::InputSpec& input : scene_.options.spec.inputs) {
      for (int task = 0; task < options_.partitions; ++task) {  // R8: control records at the end included
        const TopicPartition partition{input.topic, Partition(task)};
        const auto committed = scene_.log.Committed(partition);
        const Offset end = scene_.log.EndOffset(partition, log::Isolation::kReadUncommitted);
        if (committed ? committed->next != end : end != Offset(0)) return false;
      }
    }
    for (const auto& [task, owner] : owners_) {
      if (!owner || seats_[*owner].leaving) return false;
    }
    self->draining_ = true;
    for (Seat& seat : self->seats_) seat.process->Post(Drain{absl::Seconds(30)});
    return false;
  }
  const bool drained =
      std::all_of(seats_.begin(), seats_.end(), [](const Seat& seat) { return seat.process->drained(); });
  return drained && !self->LivesAgain();
}

// AtMostOnce: a record is committed before it is handled, and what it made due while its task was given up is for the
// next owner.
bool ScriptedWorld::LivesAgain() {
  constexpr int kMostLives = 4;
  if (!options_.timed || !AtMostOnce() || lives_ == kMostLives) return false;
  time_is_up_ = false;
  if (TimeIsUp(/*now=*/true)) return false;
  ++lives_;
  draining_ = false;
  for (size_t seat = 0; seat < seats_.size(); ++seat) {
    KillMember(seat);
    StartMember(seat);
  }
  return true;
}

// ---------------------------------------------------------------- the group

void ScriptedWorld::SendToken(Seat& seat) {
  seat.process->Post(
      TokenChanged{{"g", seat.id(), "", Generation(scene_.log.generation())}, static_cast<int>(seats_.size())});
}

void ScriptedWorld::StartMember(size_t index) {
  Seat& seat = seats_[index];
  seat.process->Start();
  seat.told.clear();
  seat.zombie = seat.leaving = false;
  if (seat.joined) {
    // Within its session: static membership, nothing moves.
    SendToken(seat);
    for (auto& [task, owner] : owners_) {
      if (owner == index) owner.reset();
      if (!owner) Give(task);
    }
    const bool unplanned = std::any_of(owners_.begin(), owners_.end(), [](const auto& of) { return !of.second; });
    if (unplanned && !rebalancing_) StartRebalance();
    return;
  }
  StartRebalance();
  seat.joined = true;  // from the end of the rebalance on
}

void ScriptedWorld::Count(const ScriptedMember& process) {
  const EngineStatus status = process.engine()->Status();
  totals_.transactions += status.transactions;
  totals_.aborted += status.aborted;
  totals_.records += status.records_committed;
  totals_.skipped += status.skipped;
  totals_.dead_letters += status.dead_letters;
  totals_.late_results += status.late_results;
}

void ScriptedWorld::KillMember(size_t index) {
  Seat& seat = seats_[index];
  Count(*seat.process);
  ++totals_.kills;
  seat.process->Kill();
  if (seat.zombie || seat.leaving) seat.joined = false;
  awaited_.erase(index);
}

// Dead members lose their session; the leader ends their transactions.
void ScriptedWorld::ExpireDead() {
  bool expired = false;
  for (size_t i = 0; i < seats_.size(); ++i) {
    Seat& seat = seats_[i];
    if (seat.process->running() || !seat.joined) continue;
    seat.joined = false;
    ++seat.id_number;
    expired = true;
    for (const std::string& id : seat.process->transactional_ids()) (void)scene_.log.Init(id);
    for (auto& [task, owner] : owners_) {
      if (owner == i) owner.reset();
    }
  }
  if (expired) StartRebalance();
}

// A living member is taken for dead: it goes on for a while without knowing.
void ScriptedWorld::Expel(size_t index) {
  Seat& seat = seats_[index];
  seat.joined = false;
  seat.zombie = true;
  awaited_.erase(index);
  for (auto& [task, owner] : owners_) {
    if (owner == index) owner.reset();
  }
  StartRebalance();
}

void ScriptedWorld::TellZombie(size_t index) {
  Seat& seat = seats_[index];
  seat.zombie = false;
  seat.leaving = true;
  ++seat.id_number;
  seat.process->Post(MembershipLost{absl::AbortedError("scripted: expelled")});
  if (seat.told.empty()) OnReleased(index, TaskId(-1));
}

void ScriptedWorld::StartRebalance() {
  for (size_t i = 0; i < seats_.size(); ++i) {
    Seat& seat = seats_[i];
    if (!seat.joined || !seat.process->running()) continue;
    if (awaited_.insert(i).second) seat.process->Post(RebalanceStarted{});
  }
  rebalancing_ = true;
}

void ScriptedWorld::OnReady(size_t seat) { awaited_.erase(seat); }

void ScriptedWorld::FinishRebalance() {
  rebalancing_ = false;
  std::set<std::string> ids;
  std::vector<size_t> living;
  for (size_t i = 0; i < seats_.size(); ++i) {
    if (!seats_[i].joined) continue;
    ids.insert(seats_[i].id());
    if (seats_[i].process->running()) living.push_back(i);
  }
  scene_.log.NewGeneration(ids);
  for (const size_t i : living) SendToken(seats_[i]);
  if (living.empty()) return;
  const size_t shift = scene_.Pick(living.size());
  for (auto& [task, owner] : owners_) {
    planned_[task] = living[(static_cast<size_t>(task.value()) + shift) % living.size()];
    if (!owner) {
      Give(task);
    } else if (*owner != planned_[task] && seats_[*owner].process->running()) {
      seats_[*owner].process->Post(TaskRevoked{task});
    }
  }
}

void ScriptedWorld::Give(TaskId task) {
  auto planned = planned_.find(task);
  if (planned == planned_.end()) return;
  Seat& seat = seats_[planned->second];
  if (!seat.joined || !seat.process->running()) return;  // the next rebalance finds somebody
  owners_[task] = planned->second;
  seat.told.insert(task);
  seat.process->Post(TaskAssigned{task});
}

void ScriptedWorld::OnReleased(size_t index, TaskId task) {
  Seat& seat = seats_[index];
  seat.told.erase(task);
  if (draining_) return;
  auto owner = owners_.find(task);
  if (owner != owners_.end() && owner->second == index) {
    owner->second.reset();
    Give(task);
  }
  if (seat.leaving && seat.told.empty()) {
    seat.leaving = false;
    StartRebalance();
    seat.joined = true;
  }
}

}  // namespace millstream::engine::testing
