#ifndef MILLSTREAM_SIDECAR_ENGINE_BATCH_H_
#define MILLSTREAM_SIDECAR_ENGINE_BATCH_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "sidecar/engine/bytes_map.h"
#include "sidecar/engine/io.h"
#include "sidecar/engine/record_queue.h"
#include "sidecar/engine/task_overlays.h"

namespace millstream::engine {

// Which stores travel with the records of each input.
struct PrefetchPlan {
  // Bit s of masks[i]: store s is prefetched for input i. At most 32 stores (the schema's bound).
  std::vector<uint32_t> masks;
  size_t stores = 0;
};

// A distinct key of a batch. `bytes` points into the key of a record of the batch.
struct BatchKey {
  std::string_view bytes;
  size_t hash = 0;
  uint32_t stores = 0;       // to prefetch
  int64_t timestamp_ms = 0;  // of the last record with it
};

// One batch of one task, from the cutting of its records to its end. It is *prepared* (keys collected, values not in
// memory asked for), *ready* once every read is answered, and then *out* at a worker. Pinned overlays: see
// TaskOverlays.
struct Batch {
  uint64_t id = 0;  // of this process
  std::vector<Item> items;
  std::vector<BatchKey> keys;
  BytesMap<int32_t> key_index;
  std::vector<int32_t> item_key;  // aligned with items; -1: null key
  int64_t bytes = 0;              // of the items, in memory
  int64_t frame_bytes = 0;        // of the items, in the frame

  // Values from disk, per store: those of keys[slots[i]].
  struct StoreRead {
    store::StoreIndex store = 0;
    std::vector<int32_t> slots;
    std::vector<MaybeBytes> values;
  };
  std::vector<StoreRead> reads;
  int reads_pending = 0;
  TaskOverlays::Pin pin = 0;
  bool trace = false;
  bool claimed = false;  // AtMostOnce: its offsets are in a transaction

  // Once it is out.
  uint64_t seq = 0;
  WorkerId worker = 0;
  absl::Duration sent{}, deadline{};
  uint32_t extended_done = 0;
  bool extended = false;
  // What the worker told it has written so far ("new ops"), for its own reads only. Null until there is something.
  std::unique_ptr<Overlay> scratch;
};

// Adds the item's key to those of the batch. Precondition: the item is at its final place in batch->items (the vector
// has its capacity): keys point into it.
void IndexKey(const PrefetchPlan& plan, Batch* batch, size_t item);

// The keys whose value no layer knows, grouped by store, as reads of the batch (`read` ids are the caller's business).
// Returns the keys to ask for, aligned with batch->reads.
std::vector<std::vector<Bytes>> CollectReads(const PrefetchPlan& plan, const TaskOverlays& overlays, Batch* batch);

struct BatchEncoding {
  const PrefetchPlan* plan;
  const TaskOverlays* overlays;
  int64_t max_bytes;          // records plus state; values beyond it are left to GET
  std::vector<int> attempts;  // per item from the first on; missing: 1
};
// The BATCH frame with the values as they are now. Precondition: ready.
std::string EncodeBatch(const Batch& batch, TaskId task, const BatchEncoding& how, int64_t* state_bytes);

// Upper bounds of what an item takes in a BATCH frame, and of the rest of the frame.
int64_t FrameBytes(const Item& item);
inline constexpr int64_t kFrameOverhead = 512;  // with a value of each of 32 stores left out

}  // namespace millstream::engine

#endif  // MILLSTREAM_SIDECAR_ENGINE_BATCH_H_
