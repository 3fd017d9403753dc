#ifndef MILLSTREAM_SIDECAR_HOST_ABANDONED_TRANSACTIONS_H_
#define MILLSTREAM_SIDECAR_HOST_ABANDONED_TRANSACTIONS_H_

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/base/ids.h"
#include "common/log/record.h"

namespace millstream::host {

// How to find and end transactions of other processes of a processor's group. Both are empty on a log that has no other
// processes; calls block for seconds at most.
struct ForeignTransactions {
  // Offsets of the group as they are now, whatever open transactions are about to set.
  std::function<absl::StatusOr<std::map<TopicPartition, log::GroupOffset>>(const std::vector<TopicPartition>& inputs)>
      offsets_now;
  // Ends what is open under these transactional ids; a writer alive under one is fenced.
  std::function<absl::Status(const std::vector<std::string>& transactional_ids)> end;
};

// Ends what processes that are gone have left open, before it holds up this one: offsets that are pending, and
// changelogs that cannot be read past an open transaction, until the broker ends it by its timeout (10 to 20 s). The
// group's leader does it for members that vanish (sidecar/group); here it is done for whom no leader remembers: this
// process's former self, and a group that had no member left. What cannot be ended is logged and waited for.
// Thread-safe.
class AbandonedTransactions {
 public:
  // Transactional ids that may belong to somebody alive; nullopt: unknown. Called on the caller's thread.
  using PresentFn = std::function<std::optional<std::vector<std::string>>()>;

  AbandonedTransactions(std::vector<std::string> own, ForeignTransactions foreign, PresentFn present)
      : own_(std::move(own)), foreign_(std::move(foreign)), present_(std::move(present)) {}

  // Those of this process's former self. Before its writers are made: they would be fenced.
  void EndOwn();
  // Those of the writers that committed the offsets of these partitions last (engine.md, R6: the offsets' metadata
  // names them, and of a pair the one means both), unless they belong to a member or to this process. An error is that
  // of reading the offsets.
  absl::Status EndWritersOf(const std::vector<TopicPartition>& inputs);

 private:
  bool End(const std::vector<std::string>& ids, const char* whose);

  const std::vector<std::string> own_;
  const ForeignTransactions foreign_;
  const PresentFn present_;
  absl::Mutex mutex_;
  // <first id>/<process start>: nobody begins anything under that again. Bounded by forgetting all at kMostRemembered.
  std::set<std::string> ended_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millstream::host

#endif  // MILLSTREAM_SIDECAR_HOST_ABANDONED_TRANSACTIONS_H_
