#include "sidecar/host/task_opener.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/base/thread_name.h"

namespace millstream::host {

TaskOpener::TaskOpener(const TaskStateOptions& options, int threads, TaskTable* tasks, MetricsRegistry* metrics,
                       TableFollower* tables, EventSink* sink)
    : options_(options),
      tasks_(tasks),
      tables_(tables),
      metrics_(metrics),
      sink_(sink),
      restoring_(metrics->GetGauge("millstream_restoring_tasks", "Tasks whose state is being read back.", {})),
      bytes_left_(metrics->GetGauge("millstream_restore_left_bytes",
                                    "Changelog still to be read back, estimated from what was read so far.", {})),
      seconds_left_(metrics->GetGauge("millstream_restore_left_seconds",
                                      "Until the last of the restores under way is done, estimated.", {})),
      restored_bytes_(metrics->GetCounter("millstream_restored_bytes_total", "Changelog read back.", {})) {
  WipedCounter(metrics);
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this] {
      NameThread("opener");
      Run();
    });
  }
}

TaskOpener::~TaskOpener() { Stop(); }

void TaskOpener::Open(engine::OpenTask open) {
  absl::MutexLock lock(&mutex_);
  queue_.push_back(open.task);
}

void TaskOpener::Stop() {
  Cancel();
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void TaskOpener::Run() {
  const auto something_to_do = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || !queue_.empty(); };
  while (true) {
    TaskId task;
    {
      absl::MutexLock lock(&mutex_, absl::Condition(&something_to_do));
      if (stopping_) return;
      task = queue_.front();
      queue_.pop_front();
    }
    OpenOne(task);
  }
}

void TaskOpener::OpenOne(TaskId task) {
  engine::TaskOpened answer{.task = task, .status = absl::OkStatus(), .inputs = {}, .positions = {}};
  absl::StatusOr<OpenedTask> opened = absl::CancelledError("the sidecar stops");
  if (!cancelled_) {
    opened = OpenTaskState(
        options_, task, metrics_, [&](const store::RestoreProgress& progress) { Note(task, progress); }, &cancelled_);
  }
  answer.status = opened.status();
  if (opened.ok()) {
    answer.inputs = std::move(opened->inputs);
    answer.positions = opened->store->positions();
    tasks_->Put(task, std::move(opened->store));
    if (tables_ != nullptr) {
      tables_->Follow(task, answer.positions);
      answer.status = tables_->WaitForLookups(&cancelled_);
    }
    if (!answer.status.ok()) {
      tables_->Forget(task);
      tasks_->Take(task);
    }
  }
  {
    absl::MutexLock lock(&mutex_);
    progress_.erase(task);
    UpdateGauges();
  }
  sink_->Post(std::move(answer));
}

void TaskOpener::Note(TaskId task, const store::RestoreProgress& progress) {
  absl::MutexLock lock(&mutex_);
  const auto [entry, fresh] = progress_[task].try_emplace(progress.store);
  if (fresh) {
    entry->second.first = progress.position;
    entry->second.started = options_.clock->Monotonic();
  }
  restored_bytes_->Add(static_cast<double>(std::max<int64_t>(progress.bytes - entry->second.latest.bytes, 0)));
  entry->second.latest = progress;
  entry->second.reported = options_.clock->Monotonic();
  UpdateGauges();
}

std::vector<RestoreReport> TaskOpener::Restoring() const {
  absl::MutexLock lock(&mutex_);
  return Reports();
}

void TaskOpener::UpdateGauges() {
  int64_t bytes = 0;
  absl::Duration time = absl::ZeroDuration();
  for (const RestoreReport& report : Reports()) {
    bytes += report.bytes_left;
    time = std::max(time, report.time_left.value_or(absl::ZeroDuration()));
  }
  restoring_->Set(static_cast<double>(progress_.size()));
  bytes_left_->Set(static_cast<double>(bytes));
  seconds_left_->Set(absl::ToDoubleSeconds(time));
}

std::vector<RestoreReport> TaskOpener::Reports() const {
  std::vector<RestoreReport> reports;
  for (const auto& [task, stores] : progress_) {
    RestoreReport report;
    report.task = task;
    int64_t most_left = -1;
    for (const auto& [store, progress] : stores) {
      const store::RestoreProgress& latest = progress.latest;
      const int64_t done = latest.position - progress.first, left = std::max<int64_t>(latest.end - latest.position, 0);
      report.bytes += latest.bytes;
      if (left > most_left) {
        most_left = left;
        report.store = options_.spec->ReadableName(store);
        report.position = latest.position;
        report.end = latest.end;
      }
      if (done <= 0) continue;
      const double share = static_cast<double>(left) / static_cast<double>(done);
      report.bytes_left += static_cast<int64_t>(share * static_cast<double>(latest.bytes));
      report.time_left =
          std::max(report.time_left.value_or(absl::ZeroDuration()), (progress.reported - progress.started) * share);
    }
    reports.push_back(std::move(report));
  }
  return reports;
}

}  // namespace millstream::host
