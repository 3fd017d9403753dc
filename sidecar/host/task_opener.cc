#include "sidecar/host/task_opener.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"

namespace millstream::host {

TaskOpener::TaskOpener(const TaskStateOptions& options, int threads, TaskTable* tasks, MetricsRegistry* metrics,
                       EventSink* sink)
    : options_(options), tasks_(tasks), metrics_(metrics), sink_(sink) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
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
  }
  {
    absl::MutexLock lock(&mutex_);
    progress_.erase(task);
  }
  sink_->Post(std::move(answer));
}

void TaskOpener::Note(TaskId task, const store::RestoreProgress& progress) {
  absl::MutexLock lock(&mutex_);
  const auto [entry, fresh] = progress_.try_emplace(task);
  if (fresh || entry->second.latest.store != progress.store) {
    entry->second.first = progress.position;
    entry->second.started = options_.clock->Monotonic();
  }
  entry->second.latest = progress;
}

std::vector<RestoreReport> TaskOpener::Restoring() const {
  const absl::Duration now = options_.clock->Monotonic();
  std::vector<RestoreReport> reports;
  absl::MutexLock lock(&mutex_);
  for (const auto& [task, progress] : progress_) {
    const store::RestoreProgress& latest = progress.latest;
    RestoreReport report{.task = task,
                         .store = options_.spec->stores[latest.store].name,
                         .position = latest.position,
                         .end = latest.end,
                         .bytes = latest.bytes,
                         .bytes_left = 0,
                         .time_left = std::nullopt};
    const int64_t done = latest.position - progress.first, left = std::max<int64_t>(latest.end - latest.position, 0);
    if (done > 0) {
      const double share = static_cast<double>(left) / static_cast<double>(done);
      report.bytes_left = static_cast<int64_t>(share * static_cast<double>(latest.bytes));
      report.time_left = (now - progress.started) * share;
    }
    reports.push_back(std::move(report));
  }
  return reports;
}

}  // namespace millstream::host
