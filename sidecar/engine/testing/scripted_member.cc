#include "sidecar/engine/testing/scripted_member.h"

#include <algorithm>
#include <iostream>
#include <utility>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "sidecar/engine/testing/trace.h"
#include "sidecar/store/timed_value.h"

namespace millstream::engine::testing {
namespace {

constexpr size_t kWorkers = 2;

absl::Status Abortable(std::string_view why) { return WithRecovery(absl::AbortedError(ToAbsl(why)), Recovery::kAbort); }

}  // namespace

FaultRates FaultRates::None() { return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}; }

Bytes RowOf(const spec::StoreSpec& store, const log::Record& record) {
  return store.ttl ? store::TimedValue(record.timestamp_ms, *record.value) : *record.value;
}

ScriptedMember::ScriptedMember(std::string name, ScriptedScene* scene, Callbacks callbacks)
    : name_(std::move(name)), scene_(scene), callbacks_(std::move(callbacks)) {}

TopicPartition ScriptedMember::InputOf(TaskId task, uint32_t input) const {
  return {scene_->options.spec.inputs[input].topic, Partition(task.value())};
}

TopicPartition ScriptedMember::ChangelogOf(TaskId task, size_t store) const {
  return {scene_->options.spec.stores[store].changelog.topic, Partition(task.value())};
}

void ScriptedMember::Start() {
  MS_CHECK(!running());
  EngineOptions options = scene_->options;
  options.transactional_id_a = name_ + "-a";
  options.transactional_id_b = name_ + "-b";
  options.process_start = std::to_string(++starts_);
  options.seed = static_cast<uint64_t>(starts_) + std::hash<std::string>()(name_);
  engine_ = Engine::Create(options, &scene_->clock, metrics_.get());
  drained_ = false;
}

void ScriptedMember::Kill() {
  if (scene_->tracing) std::cerr << scene_->clock.Monotonic() << " " << name_ << " killed\n";
  engine_.reset();
  inbox_.clear();
  writers_ = {};
  fetches_.clear();
  reads_.clear();
  applies_.clear();
  opening_.clear();
  open_.clear();
  resolves_.clear();
  workers_.clear();
  scene_->handovers.ProcessGone(name_);
  old_replies_.clear();
  for (auto& [task, disk] : disks_) disk.now = disk.flushed;
}

// ---------------------------------------------------------------- choices

void ScriptedMember::AddChoices(std::vector<std::function<void()>>* choices) {
  if (!running()) return;
  if (!inbox_.empty()) choices->push_back([this] { Deliver(); });
  for (const WriterName name : {WriterName::kA, WriterName::kB, WriterName::kPlain}) {
    if (!writers_[static_cast<size_t>(name)].calls.empty()) choices->push_back([this, name] { RunCall(name); });
  }
  for (size_t i = 0; i < reads_.size(); ++i) choices->push_back([this, i] { RunRead(i); });
  for (const auto& [task, queue] : applies_) {
    if (!queue.empty()) choices->push_back([this, task = task] { RunApply(task); });
  }
  for (const TaskId task : opening_) {
    if (CanOpen(task)) choices->push_back([this, task] { RunOpen(task); });
  }
  for (const auto& [of, fetch] : fetches_) {
    if (CanFetch(of.first, of.second, fetch)) choices->push_back([this, of = of] { RunFetch(of.first, of.second); });
  }
  for (size_t i = 0; i < resolves_.size(); ++i) {
    if (CanResolve(resolves_[i])) choices->push_back([this, i] { RunResolve(i); });
  }
  for (size_t i = 0; i < workers_.size(); ++i) {
    if (workers_[i]->CanStep()) choices->push_back([this, i] { StepWorker(i); });
  }
  if (workers_.size() < kWorkers && !drained_) choices->push_back([this] { ConnectWorker(); });
}

void ScriptedMember::Deliver() {
  Event event = std::move(inbox_.front());
  inbox_.pop_front();
  if (scene_->tracing) std::cerr << scene_->clock.Monotonic() << " " << name_ << " <- " << Describe(event) << "\n";
  if (const auto* gone = std::get_if<WorkerDisconnected>(&event)) scene_->handovers.WorkerGone(name_, gone->worker);
  std::optional<WorkerSent> sent;
  if (std::holds_alternative<WorkerSent>(event)) sent = std::get<WorkerSent>(event);
  std::vector<Action> actions;
  engine_->Handle(std::move(event), &actions);
  for (Action& action : actions) {
    if (scene_->tracing) std::cerr << scene_->clock.Monotonic() << " " << name_ << " -> " << Describe(action) << "\n";
    Carry(std::move(action));
  }
  const auto* result = sent ? std::get_if<protocol::Result>(&sent->message) : nullptr;
  if (result != nullptr) scene_->handovers.Answered(name_, sent->worker, *result);
}

void ScriptedMember::Carry(Action action) {
  if (auto* open = std::get_if<OpenTask>(&action)) {
    MS_CHECK(!open_.contains(open->task));
    opening_.insert(open->task);
  } else if (auto* close = std::get_if<CloseTask>(&action)) {
    MS_CHECK(open_.erase(close->task) == 1 && applies_[close->task].empty());
    for (const auto& read : reads_) {
      MS_CHECK(std::visit([](const auto& of) { return of.task; }, read) != close->task);
    }
    disks_[close->task].flushed = disks_[close->task].now;
    Post(TaskClosed{close->task});
  } else if (auto* released = std::get_if<TaskReleased>(&action)) {
    callbacks_.released(released->task);
  } else if (std::holds_alternative<RebalanceReady>(action)) {
    callbacks_.rebalance_ready();
  } else if (std::holds_alternative<Drained>(action)) {
    drained_ = true;
  } else if (auto* start = std::get_if<StartFetch>(&action)) {
    MS_CHECK(open_.contains(start->task) &&
             fetches_.emplace(std::pair(start->task, start->input), Fetch{start->from, start->fetch}).second);
  } else if (auto* seek = std::get_if<SeekFetch>(&action)) {
    Fetch& fetch = fetches_.at({seek->task, seek->input});
    fetch = {seek->to, seek->fetch, fetch.paused, kNoOffset};
  } else if (auto* pause = std::get_if<PauseFetch>(&action)) {
    fetches_.at({pause->task, pause->input}).paused = pause->paused;
  } else if (auto* stop = std::get_if<StopFetch>(&action)) {
    MS_CHECK(fetches_.erase({stop->task, stop->input}) == 1);
  } else if (auto* read = std::get_if<ReadKeys>(&action)) {
    MS_CHECK(open_.contains(read->task));
    reads_.push_back(std::move(*read));
  } else if (auto* scan = std::get_if<ScanRange>(&action)) {
    MS_CHECK(open_.contains(scan->task));
    reads_.push_back(std::move(*scan));
  } else if (auto* apply = std::get_if<ApplyState>(&action)) {
    MS_CHECK(open_.contains(apply->task));
    applies_[apply->task].push_back(std::move(*apply));
  } else if (auto* call = std::get_if<WriterCall>(&action)) {
    writers_[static_cast<size_t>(call->writer)].calls.push_back(std::move(*call));
  } else if (auto* resolve = std::get_if<ResolveOutcome>(&action)) {
    resolves_.push_back(std::move(*resolve));
  } else if (auto* send = std::get_if<SendToWorker>(&action)) {
    scene_->handovers.Sent(name_, send->worker, send->frame);
    for (auto& worker : workers_) {
      if (worker->id() == send->worker) worker->Receive(std::move(send->frame));
    }
  } else if (auto* drop = std::get_if<DropWorker>(&action)) {
    scene_->handovers.WorkerGone(name_, drop->worker);
    for (size_t i = 0; i < workers_.size(); ++i) {
      if (workers_[i]->id() == drop->worker) return EndWorker(i, false, drop->message);
    }
  } else if (auto* goodbye = std::get_if<GoodbyeWorker>(&action)) {
    for (size_t i = 0; i < workers_.size(); ++i) {
      if (workers_[i]->id() == goodbye->worker) return EndWorker(i, true, goodbye->reason);
    }
  }
}

// ---------------------------------------------------------------- writers

void ScriptedMember::RunCall(WriterName name) {
  Writer& writer = writers_[static_cast<size_t>(name)];
  WriterCall call = std::move(writer.calls.front());
  writer.calls.pop_front();
  WriterCallDone done;
  done.writer = name;
  done.call = call.call;
  done.status = name == WriterName::kPlain ? PlainCall(writer, call) : Call(writer, name, call);
  if (call.what == WriterCall::What::kFlush) done.acknowledged = writer.acknowledged;
  if (RecoveryOf(done.status) == Recovery::kRecreate) writer.alive = false;
  Post(std::move(done));
}

absl::Status ScriptedMember::PlainCall(Writer& writer, WriterCall& call) {
  if (call.what == WriterCall::What::kCreate) {
    if (scene_->Chance(0.1)) return absl::UnavailableError("no broker");
    writer.alive = true;
    return absl::OkStatus();
  }
  MS_CHECK(writer.alive || call.what != WriterCall::What::kCreate);
  if (!writer.alive) return WithRecovery(absl::FailedPreconditionError("not created"), Recovery::kRecreate);
  if (scene_->Chance(scene_->faults.call_recreate))
    return WithRecovery(absl::UnavailableError("plain writer broke"), Recovery::kRecreate);
  for (const log::OutgoingRecord& record : call.records) scene_->log.Append(record);
  return absl::OkStatus();
}

absl::Status ScriptedMember::Call(Writer& writer, WriterName name, WriterCall& call) {
  const FaultRates& faults = scene_->faults;
  using What = WriterCall::What;
  if (call.what == What::kCreate) {
    if (scene_->Chance(0.1)) return absl::UnavailableError("no broker");
    writer.handle = scene_->log.Init(transactional_ids()[static_cast<size_t>(name)]);
    writer.alive = true;
    return absl::OkStatus();
  }
  if (!writer.alive) return WithRecovery(absl::FailedPreconditionError("the writer is gone"), Recovery::kRecreate);
  if (scene_->Chance(faults.call_recreate))
    return WithRecovery(absl::InternalError("scripted: fatal"), Recovery::kRecreate);
  if (call.what != What::kAbort && scene_->Chance(faults.call_abort)) return Abortable("scripted");
  if ((call.what == What::kFlush || call.what == What::kSendOffsets || call.what == What::kCommit) &&
      scene_->Chance(faults.call_retry)) {
    return WithRecovery(absl::UnavailableError("scripted: again"), Recovery::kRetry);
  }
  ScriptedLog& log = scene_->log;
  switch (call.what) {
    case What::kBegin:
      writer.acknowledged.clear();
      return log.Begin(writer.handle, scene_->clock.Monotonic());
    case What::kAppend:
      for (const log::OutgoingRecord& record : call.records) {
        Offset offset;
        MS_RETURN_IF_ERROR(log.Append(writer.handle, record, &offset));
        writer.acknowledged[record.to] = offset;
      }
      return absl::OkStatus();
    case What::kSendOffsets:
      return log.SendOffsets(writer.handle, call.token, call.offsets);
    case What::kCommit:
      return CommitCall(writer);
    case What::kAbort:
      return log.Abort(writer.handle);
    default:
      return absl::OkStatus();
  }
}

absl::Status ScriptedMember::CommitCall(Writer& writer) {
  if (!scene_->Chance(scene_->faults.commit_unknown)) return scene_->log.Commit(writer.handle);
  switch (scene_->Pick(3)) {
    case 0:
      (void)scene_->log.Commit(writer.handle);
      break;
    case 1:
      scene_->late_commits.push_back(writer.handle);
      break;
    default:
      break;
  }
  return WithUnknownOutcome(absl::DeadlineExceededError("scripted: no answer to EndTxn"));
}

bool ScriptedMember::CanResolve(const ResolveOutcome& ask) const {
  return std::none_of(ask.partitions.begin(), ask.partitions.end(),
                      [&](const TopicPartition& of) { return scene_->log.HasPendingOffset(of); });
}

void ScriptedMember::RunResolve(size_t index) {
  const ResolveOutcome ask = std::move(resolves_[index]);
  resolves_.erase(resolves_.begin() + static_cast<ptrdiff_t>(index));
  OutcomeRead read;
  read.call = ask.call;
  if (scene_->Chance(0.1)) {
    read.status = absl::UnavailableError("scripted: no coordinator");
  } else {
    for (const TopicPartition& of : ask.partitions) {
      if (auto offset = scene_->log.Committed(of)) read.offsets.emplace_back(of, *offset);
    }
  }
  Post(std::move(read));
}

// ---------------------------------------------------------------- state

ScriptedDisk::Contents ScriptedMember::Replay(TaskId task, const store::Positions* up_to) const {
  const spec::StreamProcessorSpec& spec = scene_->options.spec;
  ScriptedDisk::Contents state;
  state.stores.resize(spec.stores.size());
  for (size_t store = 0; store < spec.stores.size(); ++store) {
    const TopicPartition from = ChangelogOf(task, store);
    for (const log::Record& record : scene_->log.CommittedRecords(from)) {
      if (up_to != nullptr) {
        auto position = up_to->changelog.find(static_cast<store::StoreIndex>(store));
        if (position == up_to->changelog.end() || record.offset >= position->second) break;
      }
      if (record.value) {
        state.stores[store][*record.key] = RowOf(spec.stores[store], record);
      } else {
        state.stores[store].erase(*record.key);
      }
    }
  }
  return state;
}

bool ScriptedMember::CanOpen(TaskId task) const {
  const spec::StreamProcessorSpec& spec = scene_->options.spec;
  for (uint32_t input = 0; input < spec.inputs.size(); ++input) {
    if (scene_->log.HasPendingOffset(InputOf(task, input))) return false;
  }
  for (size_t store = 0; store < spec.stores.size(); ++store) {
    if (scene_->log.HasOpenTransaction(ChangelogOf(task, store))) return false;
  }
  return true;
}

// Restores as the store does: what is on disk, then the changelog from the stamped position on.
void ScriptedMember::RunOpen(TaskId task) {
  opening_.erase(task);
  if (scene_->Chance(0.05)) return Post(TaskOpened{task, absl::UnavailableError("scripted: no broker"), {}, {}});
  const spec::StreamProcessorSpec& spec = scene_->options.spec;
  ScriptedDisk& disk = disks_[task];
  disk.now.stores.resize(spec.stores.size());
  for (size_t store = 0; store < spec.stores.size(); ++store) {
    const auto index = static_cast<store::StoreIndex>(store);
    Offset& position = disk.now.positions.changelog[index];
    if (position == Offset(0)) disk.now.stores[store].clear();
    auto tail = scene_->log.Read(ChangelogOf(task, store), position, SIZE_MAX, log::Isolation::kReadCommitted);
    for (const log::Record& record : tail.records) {
      if (record.value) {
        disk.now.stores[store][*record.key] = RowOf(spec.stores[store], record);
      } else {
        disk.now.stores[store].erase(*record.key);
      }
    }
    position = tail.next;
  }
  if (disk.now.stores != Replay(task, nullptr).stores)
    scene_->Wrong(StrCat("task ", task.value(), ": restored state is not the changelog's"));
  disk.flushed = disk.now;
  open_.insert(task);
  TaskOpened opened;
  opened.task = task;
  for (uint32_t input = 0; input < spec.inputs.size(); ++input) {
    InputStart start;
    start.input = input;
    if (auto committed = scene_->log.Committed(InputOf(task, input))) {
      start.next = committed->next;
      start.committed = true;
      start.metadata = committed->metadata;
    }
    opened.inputs.push_back(std::move(start));
  }
  opened.positions = disk.now.positions;
  Post(std::move(opened));
}

void ScriptedMember::RunApply(TaskId task) {
  ApplyState apply = std::move(applies_[task].front());
  applies_[task].pop_front();
  if (scene_->Chance(scene_->faults.apply_full)) {
    return Post(StateApplied{apply.apply, absl::ResourceExhaustedError("scripted: disk full")});
  }
  ScriptedDisk& disk = disks_[task];
  for (store::StoreWrite& write : apply.writes) {
    if (write.value) {
      disk.now.stores[write.store][write.key] = *std::move(write.value);
    } else {
      disk.now.stores[write.store].erase(write.key);
    }
  }
  for (const auto& [store, position] : apply.positions.changelog) disk.now.positions.changelog[store] = position;
  for (const auto& [topic, next] : apply.positions.inputs) disk.now.positions.inputs[topic] = next;
  if (disk.now.stores != Replay(task, &disk.now.positions).stores) {
    scene_->Wrong(
        StrCat("task ", task.value(), ": the disk of ", name_, " is not the committed changelog up to its positions"));
  }
  if (scene_->Pick(3) == 0) disk.flushed = disk.now;
  Post(StateApplied{apply.apply, absl::OkStatus()});
}

store::ScanPage ScriptedMember::Scan(const store::ScanRequest& request, const std::map<Bytes, Bytes>& rows) const {
  auto begin = request.from ? rows.lower_bound(*request.from) : rows.begin();
  auto end = request.to ? rows.lower_bound(*request.to) : rows.end();
  std::vector<std::pair<Bytes, Bytes>> range(begin, end);
  if (request.reverse) std::reverse(range.begin(), range.end());
  store::ScanPage page;
  for (auto& row : range) {
    if (request.after && (request.reverse ? row.first >= *request.after : row.first <= *request.after)) continue;
    if (page.rows.size() >= request.max_rows) {
      page.more = true;
      break;
    }
    page.rows.push_back(std::move(row));
  }
  return page;
}

void ScriptedMember::RunRead(size_t index) {
  auto read = std::move(reads_[index]);
  reads_.erase(reads_.begin() + static_cast<ptrdiff_t>(index));
  if (auto* keys = std::get_if<ReadKeys>(&read)) {
    const std::map<Bytes, Bytes>& rows = disks_[keys->task].now.stores[keys->store];
    KeysRead done;
    done.read = keys->read;
    for (const Bytes& key : keys->keys) {
      auto row = rows.find(key);
      done.values.push_back(row == rows.end() ? MaybeBytes() : MaybeBytes(row->second));
    }
    Post(std::move(done));
  } else {
    auto& scan = std::get<ScanRange>(read);
    Post(RangeScanned{scan.read, absl::OkStatus(), Scan(scan.range, disks_[scan.task].now.stores[scan.range.store])});
  }
}

// ---------------------------------------------------------------- inputs

bool ScriptedMember::CanFetch(TaskId task, uint32_t input, const Fetch& fetch) const {
  if (fetch.paused) return false;
  const Offset end = scene_->log.EndOffset(InputOf(task, input), log::Isolation::kReadCommitted);
  return fetch.position < end || fetch.told_end != end;
}

void ScriptedMember::RunFetch(TaskId task, uint32_t input) {
  Fetch& fetch = fetches_.at({task, input});
  auto read =
      scene_->log.Read(InputOf(task, input), fetch.position, 1 + scene_->Pick(8), log::Isolation::kReadCommitted);
  const bool moved = read.next != fetch.position;
  fetch.position = read.next;
  if (moved) return Post(RecordsRead{task, input, std::move(read.records), read.next, fetch.fetch});
  fetch.told_end = read.next;
  Post(EndOfInput{task, input, read.next, fetch.fetch});
}

// ---------------------------------------------------------------- workers

void ScriptedMember::ConnectWorker() {
  workers_.push_back(
      std::make_unique<ScriptedWorker>(next_worker_++, 1 + static_cast<int>(scene_->Pick(2)), &scene_->random));
  workers_.back()->handovers = &scene_->handovers;
  if (scene_->options.spec.timers) workers_.back()->timed = &scene_->options.spec;
  if (scene_->calm) workers_.back()->stop_early = 0;
  WorkerConnected connected;
  connected.worker = workers_.back()->id();
  if (scene_->gather) {
    workers_.back()->gathers = true;
    connected.hello.capabilities = {"begin", "finalize", "committed"};
  }
  if (scene_->options.spec.external_store) {
    workers_.back()->database = &scene_->database;
    workers_.back()->database_lost = scene_->calm ? 0 : scene_->faults.database;
    connected.hello.capabilities = {std::string(protocol::kExternalStoreCapability), "committed"};
  }
  connected.hello.capabilities.emplace_back(protocol::kSessionClosingsCapability);
  connected.hello.parallel = workers_.back()->parallel();
  Post(std::move(connected));
}

void ScriptedMember::StepWorker(size_t index) {
  std::vector<Event> events;
  workers_[index]->Step(&events);
  for (Event& event : events) {
    const auto& sent = std::get<WorkerSent>(event);
    if (std::holds_alternative<protocol::Result>(sent.message) && old_replies_.size() < 8) old_replies_.push_back(sent);
    Post(std::move(event));
  }
  if (workers_[index]->state() == ScriptedWorker::State::kCrashed)
    EndWorker(index, false, "connection reset");
  else if (workers_[index]->state() == ScriptedWorker::State::kGone)
    EndWorker(index, true, "goodbye");
}

void ScriptedMember::EndWorker(size_t index, bool orderly, const std::string& cause) {
  Post(WorkerDisconnected{workers_[index]->id(), absl::UnavailableError(cause), orderly});
  workers_.erase(workers_.begin() + static_cast<ptrdiff_t>(index));
}

void ScriptedMember::CrashSomeWorker() {
  if (!workers_.empty()) EndWorker(scene_->Pick(workers_.size()), false, "killed");
}

// The server's PING: a worker that is silent for long is closed, if no batch's deadline comes first.
void ScriptedMember::CloseSilentWorkers() {
  for (size_t i = 0; i < workers_.size(); ++i) {
    if (workers_[i]->state() == ScriptedWorker::State::kHung && scene_->Pick(10) == 0)
      return EndWorker(i, false, "silent");
  }
}

void ScriptedMember::HangSomeWorker() {
  if (!workers_.empty()) workers_[scene_->Pick(workers_.size())]->Hang();
}

void ScriptedMember::PartWithSomeWorker() {
  if (workers_.empty()) return;
  std::vector<Event> events;
  workers_[scene_->Pick(workers_.size())]->SayGoodbye(&events);
  for (Event& event : events) Post(std::move(event));
}

void ScriptedMember::TalkNonsense() {
  if (workers_.empty()) return;
  std::vector<Event> events;
  workers_[scene_->Pick(workers_.size())]->SayNonsense(&events);
  for (Event& event : events) Post(std::move(event));
}

void ScriptedMember::FailSomeInput() {
  if (fetches_.empty()) return;
  auto fetch = std::next(fetches_.begin(), static_cast<ptrdiff_t>(scene_->Pick(fetches_.size())));
  Post(InputFailed{fetch->first.first, fetch->first.second, absl::OutOfRangeError("scripted"), fetch->second.fetch});
}

void ScriptedMember::RestartTasks() {
  for (const TaskId task : open_) Post(RestartTask{task});
}

void ScriptedMember::AskForState() {
  if (scene_->options.spec.stores.empty()) return;
  const TaskId task(static_cast<int32_t>(scene_->Pick(4)));  // may be one that is not here
  const QueryId query = ++next_query_;
  const auto store = static_cast<store::StoreIndex>(scene_->Pick(scene_->options.spec.stores.size()));
  if (scene_->Pick(2) == 0) {
    Post(QueryKey{query, task, store, StrCat("k", scene_->Pick(6))});
  } else {
    store::ScanRequest range;
    range.store = store;
    range.reverse = scene_->Pick(2) == 0;
    range.max_rows = 1 + scene_->Pick(4);
    Post(QueryRange{query, task, std::move(range)});
  }
}

// A reply of an earlier batch comes again over a living connection: its session does not know it (any more).
void ScriptedMember::RepeatOldReply() {
  if (workers_.empty() || old_replies_.empty()) return;
  WorkerSent reply = old_replies_[scene_->Pick(old_replies_.size())];
  reply.worker = workers_[scene_->Pick(workers_.size())]->id();
  Post(std::move(reply));
}

}  // namespace millstream::engine::testing
