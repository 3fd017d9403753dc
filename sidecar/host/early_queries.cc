#include "sidecar/host/early_queries.h"

#include <utility>

#include "common/base/strings.h"

namespace millstream::host {
namespace {

absl::Status NotYet() { return absl::UnavailableError("the processor starts; ask again"); }

}  // namespace

void EarlyQueries::WaitsFor(Condition condition) {
  absl::MutexLock lock(&mutex_);
  condition_ = std::move(condition);
}

void EarlyQueries::PassOnTo(server::QueryBackend* target) {
  absl::MutexLock lock(&mutex_);
  target_ = target;
}

server::QueryBackend* EarlyQueries::target() const {
  absl::MutexLock lock(&mutex_);
  return target_;
}

Condition EarlyQueries::condition() const {
  absl::MutexLock lock(&mutex_);
  return condition_;
}

server::ProbeAnswer EarlyQueries::Health() const {
  if (server::QueryBackend* const to = target()) return to->Health();
  return {.ok = true, .reason = "the processor starts"};
}

server::ProbeAnswer EarlyQueries::Readiness() const {
  if (server::QueryBackend* const to = target()) return to->Readiness();
  const Condition waits = condition();
  if (waits.reason.empty()) return {.ok = false, .reason = "the processor starts"};
  return {.ok = false, .reason = StrCat(waits.reason, ": ", waits.message)};
}

server::ProcessorReport EarlyQueries::Tasks() const {
  if (server::QueryBackend* const to = target()) return to->Tasks();
  server::ProcessorReport report;
  report.processor = spec_->QualifiedName();
  report.group = spec_->group;
  report.member = member_;
  report.version = MILLSTREAM_VERSION;
  report.guarantee = std::string(spec::ToString(spec_->guarantee));
  report.paused = spec_->desired_state == spec::DesiredState::kPaused;
  report.drain = "No";
  const Condition waits = condition();
  if (!waits.reason.empty()) report.conditions.push_back({waits.reason, waits.message});
  return report;
}

std::vector<std::string> EarlyQueries::Stores() const {
  std::vector<std::string> names;
  for (size_t id = 0; id < spec_->readables(); ++id) names.push_back(spec_->ReadableName(id));
  return names;
}

TaskId EarlyQueries::TaskOf(std::string_view key) const {
  server::QueryBackend* const to = target();
  return to == nullptr ? TaskId(0) : to->TaskOf(key);  // whose scan says "not yet"
}

std::vector<TaskId> EarlyQueries::TasksToScan() const {
  if (server::QueryBackend* const to = target()) return to->TasksToScan();
  return {TaskId(0)};  // whose scan says "not yet", where no task at all would say that there is nothing
}

void EarlyQueries::GetKey(store::StoreIndex store, Bytes key, std::optional<TaskId> task,
                          std::function<void(absl::StatusOr<server::KeyAnswer>)> done) {
  if (server::QueryBackend* const to = target()) return to->GetKey(store, std::move(key), task, std::move(done));
  done(NotYet());
}

void EarlyQueries::Scan(TaskId task, store::ScanRequest range,
                        std::function<void(absl::StatusOr<server::ScanAnswer>)> done) {
  if (server::QueryBackend* const to = target()) return to->Scan(task, std::move(range), std::move(done));
  done(NotYet());
}

}  // namespace millstream::host
