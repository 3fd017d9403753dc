// Reads from outside: committed state only, never what is staged.
#include <utility>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "sidecar/engine/engine_impl.h"

namespace millstream::engine {
namespace {

absl::Status NotHere(TaskId task) {
  return absl::UnavailableError(StrCat("task ", task.value(), " is not open here (restoring or moving): ask again"));
}
absl::Status NoStore(size_t store, size_t stores) {
  return absl::InvalidArgumentError(
      StrCat("id ", store, " is beyond the processor's ", stores, " stores, joins and lookups"));
}

// Not while it leaves: a stream of queries must not keep it from being closed.
bool Readable(const Task& task) { return task.open() && task.leaving == Task::Leaving::kNo; }

}  // namespace

void EngineImpl::On(QueryKey event) {
  Task* task = Find(event.task);
  if (task == nullptr || !Readable(*task))
    return Do(QueryAnswered{event.query, NotHere(event.task), std::nullopt, {}, {}});
  if (event.store >= spec_.readables())
    return Do(QueryAnswered{event.query, NoStore(event.store, spec_.readables()), std::nullopt, {}, {}});
  const size_t hash = BytesHash()(event.key);
  if (const OverlayValue* known = task->overlays.Find(event.store, event.key, hash, TaskOverlays::View::kCommitted)) {
    MaybeBytes value;
    if (!known->deleted && !ExpiryOutside(*task, event.store).Hides(known->timestamp_ms)) value.emplace(known->view());
    return Do(QueryAnswered{event.query, absl::OkStatus(), std::move(value), {}, {}});
  }
  const ReadId id = StartRead(*task, KeyQueryRead{event.query, event.store});
  Do(ReadKeys{id, event.task, event.store, {std::move(event.key)}});
}

void EngineImpl::On(QueryRange event) {
  Task* task = Find(event.task);
  if (task == nullptr || !Readable(*task))
    return Do(QueryAnswered{event.query, NotHere(event.task), std::nullopt, {}, {}});
  if (event.range.store >= spec_.readables()) {
    return Do(QueryAnswered{event.query, NoStore(event.range.store, spec_.readables()), std::nullopt, {}, {}});
  }
  const ReadId id = StartRead(*task, RangeQueryRead{event.query, event.range, task->overlays.TakePin()});
  Do(ScanRange{id, event.task, std::move(event.range)});
}

}  // namespace millstream::engine
