#ifndef MILLSTREAM_SIDECAR_ENGINE_SCAN_MERGE_H_
#define MILLSTREAM_SIDECAR_ENGINE_SCAN_MERGE_H_

#include <optional>
#include <vector>

#include "sidecar/engine/expiry.h"
#include "sidecar/engine/overlay.h"
#include "sidecar/store/task_store.h"

namespace millstream::engine {

// One page of a range as it is with the layers over the disk's page.
struct MergedPage {
  std::vector<std::pair<Bytes, Bytes>> rows;
  // Where the next page goes on (ScanRequest::after); nullopt: the range ends here. May be set behind an empty page:
  // what the disk gave was all deleted since.
  std::optional<Bytes> cursor;
  // Keys of the page's part of the range that `expiry` hides: they are in a layer or on disk, and in no row.
  std::vector<Bytes> hidden;
};

// `disk` answered `request`; `layers`, newest first, are those in force when it was asked. Pure.
MergedPage MergeScan(const store::ScanRequest& request, const store::ScanPage& disk,
                     const std::vector<Overlay*>& layers, const Expiry& expiry = Expiry());

}  // namespace millstream::engine

#endif  // MILLSTREAM_SIDECAR_ENGINE_SCAN_MERGE_H_
