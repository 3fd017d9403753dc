#include "sidecar/engine/engine_impl.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "common/base/log_line.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::engine {
namespace {

PrefetchPlan PlanOf(const spec::StreamProcessorSpec& spec) {
  PrefetchPlan plan;
  plan.manifest_stores = spec.ManifestStores();
  plan.hidden = spec.stores.size() - plan.manifest_stores;
  plan.stores = plan.manifest_stores + spec.joins.size();
  MS_CHECK(plan.stores <= 64);
  for (size_t store = 0; store < plan.manifest_stores; ++store) {
    if (spec.stores[store].type != spec::StoreType::kKeyValue) plan.windowed |= uint64_t{1} << store;
  }
  for (const spec::InputSpec& input : spec.inputs) {
    uint64_t mask = 0;
    for (size_t store = 0; store < plan.manifest_stores; ++store) {
      if (std::find(input.prefetch.begin(), input.prefetch.end(), spec.stores[store].name) != input.prefetch.end()) {
        mask |= uint64_t{1} << store;
      }
    }
    mask &= ~plan.windowed;
    for (size_t join = plan.manifest_stores; join < plan.stores; ++join) mask |= uint64_t{1} << join;
    plan.masks.push_back(mask);
    plan.due |= mask;
  }
  return plan;
}

// Sequence numbers stay below 2^53 (JavaScript's integers) and differ from process to process, so that a reply to
// another process is recognised.
uint64_t FirstSeq(uint64_t seed) { return 1 + (seed * 0x9E3779B97F4A7C15u >> 24) % (uint64_t{1} << 40); }

}  // namespace

std::unique_ptr<Engine> Engine::Create(const EngineOptions& options, const Clock* clock, MetricsRegistry* metrics) {
  return std::make_unique<EngineImpl>(options, clock, metrics);
}

EngineImpl::EngineImpl(const EngineOptions& options, const Clock* clock, MetricsRegistry* registry)
    : options_(options),
      clock_(clock),
      metrics_(registry, options.spec.name),
      at_most_once_(options.spec.guarantee == spec::Guarantee::kAtMostOnce),
      merges_by_time_(options.spec.merge_by == spec::MergeBy::kTimestamp && options.spec.inputs.size() > 1),
      prefetch_(PlanOf(options.spec)),
      has_sessions_(std::any_of(options.spec.stores.begin(), options.spec.stores.end(),
                                [](const spec::StoreSpec& store) { return store.session.has_value(); })),
      internal_store_(static_cast<store::StoreIndex>(options.spec.ManifestStores())),
      expiry_(options.spec, options.ttl_steps),
      router_(&options_),
      pipeline_(&options_, this, &metrics_),
      next_seq_(FirstSeq(options.seed)),
      paused_(options.spec.desired_state == spec::DesiredState::kPaused) {}

// ---------------------------------------------------------------- the loop

void EngineImpl::Handle(Event event, std::vector<Action>* actions) {
  actions_ = actions;
  now_ = clock_->Monotonic();
  while (const std::optional<TaskId> due = timers_.PopDue(now_)) {
    Task* task = Find(*due);
    MS_CHECK(task != nullptr);
    task->timer = absl::InfiniteDuration();
    Mark(*task);
  }
  std::visit([this](auto&& of) { On(std::move(of)); }, std::move(event));
  Run();
  actions_ = nullptr;
}

void EngineImpl::Run() {
  constexpr int kMostRounds = 10'000;  // a round does something for some task; that many in one step is a bug
  int rounds = 0;
  do {
    MS_CHECK(++rounds < kMostRounds);
    std::vector<TaskId> dirty = std::exchange(dirty_, {});
    for (const TaskId id : dirty) {
      if (Task* task = Find(id)) Refresh(*task);
    }
    UpdatePressure();
    pipeline_.Step(now_, {.stalled = busy_tasks_ == 0, .urgent = Urgent()}, actions_);
    AnswerRebalance();
    AdvanceDrain();
  } while (!dirty_.empty());
}

void EngineImpl::Refresh(Task& task) {
  task.dirty = false;
  CheckDeadlines(task);
  if (task.phase == Task::Phase::kFailed) {
    if (task.leaving != Task::Leaving::kNo) {  // nothing is open
      task.phase = Task::Phase::kClosing;
      return On(TaskClosed{task.id});
    }
    if (now_ >= task.retry_at) Open(task);
  }
  if (task.leaving != Task::Leaving::kNo) {
    AdvanceLeaving(task);
  } else {
    if (task.external) LoadCheckpoint(task);
    if (task.phase == Task::Phase::kStarting) CommitStart(task);
  }
  if (task.phase == Task::Phase::kRunning) {
    LookForDue(task);
    Sweep(task);
    Prepare(task);
    TrySend(task);
    MaybeCommitEnd(task);
  }
  if (task.open()) {
    // What a pin held on to when the pressure began may go once it is released.
    if (overlay_pressure_) task.overlays.FreeCache();
    MaybeApply(task);
    UpdateFetch(task);
  }
  Account(task);
  SetTimer(task);
}

void EngineImpl::Mark(Task& task) {
  if (task.dirty) return;
  task.dirty = true;
  dirty_.push_back(task.id);
}

void EngineImpl::Mark(TaskId id) {
  if (Task* task = Find(id)) Mark(*task);
}

void EngineImpl::MarkAll() {
  for (auto& [id, task] : tasks_) Mark(*task);
}

Task* EngineImpl::Find(TaskId id) {
  auto it = tasks_.find(id);
  return it == tasks_.end() ? nullptr : it->second.get();
}

void EngineImpl::SetTimer(Task& task) {
  absl::Duration next = absl::InfiniteDuration();
  auto wanted = [&](absl::Duration when) {
    if (when > now_) next = std::min(next, when);
  };
  if (task.phase == Task::Phase::kFailed) wanted(task.retry_at);
  if (task.open()) {
    if (task.in_flight) wanted(task.in_flight->deadline);
    if (const std::optional<absl::Duration> due = DueDeadline(task)) wanted(*due);
    wanted(task.wait_until);
    wanted(task.cancel_at);
    wanted(task.end_commit_at);
    if (!task.apply) wanted(task.apply_at);
    for (uint32_t i = 0; merges_by_time_ && !task.queue.empty() && i < task.inputs.size(); ++i) {
      if (task.queue.LaneEmpty(i)) wanted(IdleAt(task, i));
    }
  }
  if (next < task.timer) timers_.Move(task.id, std::exchange(task.timer, next), next);
}

// Brings the sums over all tasks up to date with this one.
void EngineImpl::Account(Task& task) {
  const bool works = task.phase == Task::Phase::kRunning || task.phase == Task::Phase::kStopped;
  const bool claiming = task.prepared && task.prepared->claimed;
  const bool looks = task.time && task.time->looking;
  const bool sendable = task.phase == Task::Phase::kRunning && (task.prepared || MayTake(task) || looks) && !claiming &&
                        !paused_ && task.Loaded() && now_ >= task.wait_until && workers_.usable() > 0;
  const bool busy = works && (task.in_flight || (sendable && !pipeline_.recovering()));
  busy_tasks_ += static_cast<int>(busy) - static_cast<int>(task.busy);
  task.busy = busy;

  const int64_t bytes = task.record_bytes(), overlay = task.overlays.bytes();
  fetched_bytes_ += bytes - std::exchange(task.counted_bytes, bytes);
  overlay_bytes_ += overlay - std::exchange(task.counted_overlay_bytes, overlay);
  int64_t lag = 0;
  for (const TaskInput& input : task.inputs) {
    if (input.committed != kNoOffset && input.end > input.committed) lag += input.end - input.committed;
  }
  lag_ += lag - std::exchange(task.counted_lag, lag);
}

// Bounds on memory, with some distance between on and off.
void EngineImpl::UpdatePressure() {
  const bool fetch = fetched_bytes_ >= (fetch_pressure_ ? options_.fetched_bytes / 2 : options_.fetched_bytes);
  const bool overlay = overlay_bytes_ >= (overlay_pressure_ ? options_.overlay_bytes / 2 : options_.overlay_bytes);
  if (fetch == fetch_pressure_ && overlay == overlay_pressure_) return;
  if (overlay && !overlay_pressure_) {
    for (auto& [id, task] : tasks_) {
      DropPrepared(*task);  // it pins overlays, and is not sent before there is room
      task->overlays.FreeCache();
    }
  }
  fetch_pressure_ = fetch;
  overlay_pressure_ = overlay;
  MarkAll();
}

bool EngineImpl::Urgent() {
  if (overlay_pressure_) return true;
  if (leaving_tasks_ == 0) return false;
  return std::any_of(tasks_.begin(), tasks_.end(), [this](const auto& entry) {
    const Task& task = *entry.second;
    return task.leaving != Task::Leaving::kNo && !task.in_flight && pipeline_.HasOpenPart(task.id);
  });
}

std::optional<absl::Duration> EngineImpl::NextDeadline() const {
  std::optional<absl::Duration> next = timers_.Earliest();
  auto wanted = [&next](absl::Duration when) { next = next ? std::min(*next, when) : when; };
  if (const std::optional<absl::Duration> pipeline = pipeline_.NextDeadline()) wanted(*pipeline);
  if (draining_ && !drained_) wanted(drain_end_);
  return next;
}

// ---------------------------------------------------------------- membership, shutdown

void EngineImpl::On(TokenChanged event) {
  pipeline_.SetToken(now_, event.token, event.members);
  rebalance_owed_ = false;
  MarkAll();
}

void EngineImpl::On(RebalanceStarted) {
  pipeline_.StartRebalance(now_);
  rebalance_owed_ = true;
}

void EngineImpl::AnswerRebalance() {
  if (!rebalance_owed_ || !pipeline_.Quiet()) return;
  rebalance_owed_ = false;
  Do(RebalanceReady{});
}

void EngineImpl::On(MembershipLost event) {
  NoteError(StrCat("membership lost: ", event.cause.ToString()));
  rebalance_owed_ = false;
  pipeline_.Expel(now_, event.cause);
  for (auto& [id, task] : tasks_) {
    task->release = true;
    Leave(*task, Task::Leaving::kLost);
  }
}

// What is out is finished and committed; what waits is read again later.
void EngineImpl::On(SetPaused event) {
  if (paused_ == event.paused) return;
  paused_ = event.paused;
  for (auto& [id, task] : tasks_) {
    if (paused_) DropPrepared(*task);
  }
  MarkAll();
}

void EngineImpl::On(Drain event) {
  if (draining_) return;
  draining_ = true;
  // The last five seconds (or half, if there is less) are for committing, applying and closing.
  drain_end_ = now_ + event.deadline;
  drain_finish_ = drain_end_ - std::min(absl::Seconds(5), event.deadline / 2);
  for (auto& [id, task] : tasks_) {
    task->release = true;
    task->reassigned = false;
    Leave(*task, Task::Leaving::kRevoked);
  }
}

void EngineImpl::AdvanceDrain() {
  if (!draining_ || drained_) return;
  const bool closed = tasks_.empty() && pipeline_.empty();
  if (closed && !goodbye_said_) {
    goodbye_said_ = true;
    for (auto& [id, worker] : workers_.all()) {
      worker.goodbye = true;
      if (!worker.dropped) Do(GoodbyeWorker{id, "the sidecar stops"});
    }
  }
  if ((closed && workers_.size() == 0) || now_ >= drain_end_) {
    drained_ = true;
    Do(Drained{});
  }
}

void EngineImpl::On(WriterCallDone event) {
  pipeline_.OnCallDone(now_, std::move(event), actions_);
  if (std::exchange(blocked_, false)) MarkAll();
}

void EngineImpl::On(OutcomeRead event) { pipeline_.OnOutcome(now_, std::move(event), actions_); }

// ---------------------------------------------------------------- what people see

void EngineImpl::NoteError(std::string message) {
  Warn(message);
  if (totals_.first_error.empty()) totals_.first_error = message;
  totals_.last_error = std::move(message);
}

void EngineImpl::Warn(std::string_view message) {
  if (!throttle_.Allow(now_)) return;
  if (const uint64_t left_out = throttle_.TakeLeftOut(); left_out > 0) {
    LogWarning(message, {{"processor", spec_.name}, {"left_out", left_out}});
  } else {
    LogWarning(message, {{"processor", spec_.name}});
  }
}

TopicPartition EngineImpl::PartitionOf(TaskId task, uint32_t input) const {
  return {spec_.inputs[input].topic, Partition(task.value())};
}

std::string EngineImpl::Describe(TaskId task, uint32_t input, Offset offset) const {
  return StrCat("record ", PartitionOf(task, input).ToString(), " offset ", offset.value(), " (input '",
                spec_.inputs[input].name, "')");
}

std::string EngineImpl::Describe(TaskId task, const Item& item) const {
  if (item.due == nullptr) return Describe(task, item.input, item.record.offset);
  if (item.due->what == DueItem::What::kVisit) {
    const std::string visit = StrCat("visit '", spec_.visits[item.due->visit].name, "' in task ", task.value());
    return item.record.key ? StrCat("row of key '", Readable(*item.record.key), "' of ", visit)
                           : StrCat("end of ", visit);
  }
  const std::string of = StrCat(" of key '", Readable(*item.record.key), "' in task ", task.value());
  if (item.due->what == DueItem::What::kTimer) {
    return StrCat("timer '", Readable(item.due->name), "'", of, ", due at ", item.due->time, " ms by ",
                  item.due->clock == protocol::TimerClock::kEventTime ? "event time" : "the wall clock");
  }
  return StrCat("closing of window ", item.due->bounds.start, " to ", item.due->bounds.end, " ms", of, " (store '",
                spec_.stores[item.due->store].name, "')");
}

EngineStatus EngineImpl::Status() const {
  EngineStatus status = totals_;
  status.lag_records = lag_;
  status.commits_wait = pipeline_.commits_wait();
  status.writer_error = pipeline_.writer_error();
  status.aborts_in_a_row = consecutive_aborts_;
  if (consecutive_aborts_ > 0) status.abort_cause = abort_cause_;
  status.workers = workers_.usable();
  status.paused = paused_;
  int64_t oldest_ms = std::numeric_limits<int64_t>::max();
  for (const auto& [id, task] : tasks_) {
    TaskStatus& out = status.tasks.emplace_back();
    out.task = id;
    out.error = task->error;
    if (task->phase == Task::Phase::kStopped) out.error_at = task->error_at;
    if (const Item* first = task->first_record(); first != nullptr && task->counted_lag > 0)
      oldest_ms = std::min(oldest_ms, first->record.timestamp_ms);
    out.records = task->records;
    switch (task->phase) {
      case Task::Phase::kOpening:
        out.state = TaskStatus::State::kOpening;
        break;
      case Task::Phase::kFailed:
        out.state =
            task->retry_at == absl::InfiniteDuration() ? TaskStatus::State::kStopped : TaskStatus::State::kOpening;
        break;
      case Task::Phase::kStopped:
        out.state = TaskStatus::State::kStopped;
        break;
      case Task::Phase::kClosing:
        out.state = TaskStatus::State::kClosing;
        break;
      default:
        out.state = task->leaving == Task::Leaving::kNo ? TaskStatus::State::kRunning : TaskStatus::State::kClosing;
    }
    for (const TaskInput& input : task->inputs) out.inputs.push_back({input.committed, input.fetched, input.end});
    const bool handles = task->in_flight && !task->in_flight->items.empty();
    const Item* busy_with = handles                ? &task->in_flight->items.front()
                            : !task->queue.empty() ? &task->queue.front()
                                                   : nullptr;
    const int attempt = busy_with == nullptr ? 1 : task->attempts.Next(*busy_with);
    out.attempt = attempt > 1 ? attempt : 0;
  }
  if (lag_ == 0) {
    status.lag_time = absl::ZeroDuration();
  } else if (oldest_ms != std::numeric_limits<int64_t>::max()) {
    status.lag_time = absl::Milliseconds(std::max<int64_t>(0, clock_->WallMillis() - oldest_ms));
  }
  metrics_.lag->Set(static_cast<double>(lag_));
  metrics_.overlay_bytes->Set(static_cast<double>(overlay_bytes_));
  metrics_.fetched_bytes->Set(static_cast<double>(fetched_bytes_));
  return status;
}

}  // namespace millstream::engine
