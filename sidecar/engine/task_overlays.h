#ifndef MILLSTREAM_SIDECAR_ENGINE_TASK_OVERLAYS_H_
#define MILLSTREAM_SIDECAR_ENGINE_TASK_OVERLAYS_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "sidecar/engine/overlay.h"

namespace millstream::engine {

// Everything of one task's state that lies over its disk, newest first:
//
//   staged      of the open transaction N+1 and the closing one N
//   committed   of finished transactions, merged, waiting to be applied
//   applying    on its way to disk
//   applied     on disk, but a read may be under way that started before it was
//
// A read of the disk may see it before or after an apply that runs beside it. Both give the right answer as long as the
// layers at the time the read was *issued* are still looked at when its answer is used, and a key that a layer knew
// then was not read at all; a pin keeps every layer. Without pins the newest applied layer stays all the same until
// memory is wanted: it is a cache of the hottest keys.
class TaskOverlays {
 public:
  using Pin = uint64_t;
  explicit TaskOverlays(size_t stores) : stores_(stores) {}

  // The layer that transaction `tx` of this task stages in. Transactions come in ascending order, at most two at a
  // time.
  Overlay& Stage(uint64_t tx);
  // nullptr if the transaction staged nothing here.
  const Overlay* Staged(uint64_t tx) const;
  // `tx` is committed: its layer joins what is to be applied. It is the oldest staged one.
  void Commit(uint64_t tx);
  // `tx` was aborted.
  void Drop(uint64_t tx);

  // Precondition: nothing is being applied. nullptr if there is nothing to apply.
  const Overlay* StartApply();
  // The apply failed: the layer goes back under what was committed since.
  void ApplyFailed();
  void ApplyDone();
  bool applying() const { return applying_ != nullptr; }
  bool has_committed() const { return committed_ != nullptr; }
  int64_t committed_bytes() const { return committed_ ? committed_->bytes() : 0; }

  Pin TakePin();
  void ReleasePin(Pin pin);
  // Frees the cache (the applied layer that no pin needs) as well.
  void FreeCache();

  enum class View { kAll, kCommitted };
  // Newest value known for the key; nullptr: ask the disk. `hash` is BytesHash of the key.
  const OverlayValue* Find(store::StoreIndex store, std::string_view key, size_t hash, View view = View::kAll) const;
  // Asks the processor for the memory that Find will look at.
  void Prefetch(store::StoreIndex store, const HashedBytes& key) const;
  // The layers of `view`, newest first, for scans.
  std::vector<Overlay*> Layers(View view);

  int64_t bytes() const;
  int64_t staged_bytes() const;

 private:
  struct StagedLayer {
    uint64_t tx;
    std::unique_ptr<Overlay> overlay;
  };
  void Retire(bool keep_newest);

  size_t stores_;
  std::vector<StagedLayer> staged_;  // oldest first
  std::unique_ptr<Overlay> committed_, applying_;
  std::vector<std::unique_ptr<Overlay>> applied_;  // oldest first
  std::vector<Pin> pins_;                          // ascending; as many as reads under way: a handful
  Pin next_pin_ = 1;
};

}  // namespace millstream::engine

#endif  // MILLSTREAM_SIDECAR_ENGINE_TASK_OVERLAYS_H_
