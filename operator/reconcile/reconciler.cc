#include "operator/reconcile/reconciler.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "common/base/strings.h"
#include "operator/kube/api_error.h"
#include "operator/reconcile/deletion_pass.h"
#include "operator/reconcile/processor_pass.h"

namespace millstream::reconcile {
namespace {

constexpr char kController[] = "millstream.dev/operator";
constexpr absl::Duration kResync = absl::Seconds(27);
constexpr int kSpreadMillis = 6000;

}  // namespace

absl::Duration ResyncOf(const std::string& key) {
  uint64_t hash = 0;
  if (!absl::SimpleHexAtoi(model::HashOf(key), &hash)) hash = 0;
  return kResync + absl::Milliseconds(static_cast<int64_t>(hash % kSpreadMillis));
}

Reconciler::Reconciler(ReconcilerOptions options, const Surroundings& surroundings)
    : options_(std::move(options)),
      around_(surroundings),
      events_(around_.client, around_.clock, kController, options_.instance),
      writer_(around_.client, around_.world),
      mounts_(around_.client, around_.clock),
      topics_(&writer_, around_.world, &mounts_, around_.clock),
      rollouts_(options_.max_concurrent_rollouts) {}

void Reconciler::RecallClaims() {
  for (const ManifestIndex::Unread& unread : around_.manifests->Unclaimed()) {
    const Json map = around_.world->Get(kube::kConfigMaps, unread.key);
    if (map.is_null() || kube::ControllerUidOf(map) != unread.uid) continue;
    const absl::StatusOr<spec::Manifest> last =
        ReadManifestText(kube::TextAt(map, {"data", model::kManifestFile}), unread.key.Text());
    if (last.ok()) around_.manifests->Recall(unread, last->processor);
  }
}

absl::StatusOr<runtime::Pass> Reconciler::Run(const std::string& key, const std::string& id) {
  RecallClaims();
  const Json processor = around_.world->Get(kube::kStreamProcessors, KeyFromText(key));
  if (processor.is_null()) {
    ForgetProcessor(key);
    return runtime::Pass();
  }
  ProcessorMemory* memory = MemoryOf(key, kube::UidOf(processor));
  const bool leaves = kube::Find(processor, {"metadata", "deletionTimestamp"}) != nullptr;
  absl::StatusOr<runtime::Pass> result =
      leaves ? DeletionPass(this, memory, processor, id).Run() : ProcessorPass(this, memory, processor, id).Run();
  // Everything in it goes; there is nothing to repair and nobody to tell.
  if (!result.ok() && kube::IsNamespaceTerminating(result.status())) return runtime::Pass{ResyncOf(key)};
  return result;
}

ProcessorMemory* Reconciler::MemoryOf(const std::string& key, const std::string& uid) {
  absl::MutexLock lock(&mutex_);
  std::unique_ptr<ProcessorMemory>& memory = memories_[key];
  if (memory == nullptr || memory->uid != uid) {
    if (memory != nullptr) {
      events_.Forget(memory->uid);
      writer_.Forget(memory->uid);
    }
    memory = std::make_unique<ProcessorMemory>();
    memory->uid = uid;
  }
  return memory.get();
}

void Reconciler::ForgetProcessor(const std::string& key) {
  rollouts_.Give(key);
  absl::MutexLock lock(&mutex_);
  const auto found = memories_.find(key);
  if (found == memories_.end()) return;
  events_.Forget(found->second->uid);
  writer_.Forget(found->second->uid);
  memories_.erase(found);
}

void Reconciler::Forget() {
  rollouts_.Clear();
  absl::MutexLock lock(&mutex_);
  memories_.clear();
}

void Reconciler::UpdateGauges() {
  std::map<std::pair<std::string, std::string>, int> counts;
  for (const char* type : {"Ready", "TopicsReady", "WorkloadReady", "Restored", "Reconciling", "Stalled"}) {
    for (const char* status : {"True", "False", "Unknown"}) counts[{type, status}] = 0;
  }
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [key, memory] : memories_) {
      for (const auto& [type, status] : memory->conditions) ++counts[{type, status}];
    }
  }
  for (const auto& [what, count] : counts) {
    around_.metrics
        ->GetGauge("millstream_operator_processors", "Processors by condition and its status",
                   {{"condition", what.first}, {"status", what.second}})
        ->Set(count);
  }
}

}  // namespace millstream::reconcile
