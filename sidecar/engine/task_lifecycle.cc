// Tasks from TaskAssigned to TaskReleased: opening, start offsets, fetching, stopping, giving up.
#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "sidecar/engine/engine_impl.h"

namespace millstream::engine {
namespace {

constexpr absl::Duration kFirstReopen = absl::Milliseconds(100);
constexpr absl::Duration kLongestReopen = absl::Seconds(30);
// engine.md R10: how long the batch in flight may still take when its task is given up.
constexpr absl::Duration kGiveUpGrace = absl::Milliseconds(100);
// engine.md R8.
constexpr absl::Duration kEndCommitInterval = absl::Seconds(1);
// A task holds at least so many record bytes before it is paused: less would starve batches.
constexpr int64_t kLeastFetchShare = 256 << 10;

bool MayPass(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsResourceExhausted(status) ||
         absl::IsDataLoss(status) || absl::IsAborted(status);
}

}  // namespace

// ---------------------------------------------------------------- opening

std::unique_ptr<Task> EngineImpl::NewTask(TaskId id) const {
  const size_t lanes = merges_by_time_ ? spec_.inputs.size() : 1;
  auto task = std::make_unique<Task>(id, spec_.inputs.size(), spec_.readables(), lanes);
  if (spec_.external_store) task->external = std::make_unique<TaskExternal>();
  return task;
}

void EngineImpl::On(TaskAssigned event) {
  if (draining_) return Do(TaskReleased{event.task});
  if (Task* task = Find(event.task)) {
    if (task->leaving != Task::Leaving::kNo) task->reassigned = true;
    return;
  }
  auto task = NewTask(event.task);
  Open(*tasks_.emplace(event.task, std::move(task)).first->second);
}

void EngineImpl::Open(Task& task) {
  task.phase = Task::Phase::kOpening;
  task.failed_early = absl::OkStatus();
  task.retry_at = absl::InfiniteDuration();
  Do(OpenTask{task.id});
}

void EngineImpl::On(TaskOpened event) {
  Task* task = Find(event.task);
  MS_CHECK(task != nullptr && task->phase == Task::Phase::kOpening);
  Mark(*task);
  if (!event.status.ok()) {
    task->error = StrCat("task ", task->id.value(), " cannot be opened: ", event.status.ToString());
    if (!absl::IsCancelled(event.status)) NoteError(task->error);  // cancelled: we are being drained
    task->phase = Task::Phase::kFailed;
    if (MayPass(event.status)) task->retry_at = now_ + Backoff(kFirstReopen, kLongestReopen, ++task->open_failures);
    return;
  }
  MS_CHECK(event.inputs.size() == task->inputs.size());
  task->error.clear();
  task->open_failures = 0;
  task->phase = Task::Phase::kStarting;
  task->epoch = task->epoch.Next();
  for (InputStart& start : event.inputs) {
    TaskInput& input = task->inputs[start.input];
    input = TaskInput();
    input.staged = input.queued = input.fetched = start.next;
    input.last_record = now_;
    if (start.committed) {
      input.committed = start.next;
      input.metadata = std::move(start.metadata);
    }
  }
  LoadClock(*task);
  if (!task->failed_early.ok()) Lose(*task, std::exchange(task->failed_early, absl::OkStatus()));
}

// R1: offsets that were only resolved are committed before the first batch.
void EngineImpl::CommitStart(Task& task) {
  if ((task.time && !task.time->loaded) || !task.Loaded()) return;
  const bool known = std::all_of(task.inputs.begin(), task.inputs.end(),
                                 [](const TaskInput& input) { return input.committed != kNoOffset; });
  if (known) {
    task.phase = Task::Phase::kRunning;
  } else if (!pipeline_.recovering() && !pipeline_.HasPart(task.id) && now_ >= task.wait_until) {
    StageOffsets(task);
  }
}

// The task's positions join the open transaction, moved or not.
void EngineImpl::StageOffsets(Task& task) {
  TaskPart& part = pipeline_.Open(now_).Part(task.id, task.inputs.size());
  for (size_t i = 0; i < task.inputs.size(); ++i) part.next[i] = task.inputs[i].staged;
  if (task.external) {
    MS_CHECK(!part.finalized && task.worker != 0);  // the worker that is to store it, and has not yet
    part.worker = task.worker;
  }
  if (task.time) part.clock = task.time->clock;
}

// ---------------------------------------------------------------- inputs

void EngineImpl::On(RecordsRead event) {
  Task* task = Find(event.task);
  if (task == nullptr || !task->open() || task->leaving != Task::Leaving::kNo) return;
  if (pipeline_.recovering() && !at_most_once_) return;  // sought anew when it is over
  TaskInput& input = task->inputs[event.input];
  if ((event.fetch != 0 && event.fetch != input.fetch) || task->phase == Task::Phase::kStopped) return;
  if (!event.records.empty() && event.records.front().offset < input.fetched) {
    MS_CHECK(event.fetch == 0);  // the driver promises to start where it was told
    return;
  }
  MS_CHECK(event.next >= input.fetched);
  input.fetched = event.next;
  input.end = std::max(input.end, event.next);
  input.heard = now_;
  Mark(*task);
  if (event.records.empty()) return;
  input.at_end = false;
  input.last_record = input.last_arrival = now_;
  task->queue.Append(event.input, std::move(event.records), std::exchange(input.queued, event.next), event.next);
}

void EngineImpl::On(EndOfInput event) {
  Task* task = Find(event.task);
  if (task == nullptr || !task->open() || task->leaving != Task::Leaving::kNo) return;
  if (pipeline_.recovering() && !at_most_once_) return;
  TaskInput& input = task->inputs[event.input];
  if ((event.fetch != 0 && event.fetch != input.fetch) || event.position < input.fetched) return;
  input.fetched = event.position;
  input.end = std::max(input.end, event.position);
  input.heard = now_;
  input.at_end = true;
  Mark(*task);
}

void EngineImpl::On(InputFailed event) {
  Task* task = Find(event.task);
  if (task == nullptr || !task->open() || task->leaving != Task::Leaving::kNo) return;
  MS_CHECK(event.input < task->inputs.size());
  TaskInput& input = task->inputs[event.input];
  if (event.fetch != 0 && event.fetch != input.fetch) return;
  const std::string where =
      StrCat(PartitionOf(task->id, event.input).ToString(), " (input '", spec_.inputs[event.input].name, "')");
  const TaskStatus::Place at{event.input, input.fetched};
  if (absl::IsOutOfRange(event.status)) {
    Stop(*task,
         StrCat("OffsetsLost: ", where, " has no offset ", input.fetched.value(), " any more (",
                std::string(event.status.message()),
                "); records between were lost to retention or the topic was re-created. Nothing is skipped by "
                "itself: stop the processor, set the group's offsets to where to go on (millstream reset), and "
                "start it again"),
         at);
  } else {
    Stop(*task,
         StrCat("InputFailed: ", where, " cannot be read: ", event.status.ToString(),
                "; repair it, then restart the task"),
         at);
  }
}

// R8: the end of the partition, past control records, when there is nothing else to do.
void EngineImpl::MaybeCommitEnd(Task& task) {
  if (task.phase != Task::Phase::kRunning || task.leaving != Task::Leaving::kNo || pipeline_.recovering()) return;
  if (task.in_flight || task.prepared || !task.queue.empty() || now_ < task.end_commit_at) return;
  if (task.external && !MayStage(task)) return;
  bool moved = false;
  for (TaskInput& input : task.inputs) {
    if (input.fetched <= input.staged) continue;
    input.staged = input.queued = input.fetched;
    moved = true;
  }
  if (!moved) return;
  task.end_commit_at = now_ + kEndCommitInterval;
  StageOffsets(task);
}

void EngineImpl::UpdateFetch(Task& task) {
  // When paused too, as far as there is room: how many records wait is then known. With AtMostOnce what was read is
  // handled before the task is given up.
  const bool wanted = task.phase == Task::Phase::kRunning && task.leaving == Task::Leaving::kNo &&
                      workers_.usable() > 0 && !(paused_ && at_most_once_);
  for (uint32_t i = 0; i < task.inputs.size(); ++i) {
    TaskInput& input = task.inputs[i];
    const bool run = wanted && HasRoom(task, i);
    if (input.fetch == 0) {
      if (!run) continue;
      BeginFetch(input);
      Do(StartFetch{task.id, i, input.fetched, input.fetch});
    } else if (run == input.paused) {
      input.paused = !run;
      if (run) input.heard = now_;
      Do(PauseFetch{task.id, i, input.paused});
    }
  }
}

// Whether more of the input may be read, with some distance between on and off. Of an input that others wait for there
// is always room: it is the one with nothing in memory.
bool EngineImpl::HasRoom(const Task& task, uint32_t input) const {
  if (merges_by_time_ && task.queue.LaneEmpty(input)) return true;
  int64_t share =
      std::max(options_.fetched_bytes / std::max<int64_t>(static_cast<int64_t>(tasks_.size()), 1), kLeastFetchShare);
  if (merges_by_time_) share = std::max(share / static_cast<int64_t>(task.inputs.size()), kLeastFetchShare);
  const int64_t held = merges_by_time_ ? task.queue.LaneBytes(input) : task.record_bytes();
  return !fetch_pressure_ && held < (task.inputs[input].paused ? share / 2 : share);
}

void EngineImpl::BeginFetch(TaskInput& input) {
  input.fetch = next_fetch_++;
  input.heard = now_;
  input.at_end = false;
}

void EngineImpl::StopFetching(Task& task) {
  for (uint32_t i = 0; i < task.inputs.size(); ++i) {
    if (std::exchange(task.inputs[i].fetch, 0) != 0) Do(StopFetch{task.id, i});
  }
}

// Back to the committed positions (R9). AtMostOnce keeps its records: those sent are gone, the others follow each
// other.
void EngineImpl::Rewind(Task& task) {
  const bool was_settled = task.settled();
  for (uint32_t i = 0; i < task.inputs.size(); ++i) {
    TaskInput& input = task.inputs[i];
    if (input.committed != kNoOffset) input.staged = input.committed;
    if (at_most_once_) continue;
    input.queued = input.fetched = input.staged;
    if (input.fetch == 0) continue;
    BeginFetch(input);
    Do(SeekFetch{task.id, i, input.fetched, input.fetch});
  }
  if (task.leaving != Task::Leaving::kNo) KeepClaimed(task);
  // What a stopped task had done before the record it stopped at is to be done again; it stops there anew.
  if (task.phase == Task::Phase::kStopped && !was_settled && !at_most_once_) {
    task.phase = Task::Phase::kRunning;
    task.error.clear();
  }
}

// ---------------------------------------------------------------- stopping

// A stopped task holds no records: it might stay so for days. They are read again when it is restarted.
void EngineImpl::Stop(Task& task, std::string error, std::optional<TaskStatus::Place> at) {
  NoteError(error);
  task.error = std::move(error);
  task.error_at = at;
  task.phase = Task::Phase::kStopped;
  DropPrepared(task);
  if (task.time) task.time->Forget();
  KeepClaimed(task);
  Mark(task);
}

void EngineImpl::On(StateFailed event) {
  Task* task = Find(event.task);
  if (task == nullptr || task->leaving != Task::Leaving::kNo) return;
  if (task->phase == Task::Phase::kOpening) task->failed_early = event.status;
  if (task->open()) Lose(*task, event.status);
}

void EngineImpl::On(RestartTask event) {
  Task* task = Find(event.task);
  if (task == nullptr || task->leaving != Task::Leaving::kNo) return;
  Mark(*task);
  if (task->phase == Task::Phase::kFailed) {
    task->retry_at = now_;
    return;
  }
  if (task->phase != Task::Phase::kStopped) return;
  // It may have stopped because of what the group or the database said: both are asked anew.
  if (task->external && !task->Loaded()) return Lose(*task, absl::AbortedError("it is restarted"));
  if (!at_most_once_) Void(*task);  // read again with the rest
  task->phase = Task::Phase::kRunning;
  task->error.clear();
  task->wait_until = -absl::InfiniteDuration();
  KeepClaimed(*task);  // an abort since may have taken claims back: those records are read again
  std::vector<Item> untried;
  while (!task->queue.empty()) {
    Item item = task->queue.PopFront();
    if (task->attempts.Find(item) == nullptr) untried.push_back(std::move(item));  // the others had their one try
  }
  task->queue.PutBack(std::move(untried));
  if (task->time)
    std::erase_if(task->time->due, [&](const Item& item) { return task->attempts.Find(item) != nullptr; });
  task->attempts = Attempts();
  for (uint32_t i = 0; i < task->inputs.size(); ++i) {
    TaskInput& input = task->inputs[i];
    input.queued = input.fetched = input.staged;
    if (input.fetch == 0) continue;
    BeginFetch(input);
    Do(SeekFetch{task->id, i, input.fetched, input.fetch});
  }
}

// ---------------------------------------------------------------- giving up

void EngineImpl::On(TaskRevoked event) {
  Task* task = Find(event.task);
  if (task == nullptr) return Do(TaskReleased{event.task});
  task->release = true;
  task->reassigned = false;
  Leave(*task, Task::Leaving::kRevoked);
}

void EngineImpl::Leave(Task& task, Task::Leaving how) {
  if (task.leaving == Task::Leaving::kNo) ++leaving_tasks_;
  if (task.leaving != Task::Leaving::kLost) task.leaving = how;
  StopFetching(task);
  if (task.time) task.time->Forget();
  if (task.leaving == Task::Leaving::kLost) {
    Cancel(task);
    DropPrepared(task);
    DropWaiting(task);
  } else {
    task.cancel_at = draining_ ? drain_finish_ : now_ + kGiveUpGrace;
    DropPrepared(task);
    KeepClaimed(task);
  }
  Mark(task);
}

void EngineImpl::DropWaiting(Task& task) {
  task.queue.Clear();
  if (task.time) task.time->due.clear();
}

// AtMostOnce: records whose offsets are committed, or about to be, come to nobody else. Of the others a leaving task
// has no use.
void EngineImpl::KeepClaimed(Task& task) {
  task.queue.Truncate([&](const Item& item) { return at_most_once_ && item.next <= task.inputs[item.input].staged; });
}

// What is in memory of the task is void: its state on disk is older than what was committed, or not to be trusted.
void EngineImpl::Lose(Task& task, const absl::Status& cause) {
  NoteError(StrCat("task ", task.id.value(), " is opened again: ", cause.ToString()));
  task.state_lost = true;
  Leave(task, Task::Leaving::kLost);
  // Its outputs cannot be taken out of the open transaction.
  if (pipeline_.HasOpenPart(task.id)) pipeline_.Abort(now_, cause, /*closing_too=*/false);
}

void EngineImpl::AdvanceLeaving(Task& task) {
  if (!task.open()) return;
  const bool waits = task.prepared || !task.queue.empty() || (task.time && !task.time->due.empty());
  const bool unsent = at_most_once_ && waits && task.phase == Task::Phase::kRunning;
  if (task.in_flight || unsent) {
    if (now_ < task.cancel_at) return;
    Void(task);
    DropPrepared(task);
    DropWaiting(task);
  }
  if (pipeline_.HasPart(task.id)) {
    if (pipeline_.HasStuckPart(task.id)) {
      pipeline_.Abort(now_, absl::AbortedError("a task is given up while the group rebalances"), /*closing_too=*/false);
    }
    return;
  }
  if (!task.state_lost) MaybeApply(task);
  if (task.apply || task.reads > 0) return;
  UnassignWorker(task);
  task.phase = Task::Phase::kClosing;
  Do(CloseTask{task.id});
}

void EngineImpl::On(TaskClosed event) {
  Task* task = Find(event.task);
  MS_CHECK(task != nullptr && task->phase == Task::Phase::kClosing);
  --leaving_tasks_;
  const bool again = !draining_ && (task->reassigned || !task->release);
  if (task->release) Do(TaskReleased{event.task});
  const int failures = task->open_failures + 1;
  const std::optional<uint64_t> last_fence = task->external ? task->external->last_fence : std::nullopt;
  task->queue.Clear();
  task->overlays = TaskOverlays(0);
  task->inputs.clear();
  Account(*task);
  timers_.Remove(event.task, task->timer);
  tasks_.erase(event.task);
  if (!again) return;
  auto fresh = NewTask(event.task);
  fresh->phase = Task::Phase::kFailed;  // opened when its time comes
  fresh->open_failures = failures;
  if (fresh->external) fresh->external->last_fence = last_fence;
  fresh->retry_at = now_ + (failures > 1 ? Backoff(kFirstReopen, kLongestReopen, failures) : absl::ZeroDuration());
  Mark(*tasks_.emplace(event.task, std::move(fresh)).first->second);
}

}  // namespace millstream::engine
