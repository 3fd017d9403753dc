#ifndef MILLSTREAM_SIDECAR_ENGINE_BATCH_H_
#define MILLSTREAM_SIDECAR_ENGINE_BATCH_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "sidecar/engine/bytes_map.h"
#include "sidecar/engine/event_time.h"
#include "sidecar/engine/expiry.h"
#include "sidecar/engine/io.h"
#include "sidecar/engine/record_queue.h"
#include "sidecar/engine/task_overlays.h"

namespace millstream::engine {

// Which stores travel with the records of each input.
struct PrefetchPlan {
  // Bit i of masks[..]: what has id i in WELCOME is prefetched for that input; joins always are. At most 32 stores and
  // 32 joins (the schema's bounds).
  std::vector<uint64_t> masks;
  uint64_t due = 0;       // the same for what became due
  uint64_t windowed = 0;  // bit s: store s has windows or sessions; their rows travel with the items that name them
  size_t stores = 0;      // and joins: ids below it
  size_t manifest_stores = 0;
  size_t hidden = 0;  // stores of no id, behind those of the manifest

  store::StoreIndex StoreOf(size_t id) const {
    return static_cast<store::StoreIndex>(id < manifest_stores ? id : id + hidden);
  }
};

// A distinct key of a batch. `bytes` points into the key of a record of the batch.
struct BatchKey {
  std::string_view bytes;
  size_t hash = 0;
  uint64_t stores = 0;       // to prefetch
  int64_t timestamp_ms = 0;  // of the last record with it
};

// What a batch of a processor that keeps event time has beside its items. Null otherwise.
struct BatchTime {
  struct OfItem {
    int64_t time = kNoTime;  // stream time with it
    bool ahead = false;      // too far in the future to move stream time
    bool silent = false;     // done without the worker: a late record, a window that is gone
    uint32_t late = 0;       // bit s: windowed store s takes it no more
    std::vector<protocol::ItemWindow> windows;
  };
  // A row of a windowed store that items name.
  struct Row {
    uint32_t store = 0;
    int32_t key_index = 0;
    Bounds bounds;
    Bytes row_key;
    size_t hash = 0;
    MaybeBytes disk;      // as read; not used if a layer knows better
    bool exists = false;  // when the batch was sent
  };
  // Rows that no layer knows.
  struct RowRead {
    uint32_t store = 0;
    std::vector<uint32_t> slots;  // into rows
  };
  // Sessions of one key, as far as its records reach.
  struct SessionRead {
    uint32_t store = 0;
    int32_t key_index = 0;
    int64_t low = 0, high = 0;
    std::vector<std::pair<Bounds, Bytes>> found;  // from the last one down
  };

  StreamClock clock;            // behind the last item
  int64_t watermark = kNoTime;  // before the first
  std::vector<OfItem> items;    // aligned with the batch's
  std::vector<uint32_t> sent;   // items of the frame; all that are not silent. Known once it is finished
  bool finished = false;        // everything that can be known before sending is
  std::deque<Row> rows;
  std::vector<BytesMap<uint32_t>> row_index;  // per store
  std::vector<RowRead> row_reads;
  std::vector<SessionRead> session_reads;
};

// A RESULT that waits for a read: what its timers replace.
struct HeldResult {
  protocol::Result result;
  std::shared_ptr<const void> buffer;  // owns the views of `result`
  TaskOverlays::Pin pin = 0;
  std::vector<Bytes> timers;       // rows asked for
  std::vector<MaybeBytes> values;  // aligned
};

// One batch of one task, from the cutting of its records to its end. It is *prepared* (keys collected, values not in
// memory asked for), *ready* once every read is answered, and then *out* at a worker. Pinned overlays: see
// TaskOverlays.
struct Batch {
  // A hook of the worker instead of items: BEGIN or FINALIZE, answered by a RESULT of its own effects; with an external
  // store LOAD and STORE, answered by CHECKPOINT and STORED.
  enum class Hook : uint8_t { kNone, kBegin, kFinalize, kLoad, kStore };

  uint64_t id = 0;  // of this process
  Hook hook = Hook::kNone;
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
  std::unique_ptr<HeldResult> held;  // answered; the worker is done with it

  std::unique_ptr<BatchTime> time;

  // Something that became due is in it; it leads.
  bool HasDue() const { return items.front().due != nullptr; }
  // Items of the frame and of the batch differ by those that are silent.
  size_t FrameItems() const { return time ? time->sent.size() : items.size(); }
  size_t ItemOf(size_t in_frame) const { return time ? time->sent[in_frame] : in_frame; }
  // How many of the items are done when so many of the frame are.
  size_t ItemsDone(size_t in_frame) const { return in_frame == FrameItems() ? items.size() : ItemOf(in_frame); }
};

// Adds the item's key to those of the batch. Precondition: the item is at its final place in batch->items (the vector
// has its capacity): keys point into it.
void IndexKey(const PrefetchPlan& plan, Batch* batch, size_t item);

// The keys whose value no layer knows, grouped by store, as reads of the batch (`read` ids are the caller's business).
// Returns the keys to ask for, aligned with batch->reads.
std::vector<std::vector<Bytes>> CollectReads(const PrefetchPlan& plan, const TaskOverlays& overlays, Batch* batch);

// Windows of the item at `index` (a closing's own) become rows of the batch.
void IndexRow(const spec::StoreSpec& store, uint32_t store_index, int32_t key_index, const Bounds& bounds,
              Batch* batch);
// The rows that no layer knows, as BatchTime::row_reads. Returns the keys to ask for, aligned with them.
std::vector<std::vector<Bytes>> CollectRowReads(const TaskOverlays& overlays, Batch* batch);
// The row's value as of now; nullopt: there is none. Void after the next change of state.
std::optional<std::string_view> RowValue(const TaskOverlays& overlays, const BatchTime::Row& row);

struct BatchEncoding {
  const PrefetchPlan* plan;
  const TaskOverlays* overlays;
  int64_t max_bytes;           // records plus state; values beyond it are left to GET
  std::vector<int> attempts;   // per item from the first on; missing: 1
  std::vector<Expiry> expiry;  // per store from the first on; missing: nothing is hidden
};
// The BATCH frame with the values as they are now. Precondition: ready.
std::string EncodeBatch(const Batch& batch, TaskId task, const BatchEncoding& how, int64_t* state_bytes);

// Upper bounds of what an item takes in a BATCH frame, and of the rest of the frame.
int64_t FrameBytes(const Item& item);
inline constexpr int64_t kFrameBytesOfWindow = 64;  // named by an item, and its row
inline constexpr int64_t kFrameOverhead = 1024;     // with a value of each of 32 stores and 32 joins left out

}  // namespace millstream::engine

#endif  // MILLSTREAM_SIDECAR_ENGINE_BATCH_H_
