#ifndef MILLSTREAM_SIDECAR_HOST_LOOKUP_TABLE_H_
#define MILLSTREAM_SIDECAR_HOST_LOOKUP_TABLE_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/log/log.h"
#include "sidecar/store/state_environment.h"
#include "sidecar/store/task_store.h"

namespace millstream::host {

// The rows that records of a compacted topic make: the last value of each key, nil deletes. Records without a key say
// nothing about any key and are passed over.
std::vector<store::StoreWrite> TableWrites(store::StoreIndex store, std::vector<log::Record> records);

struct LookupDefinition {
  std::string group, name, topic, topic_id;
  int partitions = 0;
};

// One lookup on disk: all partitions of its topic in one store, with the position of each. Others may read its store
// at any time; the rest is for one thread.
class LookupTable {
 public:
  // Opens or creates it in `directory`. What is of another topic, damaged or of another format is wiped.
  static absl::StatusOr<std::unique_ptr<LookupTable>> Open(store::StateEnvironment* environment,
                                                           const std::string& directory, LookupDefinition definition,
                                                           const Clock* clock);

  const LookupDefinition& definition() const { return definition_; }
  // Position 0 of it is the table.
  const std::shared_ptr<store::TaskStore>& store() const { return store_; }

  // Where to read on, by partition, and the end up to which it is not whole. What is on disk is wiped if the topic does
  // not hold everything since any more: records before the log's start, tombstones that may be gone.
  struct Span {
    Offset next, end;
  };
  absl::StatusOr<std::vector<Span>> Resume(log::Admin& admin);

  // The records of `partition` up to `next`, in one atomic step.
  absl::Status Apply(int partition, std::vector<log::Record> records, Offset next);
  // Keeps what is on disk from looking old; flushes.
  absl::Status Touch();

 private:
  LookupTable(LookupDefinition definition, const Clock* clock) : definition_(std::move(definition)), clock_(clock) {}

  // Why what is on disk cannot be continued from; empty: it can.
  std::string WhyWipe(const std::vector<Span>& in_topic, int64_t delete_retention_ms, bool empty) const;
  bool Empty() const;

  const LookupDefinition definition_;
  const Clock* const clock_;
  std::shared_ptr<store::TaskStore> store_;
};

}  // namespace millstream::host

#endif  // MILLSTREAM_SIDECAR_HOST_LOOKUP_TABLE_H_
