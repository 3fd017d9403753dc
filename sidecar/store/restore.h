#ifndef MILLSTREAM_SIDECAR_STORE_RESTORE_H_
#define MILLSTREAM_SIDECAR_STORE_RESTORE_H_

#include <atomic>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/log/log.h"
#include "sidecar/store/task_store.h"

namespace millstream::store {

struct RestoreProgress {
  StoreIndex store = 0;
  Offset position, end;  // changelog offsets
  int64_t records = 0, bytes = 0;
};

struct RestoreOptions {
  // No progress for so long: DEADLINE_EXCEEDED naming topic, partition, position and end.
  absl::Duration stall_deadline = absl::Seconds(60);
  // Applied in batches of about so many bytes; also the reader's buffer.
  int64_t batch_bytes = 4 << 20;
  const Clock* clock = &SystemClock();
  std::function<void(const RestoreProgress&)>
      on_progress;                               // called on the restoring thread, at most every 100 ms and at the end
  const std::atomic<bool>* cancelled = nullptr;  // CANCELLED soon after it is set; what was applied stays
};

// How long the topic keeps tombstones: a copy of it that was last looked at before may hold keys that are gone.
int64_t DeleteRetentionMs(const log::TopicInfo& topic);

// Brings `store` up to the end of its changelogs (engine.md, "Restore"): the high watermark is taken first with
// read_uncommitted (of a foreign topic its stable end), then the changelog is read read_committed from the stored
// position to it; ended by position or by an end-of-partition at or beyond that mark, never by counting. Rebuilds from
// scratch if the position is before the log start, beyond its end, or older than the changelog's delete.retention.ms.
// Flushes at the end. Blocks; one thread per task. UNAVAILABLE and DEADLINE_EXCEEDED: try again; NOT_FOUND: a changelog
// topic is missing.
absl::Status RestoreTask(log::Log* log, TaskStore* store, const TaskIdentity& identity, const RestoreOptions& options);

}  // namespace millstream::store

#endif  // MILLSTREAM_SIDECAR_STORE_RESTORE_H_
