#include "sidecar/engine/worker_table.h"

#include <algorithm>

#include "common/base/status.h"

namespace millstream::engine {

void Worker::Cancelled(uint64_t seq) {
  // A worker that does not answer cancelled batches at all is legal: older ones are forgotten.
  constexpr size_t kMostCancelled = 1024;
  cancelled.insert(seq);
  cancelled_order.push_back(seq);
  if (cancelled_order.size() > kMostCancelled) {
    cancelled.erase(cancelled_order.front());
    cancelled_order.pop_front();
  }
}

Worker& WorkerTable::Add(WorkerId id, const protocol::Hello& hello) {
  auto [it, added] = workers_.try_emplace(id);
  MS_CHECK(added);  // ids are never reused
  it->second.id = id;
  it->second.name = hello.name;
  it->second.parallel = std::max(hello.parallel, 1);
  const auto wants = [&](std::string_view capability) {
    return std::find(hello.capabilities.begin(), hello.capabilities.end(), capability) != hello.capabilities.end();
  };
  it->second.begin = wants(protocol::kBeginCapability);
  it->second.finalize = wants(protocol::kFinalizeCapability);
  it->second.committed = wants(protocol::kCommittedCapability);
  return it->second;
}

Worker* WorkerTable::Find(WorkerId id) {
  auto it = workers_.find(id);
  return it == workers_.end() ? nullptr : &it->second;
}

Worker* WorkerTable::LeastLoaded() {
  Worker* best = nullptr;
  for (auto& [id, worker] : workers_) {
    if (worker.usable() && (best == nullptr || worker.tasks < best->tasks)) best = &worker;
  }
  return best;
}

int WorkerTable::connected() const {
  return static_cast<int>(
      std::count_if(workers_.begin(), workers_.end(), [](const auto& of) { return !of.second.dropped; }));
}

int WorkerTable::usable() const {
  return static_cast<int>(
      std::count_if(workers_.begin(), workers_.end(), [](const auto& entry) { return entry.second.usable(); }));
}

}  // namespace millstream::engine
