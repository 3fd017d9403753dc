#ifndef MILLSTREAM_SIDECAR_ENGINE_TESTING_MEMORY_DISK_H_
#define MILLSTREAM_SIDECAR_ENGINE_TESTING_MEMORY_DISK_H_

#include <map>

#include "sidecar/engine/engine.h"

namespace millstream::engine::testing {

// The stores of one task as far as they were applied: answers what an engine asks of its disk, as a real one does.
class MemoryDisk {
 public:
  using Rows = std::map<Bytes, Bytes>;

  Rows& rows(store::StoreIndex store) { return stores_[store]; }

  KeysRead Read(const ReadKeys& read);
  // Forward scans only.
  RangeScanned Scan(const ScanRange& scan);
  StateApplied Apply(const ApplyState& apply);

 private:
  std::map<store::StoreIndex, Rows> stores_;
};

}  // namespace millstream::engine::testing

#endif  // MILLSTREAM_SIDECAR_ENGINE_TESTING_MEMORY_DISK_H_
