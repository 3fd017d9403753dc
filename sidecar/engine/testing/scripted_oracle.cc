// The scripted world's end: state == changelog replay == model, outputs as the guarantee promises.
#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "common/base/bytes.h"
#include "common/base/strings.h"
#include "common/log/partitioner.h"
#include "sidecar/engine/internal_rows.h"
#include "sidecar/engine/testing/scripted_world.h"
#include "sidecar/store/timed_value.h"

namespace millstream::engine::testing {
namespace {

// The first row that is not as expected; empty: there is none.
std::string Difference(const std::map<Bytes, Bytes>& rows, const std::map<Bytes, Bytes>& expected) {
  for (const auto& [key, value] : rows) {
    const auto of = expected.find(key);
    if (of == expected.end()) return StrCat("row ", Readable(key), " should not be there");
    if (of->second != value) return StrCat("row ", Readable(key), " is ", value, " instead of ", of->second);
  }
  for (const auto& [key, value] : expected) {
    if (!rows.contains(key)) return StrCat("row ", Readable(key), " is missing");
  }
  return "";
}

}  // namespace

std::string ScriptedWorld::Verify() {
  for (const Seat& seat : seats_) {
    const EngineStatus status = seat.process->engine()->Status();
    if (!status.tasks.empty()) return "a drained member still has tasks";
  }
  for (int task = 0; task < options_.partitions; ++task) {
    std::string wrong = VerifyTask(TaskId(task));
    if (!wrong.empty()) return StrCat("task ", task, ": ", wrong);
  }
  for (const auto& [name, times] : scene_.handovers.calls()) {
    if (AtMostOnce() && times > 1) return StrCat(name, " was handled ", times, " times");
  }
  return VerifyLoop();
}

// What the log holds of the loop is what handling each record once sends there, each time once.
std::string ScriptedWorld::VerifyLoop() {
  std::map<int64_t, int> found;
  for (int task = 0; options_.loop && task < options_.partitions; ++task) {
    for (const log::Record& record : scene_.log.CommittedRecords({"g-loop", Partition(task)}))
      ++found[Input::Decode(*record.value).id];
  }
  for (const auto& [id, times] : looped_) {
    if (found[id] != times) return StrCat("record ", id, " is ", found[id], " times in the loop, not ", times);
  }
  return found.size() == looped_.size() ? "" : "there are records in the loop that nothing sent";
}

// AtMostOnce: where only workers end, what they had is lost and nothing else.
bool ScriptedWorld::MayLack(const std::string& name) const {
  return AtMostOnce() && (!options_.only_workers_end || scene_.handovers.MayBeLost(name));
}

// AtMostOnce: nothing comes twice, and nothing is lost for no reason.
std::string ScriptedWorld::VerifyOnce(const std::vector<std::pair<std::optional<std::string>, Input>>& inputs,
                                      const Fates& fates, const std::set<int64_t>& late) const {
  for (size_t i = 0; i < fates.dead.size(); ++i) {
    const int64_t id = fates.dead[i];
    if (fates.done.contains(id)) return StrCat("record ", id, " has an output and is among the dead letters");
    if (i > 0 && fates.dead[i - 1] == id) return StrCat("record ", id, " is among the dead letters twice");
  }
  for (const auto& [key, input] : inputs) {
    const bool dead = std::binary_search(fates.dead.begin(), fates.dead.end(), input.id);
    if (!fates.done.contains(input.id) && !dead && !late.contains(input.id) && !MayLack(RecordName(input.id)))
      return StrCat("record ", input.id, " is lost");
  }
  return "";
}

// In the order they came: what was written to it, or what the log holds of the loop.
std::vector<std::pair<std::optional<std::string>, Input>> ScriptedWorld::InputsOf(TaskId task,
                                                                                  const spec::InputSpec& input) const {
  const TopicPartition from{input.topic, Partition(task.value())};
  if (!input.loop) return sources_.at(from).records;
  std::vector<std::pair<std::optional<std::string>, Input>> records;
  for (const log::Record& record : scene_.log.CommittedRecords(from))
    records.emplace_back(*record.key, Input::Decode(*record.value));
  return records;
}

// The task that has sent it: by its id, or of the loop by its key.
TaskId ScriptedWorld::TaskOfOutput(const log::Record& record) const {
  const int64_t id = IdOf(*record.value);
  if (id < kLoopIds) return TaskId(static_cast<int32_t>(id / kIdsPerTask));
  return TaskId(log::PartitionOfKey(log::KeyHash::kMurmur2, *record.key, options_.partitions).value());
}

// What the log says of the records: those that have outputs, those that were given to the dead letters.
ScriptedWorld::Fates ScriptedWorld::FatesOf(TaskId task) {
  std::vector<int64_t> order;
  CheckOutputs(task, {}, &order);
  Fates fates;
  fates.done = {order.begin(), order.end()};
  for (const log::Record& record : scene_.log.CommittedRecords({"g-dead-letter", Partition(task.value())})) {
    if (record.value) fates.dead.push_back(Input::Decode(*record.value).id);  // else of a timer or closing
  }
  std::sort(fates.dead.begin(), fates.dead.end());
  return fates;
}

std::string ScriptedWorld::VerifyTask(TaskId task) {
  std::vector<std::pair<std::optional<std::string>, Input>> inputs;  // of one input after the other: they share no key
  for (const spec::InputSpec& input : scene_.options.spec.inputs) {
    const auto records = InputsOf(task, input);
    inputs.insert(inputs.end(), records.begin(), records.end());
  }
  // AtMostOnce: what happened is what the outputs and dead letters say; the model follows them.
  const Fates fates = FatesOf(task);
  std::string wrong;
  std::set<int64_t> late;
  if (options_.timed) {
    wrong = VerifyTime(task, ModelOfTime(task, fates, &late));
    if (wrong.empty() && options_.visits) wrong = VerifyVisits(task, ModelOfVisits(task, fates, late));
    if (!wrong.empty()) return wrong;
  }
  Model model;
  std::map<int64_t, std::string> expected;
  for (const auto& [key, input] : inputs) {
    if (late.contains(input.id)) continue;
    if (AtMostOnce() ? !fates.done.contains(input.id) : input.NeverDone()) continue;
    Effects effects = model.Apply(key, input);
    expected[input.id] = std::move(effects.output);
    for (const auto& looped : effects.loop) ++looped_[looped.second.id];
  }
  wrong = CheckOutputs(task, expected, nullptr);
  if (!wrong.empty()) return wrong;

  std::vector<int64_t> hopeless;
  for (const auto& [key, input] : inputs) {
    if (input.NeverDone() && !late.contains(input.id)) hopeless.push_back(input.id);
  }
  if (AtMostOnce()) {
    wrong = VerifyOnce(inputs, fates, late);
    if (!wrong.empty()) return wrong;
  } else if (options_.on_failure == spec::FailureAction::kDeadLetter && fates.dead != hopeless) {
    return StrCat(fates.dead.size(), " dead letters instead of ", hopeless.size());
  }

  if (options_.external) {
    return scene_.database.rows[task].model.stores() == model.stores() ? "" : "the database's state is not the model's";
  }
  Model::Stores replay(2);
  for (size_t store = 0; store < 2; ++store) replay[store] = Replay(task, store);
  if (replay != model.stores()) return "the changelog's state is not the model's";
  for (size_t store = 2; store < scene_.options.spec.stores.size(); ++store) replay.push_back(Replay(task, store));
  const std::optional<size_t> owner = owners_.at(task);
  if (owner && Restored(task, seats_[*owner].process->disks().at(task).now) != replay)
    return "the state on disk is not the model's";
  return "";
}

// As they would lie on disk.
std::map<Bytes, Bytes> ScriptedWorld::Replay(TaskId task, size_t store) const {
  std::map<Bytes, Bytes> rows;
  const TopicPartition from{scene_.options.spec.stores[store].changelog.topic, Partition(task.value())};
  for (const log::Record& record : scene_.log.CommittedRecords(from)) {
    if (record.value) {
      rows[*record.key] = RowOf(scene_.options.spec.stores[store], record);
    } else {
      rows.erase(*record.key);
    }
  }
  return rows;
}

// By the order of the log. A record that fails for good takes part in time, and in nothing else; with AtMostOnce one
// that is lost in nothing at all.
TimedModel ScriptedWorld::ModelOfTime(TaskId task, const Fates& fates, std::set<int64_t>* late) const {
  TimedModel model(scene_.options.spec);
  TimedModel handed(scene_.options.spec);  // time as of all records: one may be late by one that is lost with it
  const std::string& topic = scene_.options.spec.inputs[0].topic;
  for (const auto& [key, input] : sources_.at({topic, Partition(task.value())}).records) {
    const bool failed =
        AtMostOnce() ? std::binary_search(fates.dead.begin(), fates.dead.end(), input.id) : input.NeverDone();
    const bool late_of_all = AtMostOnce() && !handed.Reject(key, input.id);
    if (AtMostOnce() && !failed && !fates.done.contains(input.id)) {
      if (late_of_all) late->insert(input.id);
      continue;
    }
    if (failed ? !model.Reject(key, input.id) : !model.Record(key, input.id)) late->insert(input.id);
  }
  return model;
}

std::string ScriptedWorld::VerifyTime(TaskId task, const TimedModel& model) const {
  std::map<std::string, int> outputs;
  for (int partition = 0; partition < kWorldOutputPartitions; ++partition) {
    for (const log::Record& record : scene_.log.CommittedRecords({"out", Partition(partition)})) {
      if (IsTimedOutput(*record.value) && !IsVisitOutput(*record.value) &&
          record.key->ends_with(StrCat("@", task.value())))
        ++outputs[*record.value];
    }
  }
  const std::map<std::string, int> expected = model.Outputs();
  for (const auto& [output, times] : expected) {
    const int came = outputs[output];
    const bool may_lack = came < times && MayLack(output);
    if (came == 0 && !may_lack) return StrCat("no ", output, ": a closing or timer is missing");
    if (came != times && !may_lack && options_.guarantee != spec::Guarantee::kAtLeastOnce)
      return StrCat(output, " came ", came, " times");
  }
  for (const auto& [output, came] : outputs) {
    // AtLeastOnce: what an aborted attempt has sent stays, and may differ.
    if (!expected.contains(output) && options_.guarantee != spec::Guarantee::kAtLeastOnce)
      return StrCat(output, ": nothing of the kind was due");
  }
  for (const uint32_t store : {kMinutes, kHops, kVisits, kStays}) {
    const std::string wrong = Difference(Replay(task, store), model.Rows(store));
    if (!wrong.empty()) {
      return StrCat("store '", scene_.options.spec.stores[store].name, "' is not the model's, at stream time ",
                    model.stream_time().value_or(0), ": ", wrong);
    }
  }
  TimedModel::RecentRows recent;
  for (const auto& [key, row] : Replay(task, kRecent)) {
    const store::TimedRow parts = store::ParseTimedValue(row);
    if (!model.Hides(parts.written_ms)) recent[key] = {Bytes(parts.value), HiddenFrom(parts.written_ms)};
  }
  if (recent != model.Recent()) return "store 'recent' is not the model's";
  std::map<std::pair<std::string, std::string>, int64_t> pending;
  size_t by_time = 0, ends = 0;
  for (const auto& [row, value] : Replay(task, scene_.options.spec.ManifestStores())) {
    if (row[0] == 1) {
      const size_t key = ReadBigEndian32(std::string_view(row).substr(2));
      pending[{row.substr(6, key), row.substr(6 + key)}] = ParseTimeValue(value).value();
    }
    by_time += row[0] == 2;
    ends += row[0] == 3;
  }
  if (pending != model.PendingTimers()) return "the pending timers are not the model's";
  if (by_time != pending.size()) return StrCat(by_time, " timers by time and ", pending.size(), " by name");
  if (ends != model.ends()) return StrCat(ends, " ends of windows instead of ", model.ends());
  return "";
}

// By the order of the log: records that fail for good, or that are late, start nothing.
VisitModel ScriptedWorld::ModelOfVisits(TaskId task, const Fates& fates, const std::set<int64_t>& late) const {
  VisitModel visits;
  Model model;
  for (const auto& [key, input] : sources_.at({scene_.options.spec.inputs[0].topic, Partition(task.value())}).records) {
    if (late.contains(input.id) || (AtMostOnce() ? !fates.done.contains(input.id) : input.NeverDone())) continue;
    model.Apply(key, input);
    visits.Handled(key, input.id, model.stores()[kTotals]);
  }
  return visits;
}

std::string ScriptedWorld::VerifyVisits(TaskId task, const VisitModel& model) const {
  std::map<std::string, int> came;
  for (int partition = 0; partition < kWorldOutputPartitions; ++partition) {
    for (const log::Record& record : scene_.log.CommittedRecords({"out", Partition(partition)})) {
      if (IsVisitOutput(*record.value) && record.key->ends_with(StrCat("@", task.value()))) ++came[*record.value];
    }
  }
  std::string wrong = model.Check(came, options_.guarantee != spec::Guarantee::kAtLeastOnce,
                                  [&](const std::string& output) { return MayLack(output); });
  if (!wrong.empty()) return wrong;
  for (const auto& [row, value] : Replay(task, scene_.options.spec.ManifestStores())) {
    const auto [from, to] = VisitRange();
    if (row >= from && row < to) return "a visit that has ended is still there";
  }
  return "";
}

// The disk, which may be behind (it was full at the end), with the rest of the changelog.
Model::Stores ScriptedWorld::Restored(TaskId task, const ScriptedDisk::Contents& disk) const {
  Model::Stores stores = disk.stores;
  for (size_t store = 0; store < stores.size(); ++store) {
    const TopicPartition from{scene_.options.spec.stores[store].changelog.topic, Partition(task.value())};
    auto position = disk.positions.changelog.find(static_cast<store::StoreIndex>(store));
    for (const log::Record& record : scene_.log.CommittedRecords(from)) {
      if (position != disk.positions.changelog.end() && record.offset < position->second) continue;
      if (record.value) {
        stores[store][*record.key] = RowOf(scene_.options.spec.stores[store], record);
      } else {
        stores[store].erase(*record.key);
      }
    }
  }
  return stores;
}

std::string ScriptedWorld::CheckOutputs(TaskId task, const std::map<int64_t, std::string>& expected,
                                        std::vector<int64_t>* order) {
  std::map<int64_t, int> times;
  std::map<int64_t, std::string> wrong;  // the first tells the most
  for (int partition = 0; partition < kWorldOutputPartitions; ++partition) {
    std::map<std::string, int64_t> last;  // per key
    for (const log::Record& record : scene_.log.CommittedRecords({"out", Partition(partition)})) {
      if (IsTimedOutput(*record.value)) continue;
      const int64_t id = IdOf(*record.value);
      if (TaskOfOutput(record) != task) continue;
      if (order != nullptr) {
        order->push_back(id);
        continue;
      }
      auto value = expected.find(id);
      if (value == expected.end()) return StrCat("an output of record ", id, ", which has none");
      if (value->second != *record.value) wrong.try_emplace(id, *record.value);
      ++times[id];
      if (!record.key || id >= kLoopIds || options_.guarantee == spec::Guarantee::kAtLeastOnce) continue;
      auto [it, first] = last.try_emplace(*record.key, id);
      if (!first && it->second >= id)
        return StrCat("outputs of key ", *record.key, " out of order: ", id, " after ", it->second);
      it->second = id;
    }
  }
  if (order != nullptr) return "";
  if (!wrong.empty())
    return StrCat("the output of record ", wrong.begin()->first, " is ", wrong.begin()->second, " instead of ",
                  expected.at(wrong.begin()->first));
  for (const auto& [id, value] : expected) {
    if (times[id] == 0) return StrCat("the output of record ", id, " is missing");
    if (times[id] > 1 && options_.guarantee != spec::Guarantee::kAtLeastOnce)
      return StrCat("the output of record ", id, " came ", times[id], " times");
  }
  return "";
}

}  // namespace millstream::engine::testing
