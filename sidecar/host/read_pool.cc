#include "sidecar/host/read_pool.h"

#include <string_view>
#include <utility>

#include "common/base/strings.h"
#include "common/base/thread_name.h"

namespace millstream::host {
namespace {

absl::Status NotOpen(TaskId task) { return absl::UnavailableError(StrCat("task ", task.value(), " is not open here")); }

}  // namespace

ReadPool::ReadPool(const TaskTable* tasks, EventSink* sink, int threads) : tasks_(tasks), sink_(sink) {
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this] {
      NameThread("reads");
      Run();
    });
  }
}

ReadPool::~ReadPool() { Stop(); }

void ReadPool::Read(Job job) {
  absl::MutexLock lock(&mutex_);
  queue_.push_back(std::move(job));
}

void ReadPool::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void ReadPool::Run() {
  const auto something_to_do = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || !queue_.empty(); };
  while (true) {
    Job job;
    {
      absl::MutexLock lock(&mutex_, absl::Condition(&something_to_do));
      if (stopping_) return;
      job = std::move(queue_.front());
      queue_.pop_front();
    }
    std::visit([this](const auto& read) { Execute(read); }, job);
  }
}

void ReadPool::Execute(const engine::ReadKeys& job) {
  engine::KeysRead answer{.read = job.read, .status = absl::OkStatus(), .values = {}};
  if (const TaskTable::Store store = tasks_->Get(job.task); store != nullptr) {
    const std::vector<std::string_view> keys(job.keys.begin(), job.keys.end());
    absl::StatusOr<std::vector<MaybeBytes>> values = store->MultiGet(job.store, keys);
    answer.status = values.status();
    if (values.ok()) answer.values = *std::move(values);
  } else {
    answer.status = NotOpen(job.task);
  }
  sink_->Post(std::move(answer));
}

void ReadPool::Execute(const engine::ScanRange& job) {
  engine::RangeScanned answer{.read = job.read, .status = absl::OkStatus(), .page = {}};
  if (const TaskTable::Store store = tasks_->Get(job.task); store != nullptr) {
    absl::StatusOr<store::ScanPage> page = store->Scan(job.range);
    answer.status = page.status();
    if (page.ok()) answer.page = *std::move(page);
  } else {
    answer.status = NotOpen(job.task);
  }
  sink_->Post(std::move(answer));
}

}  // namespace millstream::host
