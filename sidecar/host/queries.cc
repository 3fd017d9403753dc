#include "sidecar/host/queries.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "sidecar/host/offline_state.h"

namespace millstream::host {
namespace {

const engine::TaskStatus* Find(const engine::EngineStatus& status, TaskId task) {
  for (const engine::TaskStatus& candidate : status.tasks) {
    if (candidate.task == task) return &candidate;
  }
  return nullptr;
}

}  // namespace

Queries::Queries(Parts parts) : parts_(std::move(parts)) {}

void Queries::Answer(engine::QueryAnswered answer) {
  Pending pending;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = pending_.find(answer.query);
    if (found == pending_.end()) return;
    pending = std::move(found->second);
    pending_.erase(found);
  }
  pending.completion(std::move(answer), std::move(pending.source));
}

void Queries::Stop() {
  absl::flat_hash_map<engine::QueryId, Pending> pending;
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
    pending.swap(pending_);
  }
  for (auto& [query, entry] : pending) {
    engine::QueryAnswered answer;
    answer.query = query;
    answer.status = absl::UnavailableError("the sidecar stops; ask again when it is back");
    entry.completion(std::move(answer), std::move(entry.source));
  }
}

server::ProbeAnswer Queries::Health() const {
  const absl::Duration since = parts_.loop->idle_for();
  if (since < EngineLoop::kAlive) return {.ok = true, .reason = "the engine makes progress"};
  return {.ok = false,
          .reason = StrCat("the engine made no step for ", absl::FormatDuration(absl::Trunc(since, absl::Seconds(1))),
                           "; restart the process")};
}

std::string Queries::NotReady(const engine::EngineStatus& status, const MemberState& member) const {
  if (!parts_.spec->is_view() && parts_.workers->connected() == 0) {
    return StrCat("WorkerNotConnected: no worker is connected to ", parts_.workers->socket_path(),
                  "; start the program with MILLSTREAM_SOCKET set to it");
  }
  if (member.drain != DrainState::kNo || parts_.tasks == 0) return "";
  if (!member.in_group) return "NotInGroup: joining the group; /v1/tasks tells what hinders it";
  std::string restoring;
  for (const TaskId task : member.held) {
    const engine::TaskStatus* found = Find(status, task);
    const bool open = found != nullptr && (found->state == engine::TaskStatus::State::kRunning ||
                                           found->state == engine::TaskStatus::State::kStopped);
    if (!open) StrAppend(&restoring, restoring.empty() ? "" : ", ", task.value());
  }
  return restoring.empty() ? "" : StrCat("Restoring: task ", restoring, "; /v1/tasks tells how far");
}

server::ProbeAnswer Queries::Readiness() const {
  const std::shared_ptr<const engine::EngineStatus> status = parts_.loop->status();
  const MemberState member = parts_.member();
  if (const std::string missing = NotReady(*status, member); !missing.empty()) return {.ok = false, .reason = missing};
  if (member.drain == DrainState::kDrained) return {.ok = true, .reason = "drained: out of the group by order"};
  if (member.drain == DrainState::kDraining) return {.ok = true, .reason = "draining by order"};
  if (parts_.spec->is_view()) return {.ok = true, .reason = "it serves joins and lookups"};
  return {.ok = true, .reason = "member of the group, worker connected"};
}

server::TaskReport Queries::ReportOf(const engine::TaskStatus& task, const std::vector<RestoreReport>& restores) const {
  server::TaskReport entry;
  entry.task = task.task;
  switch (task.state) {
    case engine::TaskStatus::State::kOpening:
      entry.state = "restoring";
      break;
    case engine::TaskStatus::State::kRunning:
      entry.state = "active";
      break;
    case engine::TaskStatus::State::kStopped:
      entry.state = "stopped";
      break;
    case engine::TaskStatus::State::kClosing:
      entry.state = "idle";
      break;
  }
  entry.error = task.error;
  if (task.error_at) entry.error_at = server::TaskReport::Place{task.error_at->input, task.error_at->offset};
  entry.records = task.records;
  entry.attempt = task.attempt;
  for (size_t i = 0; i < task.inputs.size() && i < parts_.spec->inputs.size(); ++i) {
    const spec::InputSpec& input = parts_.spec->inputs[i];
    entry.inputs.push_back({.name = input.name,
                            .topic = input.topic,
                            .partition = Partition(task.task.value()),
                            .committed = task.inputs[i].committed,
                            .position = task.inputs[i].position,
                            .end = task.inputs[i].end});
  }
  for (const RestoreReport& restore : restores) {
    if (restore.task != task.task) continue;
    entry.restore = server::TaskReport::Restore{.store = restore.store,
                                                .position = restore.position,
                                                .end = restore.end,
                                                .bytes = restore.bytes,
                                                .bytes_left = restore.bytes_left,
                                                .time_left = restore.time_left};
  }
  return entry;
}

// Tasks are restored a few at a time; how long those that wait will take is not known before they begin.
void Queries::AddRestore(const std::vector<RestoreReport>& restores, server::ProcessorReport* report) const {
  size_t known = 0;
  for (const RestoreReport& restore : restores) {
    report->restore_bytes_left += restore.bytes_left;
    if (!restore.time_left) continue;
    ++known;
    report->restore_time_left = std::max(report->restore_time_left.value_or(absl::ZeroDuration()), *restore.time_left);
  }
  const auto restoring =
      static_cast<size_t>(std::count_if(report->tasks.begin(), report->tasks.end(),
                                        [](const server::TaskReport& task) { return task.state == "restoring"; }));
  if (known < restoring) report->restore_time_left.reset();
}

server::ProcessorReport Queries::Tasks() const {
  const std::shared_ptr<const engine::EngineStatus> status = parts_.loop->status();
  const MemberState member = parts_.member();
  server::ProcessorReport report;
  report.processor = parts_.spec->QualifiedName();
  report.group = parts_.spec->group;
  report.member = parts_.name;
  report.version = MILLSTREAM_VERSION;
  report.guarantee = std::string(spec::ToString(parts_.spec->guarantee));
  report.paused = status->paused;
  report.drain = std::string(ToString(member.drain));
  report.in_group = member.in_group;
  report.ready = NotReady(*status, member).empty();
  report.workers = parts_.workers->connected();
  if (member.orders) report.orders = ToJson(*member.orders);
  report.lag_records = status->lag_records;
  report.lag_time = status->lag_time;
  for (Condition& condition : parts_.conditions())
    report.conditions.push_back({std::move(condition.reason), std::move(condition.message)});
  const std::vector<RestoreReport> restores = parts_.opener->Restoring();
  for (const TaskId number : parts_.spec->TasksOf(parts_.tasks)) {
    if (const engine::TaskStatus* found = Find(*status, number)) {
      report.tasks.push_back(ReportOf(*found, restores));
    } else {  // not assigned here
      server::TaskReport& entry = report.tasks.emplace_back();
      entry.task = number;
      entry.state = "idle";
    }
  }
  AddRestore(restores, &report);
  return report;
}

std::vector<std::string> Queries::Stores() const {
  std::vector<std::string> names;
  for (size_t id = 0; id < parts_.spec->readables(); ++id) names.push_back(parts_.spec->ReadableName(id));
  return names;
}

std::vector<TaskId> Queries::TasksToScan() const {
  if (!parts_.shared) return parts_.spec->TasksOf(parts_.tasks);
  std::vector<TaskId> tasks;
  const std::shared_ptr<const engine::EngineStatus> status = parts_.loop->status();
  for (const engine::TaskStatus& task : status->tasks) tasks.push_back(task.task);
  return tasks;
}

TaskId Queries::TaskOf(std::string_view key) const { return TaskOfKey(*parts_.spec, parts_.tasks, key); }

absl::Status Queries::Check(TaskId task) const {
  if (task.value() < 0 || task.value() >= parts_.tasks) {
    return absl::NotFoundError(StrCat("there is no task ", task.value(), "; ", parts_.spec->QualifiedName(),
                                      " has the tasks 0 to ", parts_.tasks - 1));
  }
  const std::vector<TaskId> own = parts_.spec->TasksOf(parts_.tasks);
  if (!std::binary_search(own.begin(), own.end(), task)) {
    return absl::NotFoundError(StrCat("task ", task.value(), " is not among partitions.manual of ",
                                      parts_.spec->QualifiedName(), ": another processor may have it"));
  }
  return absl::OkStatus();
}

void Queries::WhenHere(TaskId task, std::function<void(absl::Status)> go_on) const {
  if (const absl::Status wrong = Check(task); !wrong.ok()) return go_on(wrong);
  if (parts_.table->Get(task) != nullptr) return go_on(absl::OkStatus());
  const std::string name = StrCat("task ", task.value(), " of ", parts_.spec->QualifiedName());
  const std::shared_ptr<const engine::EngineStatus> status = parts_.loop->status();
  if (parts_.owners == nullptr || Find(*status, task) != nullptr)
    return go_on(absl::UnavailableError(StrCat(name, " is not open (restoring or stopped); ask again")));
  parts_.owners->Find(task, [go_on = std::move(go_on), name](const std::string& where) {
    go_on(absl::UnavailableError(where.empty()
                                     ? StrCat(name, " is not here, and no member of the group has it now; ask again")
                                     : StrCat(name, " is not here but with ", where, "; ask there")));
  });
}

server::AnswerSource Queries::SourceOf(TaskId task) const {
  server::AnswerSource source{.task = task, .owner = parts_.owner, .position = {}, .written_ms = 0};
  // Taken before the engine is asked: the answer is at least as new.
  const std::shared_ptr<const engine::EngineStatus> status = parts_.loop->status();
  if (const engine::TaskStatus* entry = Find(*status, task)) {
    for (size_t i = 0; i < entry->inputs.size() && i < parts_.spec->inputs.size(); ++i) {
      if (entry->inputs[i].committed != kNoOffset)
        source.position[parts_.spec->inputs[i].topic] = entry->inputs[i].committed;
    }
  }
  if (const TaskTable::Store store = parts_.table->Get(task); store != nullptr)
    source.written_ms = store->positions().wall_ms;
  return source;
}

server::AnswerSource Queries::LookupSource(const store::TaskStore& table) const {
  return {.task = TaskId(0), .owner = parts_.owner, .position = {}, .written_ms = table.positions().wall_ms};
}

absl::StatusOr<engine::QueryId> Queries::Expect(TaskId task, Completion completion) {
  server::AnswerSource source = SourceOf(task);
  absl::MutexLock lock(&mutex_);
  if (stopped_) return absl::UnavailableError("the sidecar stops; ask again when it is back");
  if (pending_.size() >= kMaxPending)
    return absl::ResourceExhaustedError(StrCat(kMaxPending, " questions wait for an answer already; ask again later"));
  const engine::QueryId query = next_query_++;
  pending_[query] = {std::move(source), std::move(completion)};
  return query;
}

void Queries::GetKey(store::StoreIndex store, Bytes key, std::optional<TaskId> task,
                     std::function<void(absl::StatusOr<server::KeyAnswer>)> done) {
  if (IsLookup(store)) {
    parts_.readers->ReadLookup(store - parts_.spec->first_lookup(),
                               [this, key = std::move(key), done](const absl::StatusOr<TaskTable::Store>& table) {
                                 if (!table.ok()) return done(table.status());
                                 absl::StatusOr<MaybeBytes> value = (*table)->Get(0, key);
                                 if (!value.ok()) return done(value.status());
                                 done(server::KeyAnswer{.value = *std::move(value), .source = LookupSource(**table)});
                               });
    return;
  }
  const TaskId of = task.has_value() ? *task : TaskOf(key);
  WhenHere(of, [this, store, of, key = std::move(key), done = std::move(done)](const absl::Status& here) mutable {
    if (!here.ok()) return done(here);
    const absl::StatusOr<engine::QueryId> query =
        Expect(of, [done](engine::QueryAnswered answer, server::AnswerSource source) {
          if (!answer.status.ok()) return done(answer.status);
          done(server::KeyAnswer{.value = std::move(answer.value), .source = std::move(source)});
        });
    if (!query.ok()) return done(query.status());
    parts_.loop->Post(engine::QueryKey{.query = *query, .task = of, .store = store, .key = std::move(key)});
  });
}

void Queries::Scan(TaskId task, store::ScanRequest range,
                   std::function<void(absl::StatusOr<server::ScanAnswer>)> done) {
  if (IsLookup(range.store)) {
    const size_t lookup = range.store - parts_.spec->first_lookup();
    range.store = 0;
    parts_.readers->ReadLookup(lookup, [this, range, done](const absl::StatusOr<TaskTable::Store>& table) {
      if (!table.ok()) return done(table.status());
      absl::StatusOr<store::ScanPage> page = (*table)->Scan(range);
      if (!page.ok()) return done(page.status());
      done(server::ScanAnswer{.page = *std::move(page), .source = LookupSource(**table)});
    });
    return;
  }
  WhenHere(task, [this, task, range = std::move(range), done = std::move(done)](const absl::Status& here) {
    if (here.ok()) return ScanHere(task, range, done);
    done(here);
  });
}

void Queries::ScanHere(TaskId task, const store::ScanRequest& range,
                       const std::function<void(absl::StatusOr<server::ScanAnswer>)>& done) {
  const absl::StatusOr<engine::QueryId> query =
      Expect(task, [this, task, range, done](engine::QueryAnswered answer, server::AnswerSource source) {
        if (!answer.status.ok()) return done(answer.status);
        if (answer.page.rows.empty() && answer.page.more && answer.cursor.has_value()) {
          // Everything on the page was deleted since; the next one is asked for behind it, until there is a row or the
          // end.
          store::ScanRequest next = range;
          next.after = *std::move(answer.cursor);
          return Scan(task, std::move(next), done);
        }
        done(server::ScanAnswer{.page = std::move(answer.page), .source = std::move(source)});
      });
  if (!query.ok()) return done(query.status());
  parts_.loop->Post(engine::QueryRange{.query = *query, .task = task, .range = range});
}

}  // namespace millstream::host
