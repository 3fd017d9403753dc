#include "sidecar/host/read_pool.h"

#include <string_view>
#include <utility>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/base/thread_name.h"

namespace millstream::host {
namespace {

absl::Status NotOpen(TaskId task) { return absl::UnavailableError(StrCat("task ", task.value(), " is not open here")); }

}  // namespace

ReadPool::ReadPool(const TaskTable* tasks, const TableFollower* tables, size_t first_lookup, EventSink* sink,
                   int threads)
    : tasks_(tasks), tables_(tables), first_lookup_(first_lookup), sink_(sink) {
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this] {
      NameThread("reads");
      Run();
    });
  }
}

ReadPool::~ReadPool() { Stop(); }

void ReadPool::Read(Job job) {
  std::visit([this](auto&& read) { Push(std::move(read)); }, std::move(job));
}

void ReadPool::ReadLookup(size_t lookup, std::function<void(absl::StatusOr<std::shared_ptr<store::TaskStore>>)> done) {
  Push([this, lookup, done = std::move(done)] { done(tables_->Lookup(lookup)); });
}

void ReadPool::Push(std::variant<engine::ReadKeys, engine::ScanRange, Call> job) {
  absl::MutexLock lock(&mutex_);
  queue_.push_back(std::move(job));
}

absl::StatusOr<ReadPool::Place> ReadPool::Find(TaskId task, store::StoreIndex readable) const {
  if (readable >= first_lookup_) {
    MS_ASSIGN_OR_RETURN(std::shared_ptr<store::TaskStore> table, tables_->Lookup(readable - first_lookup_));
    return Place{std::move(table), 0};
  }
  TaskTable::Store store = tasks_->Get(task);
  if (store == nullptr) return NotOpen(task);
  return Place{std::move(store), readable};
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
    std::variant<engine::ReadKeys, engine::ScanRange, Call> job;
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
  const absl::StatusOr<Place> place = Find(job.task, job.store);
  answer.status = place.status();
  if (place.ok()) {
    const std::vector<std::string_view> keys(job.keys.begin(), job.keys.end());
    absl::StatusOr<std::vector<MaybeBytes>> values = place->store->MultiGet(place->index, keys);
    answer.status = values.status();
    if (values.ok()) answer.values = *std::move(values);
  }
  sink_->Post(std::move(answer));
}

void ReadPool::Execute(const engine::ScanRange& job) {
  engine::RangeScanned answer{.read = job.read, .status = absl::OkStatus(), .page = {}};
  const absl::StatusOr<Place> place = Find(job.task, job.range.store);
  answer.status = place.status();
  if (place.ok()) {
    store::ScanRequest range = job.range;
    range.store = place->index;
    absl::StatusOr<store::ScanPage> page = place->store->Scan(range);
    answer.status = page.status();
    if (page.ok()) answer.page = *std::move(page);
  }
  sink_->Post(std::move(answer));
}

}  // namespace millstream::host
