#ifndef MILLSTREAM_SIDECAR_ENGINE_OUTPUTS_H_
#define MILLSTREAM_SIDECAR_ENGINE_OUTPUTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "common/log/partitioner.h"
#include "common/log/record.h"
#include "sidecar/engine/attempts.h"
#include "sidecar/engine/engine.h"
#include "sidecar/engine/record_queue.h"
#include "sidecar/protocol/messages.h"

namespace millstream::engine {

// The manifest's word for the log's.
log::KeyHash KeyHashOf(spec::Partitioner partitioner);

// What a worker sends out, on its way to topics and partitions. Not thread-safe.
class OutputRouter {
 public:
  explicit OutputRouter(const EngineOptions* options);

  // Why `record` must not go out: too large, a partition that is none, a time that is none or that its topic refuses.
  // OK otherwise. A time that `of_item` knows was not chosen by the program, an item of the batch has it: Route
  // replaces it if the topic refuses it. Precondition: its output exists.
  absl::Status Check(const protocol::OutputRecord& record, int64_t wall_ms,
                     absl::FunctionRef<bool(int64_t)> of_item) const;
  // Partition as given, else by the key's hash as the output declares, else in turn. Time as given, else, or if the
  // topic would refuse it, `wall_ms`.
  log::OutgoingRecord Route(const protocol::OutputRecord& record, int64_t wall_ms);

  static int64_t SizeOf(const protocol::OutputRecord& record);

 private:
  struct Beyond;

  std::optional<Beyond> BeyondTopic(uint32_t output, int64_t time, int64_t wall_ms) const;
  absl::Status CheckTime(const protocol::OutputRecord& record, int64_t wall_ms,
                         absl::FunctionRef<bool(int64_t)> of_item) const;

  const EngineOptions* options_;
  std::vector<log::Partitioner> partitioners_;  // per output
};

// The record as the dead-letter topic gets it: key, value, headers and time as they were, in the partition of its task,
// with headers millstream.error.{class, message, topic, partition, offset, timestamp, attempts, processor} behind its
// own.
log::OutgoingRecord DeadLetter(const EngineOptions& options, TaskId task, const Item& item,
                               const Attempts::Entry& failed);

}  // namespace millstream::engine

#endif  // MILLSTREAM_SIDECAR_ENGINE_OUTPUTS_H_
