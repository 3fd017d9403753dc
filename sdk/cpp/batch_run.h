#ifndef MILLSTREAM_SDK_CPP_BATCH_RUN_H_
#define MILLSTREAM_SDK_CPP_BATCH_RUN_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "millstream/worker.h"
#include "sdk/cpp/arena.h"
#include "sdk/cpp/batch_host.h"
#include "sidecar/protocol/messages.h"

namespace millstream::worker {

// What a name of the manifest is meant to be.
enum class Readable { kStore, kWindows, kSessions, kJoin, kLookup };

// The handlers' view of one batch and what they stage: reads from own writes, then prefetched values, then by GET;
// writes, outputs, timers and ops on visits in order, cut back to the last whole item when one fails. One object serves batch after
// batch (its memory is kept). batch_run.cc: items and the RESULT; batch_state.cc: stores; batch_time.cc: windows,
// sessions, timers; batch_visits.cc: visits.
class BatchRun {
 public:
  // `host` outlives this.
  explicit BatchRun(BatchHost* host) : host_(host) {}

  // Handles the items in order and gives the RESULT frame to send. Errors are those of the connection, or Cancelled.
  // `generation`: of the task when the batch came.
  absl::StatusOr<std::string> Run(const protocol::Batch& batch, uint64_t generation);
  // The same of a hook, on a batch without items: all of it or, with a failure, nothing.
  absl::StatusOr<std::string> RunHook(const protocol::Batch& batch, uint64_t generation, const Handler& hook);
  // After either: changes what the task has gathered, unless that is no longer its own. Errors are of the program.
  absl::Status ChangeGathered();

  // For Context.
  const protocol::Batch& batch() const { return *batch_; }
  // In a hook one of no record.
  const protocol::RecordItem& item() const { return *at_; }
  bool in_hook() const { return in_hook_; }
  const protocol::Welcome& welcome() const { return host_->welcome(); }
  MaybeView ItemKey() const;
  MaybeView ItemValue() const;
  int64_t ItemTime() const;
  absl::Status Emit(std::string_view output, MaybeView key, MaybeView value, const EmitOptions& options);
  absl::Status StageTimer(std::string_view name, std::optional<int64_t> time_ms, const TimerOptions& options);
  absl::Status StageVisit(std::string_view name, protocol::VisitOp::What what, MaybeView data);
  absl::Status FailOutput(absl::Status status);
  bool Cancelled();
  std::shared_ptr<void>* GatheredSlot(const void* handle);
  void StageChange(const void* handle, std::function<void(std::shared_ptr<void>*)> change);

  // For what Context gives out. -1: the manifest has no such thing, which the calls with that id tell.
  int Resolve(std::string_view name, Readable what);
  absl::StatusOr<MaybeView> Read(int id, MaybeView other_key);
  absl::StatusOr<std::vector<MaybeView>> ReadMany(int id, const std::vector<std::string_view>& keys);
  absl::StatusOr<std::vector<std::pair<std::string, std::string>>> Scan(int id, const ScanOptions& options);
  absl::Status Write(int store, MaybeView other_key, MaybeView value);
  absl::StatusOr<std::span<const Window>> Windows(int store);
  // `other_key` of a session store is not used: nobody names one.
  absl::StatusOr<MaybeView> ReadRow(int store, MaybeView other_key, const Window& window);
  absl::Status WriteRow(int store, const Window& window, MaybeView value);
  absl::StatusOr<std::vector<std::string_view>> SessionValues(int store);
  absl::Status WriteSession(int store, std::string_view value);

 private:
  // What is known of one key in one store.
  struct Slot {
    bool known = false;
    int32_t last_op = -1;  // in StoreState::ops
    MaybeView value;
  };
  using Slots = absl::flat_hash_map<absl::string_view, Slot>;
  struct StoreState {
    std::vector<Slot> slots;                            // per key of the batch; none where keys are row keys
    Slots others;                                       // by key, or row key
    const protocol::Batch::StoreState* rows = nullptr;  // of a windowed store, those that came with the batch
    bool rows_filled = false;                           // they are in `others`
    std::vector<Window> windows;                        // of the item that asked last
    std::vector<protocol::StateOp> ops;
    size_t told_ops = 0;     // of ops, how many the sidecar saw as "new ops"
    size_t ops_at_item = 0;  // before the item at work
  };
  struct Change {
    const void* handle;
    std::function<void(std::shared_ptr<void>*)> change;
  };
  enum class ItemEnd { kDone, kFailed, kVoid };

  // batch_run.cc
  void Begin(const protocol::Batch& batch, uint64_t generation);
  void FillState(const protocol::Batch::StoreState& state);
  absl::Status SendExtendIfDue(size_t done);
  ItemEnd HandleItem(protocol::Failure* failure);
  void MarkItem();
  // What the handler's end means; takes back what it staged where it failed.
  ItemEnd EndItem(const absl::Status& status, protocol::Failure* failure);
  // The item's handler, or why there is none; nullptr: it is done without.
  absl::StatusOr<const Handler*> HandlerOfItem();
  absl::Status CallHandler();
  void Explain(const absl::Status& status, protocol::Failure* failure) const;
  // Takes back what the failed item staged.
  void DropItem();
  std::string MakeResult(uint32_t done, std::optional<protocol::Failure> failure);
  std::vector<protocol::StateOp> LastOps(const StoreState& store) const;
  // Effects of the items so far leave little room in a frame: the RESULT ends here, the rest of the batch is sent
  // again.
  bool FrameIsFull() const { return staged_bytes_ > host_->welcome().frame_cap / 2; }
  absl::StatusOr<std::optional<int64_t>> OutputTime(std::string_view output, const EmitOptions& options) const;

  // batch_state.cc
  absl::Status CheckName(int id, bool needs_key) const;
  // The slot of a key, made if it is new.
  Slot* Find(int id, MaybeView other_key);
  // Asks for the keys and fills their slots.
  absl::Status Fetch(int id, std::vector<std::string_view> keys, const std::vector<Slot*>& slots);
  protocol::StateOps NewOps();
  absl::Status CheckSize(int store, std::string_view key, MaybeView value);
  void StageWrite(int store, std::string_view key, Slot* slot, MaybeView value);

  // batch_time.cc
  void FillRows(int store);
  // The entry of a window's row, made if it is new.
  Slots::iterator FindRow(int store, std::string_view key, const Window& window);
  // Whether the item at work names the row: what did not come along of those does not exist.
  bool ItemNames(int store, const Window& window) const;
  const protocol::ItemWindow* SessionOf(int store) const;
  bool WroteSession(int store, const protocol::ItemWindow& session);
  // A closing window's value may have to be asked for.
  absl::Status FetchClosing();
  // Sessions that the handler did not write keep their value, or get it from what they are made of.
  absl::Status FinishSessions();
  absl::Status FinishSession(const protocol::ItemWindow& session);
  // Set anew or cancelled by an earlier item of the batch.
  bool IsOvertaken() const;

  // batch_visits.cc
  // The handler of a row, or of the end; nullptr: nobody, or an earlier item deleted the row.
  absl::StatusOr<const Handler*> HandlerOfVisit();

  BatchHost* const host_;
  const protocol::Batch* batch_ = nullptr;
  uint64_t generation_ = 0;
  size_t item_ = 0;
  const protocol::RecordItem* at_ = nullptr;
  bool in_hook_ = false;
  Arena arena_;
  std::vector<StoreState> stores_;
  absl::flat_hash_map<absl::string_view, uint32_t> key_index_;  // made when a handler first names another key
  std::vector<protocol::OutputRecord> outputs_;
  std::vector<protocol::TimerOp> timers_;
  std::vector<protocol::VisitOp> visits_;
  bool has_timer_items_ = false;
  absl::flat_hash_set<std::string> timers_set_;  // key, clock and name; kept for a batch with timer items
  std::vector<Change> changes_;
  size_t outputs_at_item_ = 0, timers_at_item_ = 0, visits_at_item_ = 0, changes_at_item_ = 0;
  size_t staged_bytes_ = 0;  // about what ops, outputs, timers and visits take in a frame
  size_t staged_bytes_at_item_ = 0;
  std::string row_;              // scratch: the row key at work
  MaybeView row_value_;          // of the closing window or visited row at work
  absl::Status undeclared_;      // what the last Resolve that gave -1 has to say
  absl::Status output_failure_;  // of the item at work
  absl::Status void_;            // not OK: the connection or the batch is over
  absl::Duration extended_at_;
};

// What only another program or manifest can cure: fails its item for good.
absl::Status Final(absl::Status status);
// "a, b", or "none".
template <typename Named>
std::string NamesOf(const std::vector<Named>& things) {
  std::string names;
  for (const Named& thing : things) names.append(names.empty() ? "" : ", ").append(thing.name);
  return names.empty() ? "none" : names;
}
inline size_t SizeOf(MaybeView bytes) { return bytes.has_value() ? bytes->size() : 0; }
// What a write, output, timer or op on a visit takes in a frame beside its bytes, at most.
inline constexpr size_t kEntryBytes = 48;

}  // namespace millstream::worker

#endif  // MILLSTREAM_SDK_CPP_BATCH_RUN_H_
