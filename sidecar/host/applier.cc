#include "sidecar/host/applier.h"

#include <algorithm>
#include <map>
#include <utility>

#include "common/base/crash_point.h"
#include "common/base/log_line.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/base/thread_name.h"

namespace millstream::host {

Applier::Applier(const ApplierOptions& options, TaskTable* tasks, const Clock* clock, MetricsRegistry* metrics,
                 EventSink* sink)
    : options_(options),
      tasks_(tasks),
      clock_(clock),
      sink_(sink),
      unflushed_bytes_(metrics->GetGauge("millstream_state_unflushed_bytes",
                                         "Changelog applied to the stores and not flushed to disk.", {})),
      flushes_(metrics->GetCounter("millstream_state_flushes_total",
                                   "Flushes of task databases begun by the bound on unflushed changelog.", {})),
      next_touch_(clock->Monotonic() + options.touch_interval),
      thread_([this] {
        NameThread("applier");
        Run();
      }) {}

Applier::~Applier() { Stop(); }

void Applier::Apply(engine::ApplyState apply) { Apply(std::move(apply), nullptr); }

void Applier::Apply(engine::ApplyState apply, Done done) {
  absl::MutexLock lock(&mutex_);
  queue_.push_back({.apply = std::move(apply), .close = false, .done = std::move(done)});
}

void Applier::Close(engine::CloseTask close) {
  absl::MutexLock lock(&mutex_);
  Job job;
  job.apply.task = close.task;
  job.close = true;
  queue_.push_back(std::move(job));
}

void Applier::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void Applier::Run() {
  const auto something_to_do = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || !queue_.empty(); };
  bool stopping = false;
  while (!stopping) {
    std::vector<Job> jobs;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.AwaitWithTimeout(absl::Condition(&something_to_do),
                              std::max(next_touch_ - clock_->Monotonic(), absl::Milliseconds(1)));
      jobs.swap(queue_);
      stopping = stopping_;
    }
    std::vector<Job> round;
    for (Job& job : jobs) {
      if (!job.close) {
        round.push_back(std::move(job));
        continue;
      }
      ApplyRound(std::exchange(round, {}));
      CloseStore(job.apply.task);
    }
    ApplyRound(std::move(round));
    FlushIfDue();
    TouchIfDue();
  }
  for (const auto& [task, store] : tasks_->All()) CloseStore(task);
}

void Applier::ApplyRound(std::vector<Job> round) {
  std::map<TaskId, std::vector<Job>> by_task;
  for (Job& job : round) by_task[job.apply.task].push_back(std::move(job));
  size_t left = by_task.size();
  for (auto& [task, applies] : by_task) {
    ApplyTogether(task, std::move(applies));
    if (--left > 0) CrashPoint("half-applied-flush");
  }
}

void Applier::ApplyTogether(TaskId task, std::vector<Job> applies) {
  engine::ApplyState merged = std::move(applies.front().apply);
  const engine::ApplyId first = merged.apply;
  for (size_t i = 1; i < applies.size(); ++i) {
    engine::ApplyState& apply = applies[i].apply;
    // In order: of two writes of one key the later one wins, of positions too.
    std::move(apply.writes.begin(), apply.writes.end(), std::back_inserter(merged.writes));
    for (const auto& [store, offset] : apply.positions.changelog) merged.positions.changelog[store] = offset;
    for (const auto& [topic, offset] : apply.positions.inputs) merged.positions.inputs[topic] = offset;
    merged.positions.wall_ms = std::max(merged.positions.wall_ms, apply.positions.wall_ms);
  }
  const TaskTable::Store store = tasks_->Get(task);
  const absl::Status status = store == nullptr
                                  ? absl::UnavailableError(StrCat("task ", task.value(), " is not open here"))
                                  : store->Apply(merged.writes, merged.positions);
  for (size_t i = 0; i < applies.size(); ++i) {
    if (applies[i].done) {
      applies[i].done(status);
    } else {
      sink_->Post(engine::StateApplied{.apply = i == 0 ? first : applies[i].apply.apply, .status = status});
    }
  }
}

void Applier::CloseStore(TaskId task) {
  if (const TaskTable::Store store = tasks_->Take(task); store != nullptr) {
    const absl::Status flushed = store->Flush();
    // Not an error of the task: what is missing on disk is read back from the changelog.
    if (!flushed.ok())
      LogWarning("state was not flushed on close; it will be replayed",
                 {{"task", task.value()}, {"error", flushed.ToString()}});
  }
  sink_->Post(engine::TaskClosed{task});
}

void Applier::FlushIfDue() {
  std::vector<std::pair<int64_t, TaskTable::Store>> unflushed;
  int64_t total = 0;
  for (auto& [task, store] : tasks_->All()) {
    const int64_t bytes = store->UnflushedBytes();
    total += bytes;
    if (bytes > 0) unflushed.emplace_back(bytes, std::move(store));
  }
  unflushed_bytes_->Set(static_cast<double>(total));
  // Begun at three quarters: the next round comes on top before the bound is looked at again.
  const int64_t high = options_.max_unflushed_bytes / 4 * 3;
  if (total <= high) return;
  // The largest first, down to half of it, so that few flushes free much.
  std::sort(unflushed.begin(), unflushed.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  for (const auto& [bytes, store] : unflushed) {
    if (total <= high / 2) return;
    const absl::Status flushed = store->Flush();
    flushes_->Add();
    if (!flushed.ok()) {
      // The next Apply of that store fails with the same error and tells the engine.
      LogWarning("flushing state failed", {{"error", flushed.ToString()}});
      continue;
    }
    total -= bytes;
    CrashPoint("half-applied-flush");
  }
}

void Applier::TouchIfDue() {
  const absl::Duration now = clock_->Monotonic();
  if (now < next_touch_) return;
  next_touch_ = now + options_.touch_interval;
  for (const auto& [task, store] : tasks_->All()) {
    absl::Status touched = store->Touch(clock_->WallMillis());
    if (touched.ok()) touched = store->Flush();
    if (!touched.ok())
      LogWarning("refreshing the time of a state's stamp failed",
                 {{"task", task.value()}, {"error", touched.ToString()}});
  }
}

}  // namespace millstream::host
