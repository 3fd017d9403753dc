#ifndef MILLSTREAM_SDK_CPP_BATCH_RUN_H_
#define MILLSTREAM_SDK_CPP_BATCH_RUN_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "millstream/worker.h"
#include "sdk/cpp/arena.h"
#include "sdk/cpp/batch_host.h"
#include "sidecar/protocol/messages.h"

namespace millstream::worker {

// The handlers' view of one batch and what they stage: reads from own writes, then prefetched values, then by GET;
// writes and outputs in order, cut back to the last whole item when one fails. One object serves batch after batch (its
// memory is kept).
class BatchRun {
 public:
  // `host` outlives this.
  explicit BatchRun(BatchHost* host) : host_(host) {}

  // Handles the items in order and gives the RESULT frame to send. Errors are those of the connection, or Cancelled.
  absl::StatusOr<std::string> Run(const protocol::Batch& batch);

  // For Context and Store.
  const protocol::Batch& batch() const { return *batch_; }
  const protocol::RecordItem& item() const { return batch_->items[item_]; }
  const protocol::Welcome& welcome() const { return host_->welcome(); }
  MaybeView RecordKey() const;
  int StoreId(std::string_view name);
  absl::StatusOr<MaybeView> Read(int store, MaybeView other_key);
  absl::StatusOr<std::vector<MaybeView>> ReadMany(int store, const std::vector<std::string_view>& keys);
  absl::Status Write(int store, MaybeView other_key, MaybeView value);
  absl::StatusOr<std::vector<std::pair<std::string, std::string>>> Scan(int store, const ScanOptions& options);
  absl::Status Emit(std::string_view output, MaybeView key, MaybeView value, const EmitOptions& options);
  absl::Status FailOutput(absl::Status status);
  bool Cancelled();

 private:
  // What is known of one key in one store.
  struct Slot {
    bool known = false;
    int32_t last_op = -1;  // in StoreState::ops
    MaybeView value;
  };
  struct StoreState {
    std::vector<Slot> slots;  // per key of the batch
    absl::flat_hash_map<absl::string_view, Slot> others;
    std::vector<protocol::StateOp> ops;
    size_t told_ops = 0;     // of ops, how many the sidecar saw as "new ops"
    size_t ops_at_item = 0;  // before the item at work
  };
  enum class ItemEnd { kDone, kFailed, kVoid };

  void Begin(const protocol::Batch& batch);
  absl::Status SendExtendIfDue(size_t done);
  ItemEnd HandleItem(protocol::Failure* failure);
  absl::Status CallHandler(const Handler& handler);
  // Takes back what the failed item staged.
  void DropItem();
  std::string MakeResult(uint32_t done, std::optional<protocol::Failure> failure);
  // Effects of the items so far leave little room in a frame: the RESULT ends here, the rest of the batch is sent
  // again.
  bool FrameIsFull() const { return staged_bytes_ > host_->welcome().frame_cap / 2; }

  absl::Status CheckStore(int store, bool needs_record_key);
  // The slot of a key, made if it is new.
  Slot* Find(int store, MaybeView other_key);
  // Asks for the keys and fills their slots.
  absl::Status Fetch(int store, std::vector<std::string_view> keys, const std::vector<Slot*>& slots);
  protocol::StateOps NewOps();

  BatchHost* const host_;
  const protocol::Batch* batch_ = nullptr;
  size_t item_ = 0;
  Arena arena_;
  std::vector<StoreState> stores_;
  absl::flat_hash_map<absl::string_view, uint32_t> key_index_;  // made when a handler first names another key
  std::vector<protocol::OutputRecord> outputs_;
  size_t outputs_at_item_ = 0;
  size_t staged_bytes_ = 0;  // about what ops and outputs take in a frame
  size_t staged_bytes_at_item_ = 0;
  std::string unknown_store_;
  absl::Status output_failure_;                   // of the item at work
  absl::Status void_;                             // not OK: the connection or the batch is over
  std::deque<std::shared_ptr<const void>> kept_;  // memory of answers
  absl::Duration extended_at_;
};

}  // namespace millstream::worker

#endif  // MILLSTREAM_SDK_CPP_BATCH_RUN_H_
