#ifndef MILLSTREAM_SIDECAR_HOST_KEY_CHECK_H_
#define MILLSTREAM_SIDECAR_HOST_KEY_CHECK_H_

#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/log/partitioner_check.h"
#include "common/log/record.h"
#include "common/spec/stream_processor.h"
#include "sidecar/host/conditions.h"

namespace millstream::host {

log::KeyHash HashOf(spec::Partitioner partitioner);

// Whether the keys of the inputs are where their declared partitioners put them, from a sample of what is read.
// Look on one thread; Conditions on any.
class KeyCheck {
 public:
  KeyCheck(const std::vector<spec::InputSpec>& inputs, int partitions);

  void Look(size_t input, Partition partition, const std::vector<log::Record>& records);
  std::vector<Condition> Conditions() const;

 private:
  struct Input {
    std::string topic;
    log::PartitionerCheck check;
    bool disagrees = false;
  };
  std::vector<Input> inputs_;  // Look's
  mutable absl::Mutex mutex_;
  std::vector<std::string> said_ ABSL_GUARDED_BY(mutex_);  // per input; empty: they agree
};

}  // namespace millstream::host

#endif  // MILLSTREAM_SIDECAR_HOST_KEY_CHECK_H_
