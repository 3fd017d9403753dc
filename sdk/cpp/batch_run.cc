#include "sdk/cpp/batch_run.h"

#include <time.h>

#include <algorithm>
#include <utility>

#include "absl/strings/cord.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "sdk/cpp/row_key.h"
#include "sdk/cpp/user_code.h"
#include "sidecar/protocol/codec.h"

namespace millstream::worker {
namespace {

using ItemType = protocol::RecordItem::Type;

// Asked for before every item, so the kernel's coarse clock: exact to 4 ms, which deadlines are far above, and four
// times cheaper.
absl::Duration CoarseTime() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return absl::DurationFromTimespec(now);
}

constexpr size_t kHeaderBytes = 10;
// The output behind which the processor's own records come back (docs/reference/protocol.md, rule 9).
constexpr std::string_view kLoop = "loop";

// What a hook sees in place of a record.
const protocol::RecordItem kNoRecord;

constexpr char kFinalUrl[] = "millstream.dev/final";
bool IsFinal(const absl::Status& status) { return status.GetPayload(kFinalUrl).has_value(); }

std::string NamesOf(const HandlerMap& handlers) {
  std::vector<std::string_view> names;
  for (const auto& [name, handler] : handlers) names.push_back(name);
  std::sort(names.begin(), names.end());
  std::string text;
  for (const std::string_view name : names) StrAppend(&text, text.empty() ? "" : ", ", name);
  return text.empty() ? "none" : text;
}

}  // namespace

absl::Status Final(absl::Status status) {
  status.SetPayload(kFinalUrl, absl::Cord());
  return status;
}

absl::Status RejectRecord(std::string_view why) { return Final(absl::FailedPreconditionError(ToAbsl(why))); }

absl::StatusOr<std::string> BatchRun::Run(const protocol::Batch& batch, uint64_t generation) {
  Begin(batch, generation);
  const bool trace = (batch.flags & protocol::kFlagTrace) != 0;
  for (item_ = 0; item_ < batch.items.size(); ++item_) {
    if (trace) {
      MS_RETURN_IF_ERROR(host_->Send(protocol::EncodeFrame(protocol::Extend{batch.seq, static_cast<uint32_t>(item_)})));
    } else {
      MS_RETURN_IF_ERROR(SendExtendIfDue(item_));
    }
    protocol::Failure failure;
    switch (HandleItem(&failure)) {
      case ItemEnd::kDone:
        // What was done to visits counts from here on: rows of this batch may not be wanted any more.
        if (FrameIsFull() || !visits_.empty()) return MakeResult(static_cast<uint32_t>(item_ + 1), std::nullopt);
        break;
      case ItemEnd::kVoid:
        return void_;
      case ItemEnd::kFailed:
        return MakeResult(static_cast<uint32_t>(item_), std::move(failure));
    }
  }
  return MakeResult(static_cast<uint32_t>(batch.items.size()), std::nullopt);
}

absl::StatusOr<std::string> BatchRun::RunHook(const protocol::Batch& batch, uint64_t generation, const Handler& hook) {
  Begin(batch, generation);
  item_ = 0;
  at_ = &kNoRecord;
  in_hook_ = true;
  MarkItem();
  Context context(this);
  const absl::Status status = CallUserCode([&] { return hook(context); });
  protocol::Failure failure;
  switch (EndItem(status, &failure)) {
    case ItemEnd::kDone:
      return MakeResult(0, std::nullopt);
    case ItemEnd::kVoid:
      return void_;
    case ItemEnd::kFailed:
      break;
  }
  return MakeResult(0, std::move(failure));
}

absl::Status BatchRun::ChangeGathered() {
  const std::vector<Change> changes = std::exchange(changes_, {});
  if (changes.empty() || host_->memory().GenerationOf(batch_->task) != generation_) return absl::OkStatus();
  return CallUserCode([&] {
    for (const Change& one : changes) one.change(host_->memory().SlotOf(batch_->task, one.handle));
    return absl::OkStatus();
  });
}

std::shared_ptr<void>* BatchRun::GatheredSlot(const void* handle) {
  if (host_->memory().GenerationOf(batch_->task) != generation_) return nullptr;
  return host_->memory().SlotOf(batch_->task, handle);
}

void BatchRun::StageChange(const void* handle, std::function<void(std::shared_ptr<void>*)> change) {
  changes_.push_back({handle, std::move(change)});
}

void BatchRun::Begin(const protocol::Batch& batch, uint64_t generation) {
  batch_ = &batch;
  generation_ = generation;
  in_hook_ = false;
  changes_.clear();
  arena_.Reset();
  key_index_.clear();
  outputs_.clear();
  timers_.clear();
  visits_.clear();
  timers_set_.clear();
  has_timer_items_ = std::any_of(batch.items.begin(), batch.items.end(),
                                 [](const auto& item) { return item.type == ItemType::kTimer; });
  staged_bytes_ = 0;
  void_ = absl::OkStatus();
  extended_at_ = CoarseTime();
  const size_t stores = welcome().stores.size();
  stores_.resize(stores + welcome().joins.size() + welcome().lookups.size());
  for (size_t id = 0; id < stores_.size(); ++id) {
    StoreState& store = stores_[id];
    const bool windowed = id < stores && IsWindowed(welcome().stores[id]);
    store.slots.assign(windowed ? 0 : batch.keys.size(), Slot());
    store.others.clear();
    store.rows = nullptr;
    store.rows_filled = false;
    store.ops.clear();
    store.told_ops = 0;
  }
  for (const protocol::Batch::StoreState& state : batch.state) FillState(state);
}

void BatchRun::FillState(const protocol::Batch::StoreState& state) {
  if (state.store >= stores_.size()) return;
  StoreState& store = stores_[state.store];
  if (state.windowed) store.rows = &state;  // filled when a handler first asks
  const size_t values = std::min(state.values.size(), store.slots.size());
  for (size_t i = 0; i < values; ++i) {
    const protocol::StateValue& value = state.values[i];
    if (value.what == protocol::StateValue::What::kNotPrefetched) continue;
    Slot& slot = store.slots[i];
    slot.known = true;
    if (value.what == protocol::StateValue::What::kValue) slot.value = value.value;
  }
}

absl::Status BatchRun::SendExtendIfDue(size_t done) {
  if (done == 0) return absl::OkStatus();
  const absl::Duration now = CoarseTime();
  if (now - extended_at_ < absl::Milliseconds(welcome().deadline_ms / 4)) return absl::OkStatus();
  extended_at_ = now;
  return host_->Send(protocol::EncodeFrame(protocol::Extend{batch_->seq, static_cast<uint32_t>(done)}));
}

void BatchRun::MarkItem() {
  for (StoreState& store : stores_) store.ops_at_item = store.ops.size();
  outputs_at_item_ = outputs_.size();
  timers_at_item_ = timers_.size();
  visits_at_item_ = visits_.size();
  changes_at_item_ = changes_.size();
  staged_bytes_at_item_ = staged_bytes_;
  output_failure_ = absl::OkStatus();
}

BatchRun::ItemEnd BatchRun::HandleItem(protocol::Failure* failure) {
  at_ = &batch_->items[item_];
  MarkItem();
  if (IsOvertaken()) return ItemEnd::kDone;
  absl::Status status = CallHandler();
  if (status.ok() && output_failure_.ok() && void_.ok()) status = FinishSessions();
  return EndItem(status, failure);
}

BatchRun::ItemEnd BatchRun::EndItem(const absl::Status& status, protocol::Failure* failure) {
  if (!void_.ok()) return ItemEnd::kVoid;
  // The items before take at most half a frame (FrameIsFull), so this is about one item alone.
  const size_t bytes = staged_bytes_ - staged_bytes_at_item_;
  if (bytes > welcome().frame_cap / 2) {
    FailOutput(absl::ResourceExhaustedError(StrCat("the writes and outputs of one record take ", bytes,
                                                   " bytes; at most ", welcome().frame_cap / 2, " fit a frame")))
        .IgnoreError();
  }
  if (status.ok() && output_failure_.ok()) return ItemEnd::kDone;
  Explain(status, failure);
  DropItem();
  return ItemEnd::kFailed;
}

absl::StatusOr<const Handler*> BatchRun::HandlerOfItem() {
  switch (item().type) {
    case ItemType::kRecord: {
      const Handler* handler = host_->HandlerOf(item().input);
      if (handler != nullptr) return handler;
      return absl::UnimplementedError("the program has no handler for this input");
    }
    case ItemType::kTimer: {
      const HandlerMap& timers = host_->program().timers;
      if (const auto found = timers.find(ToAbsl(item().name)); found != timers.end()) return &found->second;
      return Final(
          absl::UnimplementedError(StrCat("the program has no handler for timer \"", item().name, "\"; add OnTimer(\"",
                                          item().name, "\", ...). Handlers exist for: ", NamesOf(timers))));
    }
    case ItemType::kClosing: {
      if (const Handler* handler = host_->ClosingOf(item().store); handler != nullptr) return handler;
      return Final(absl::UnimplementedError(
          StrCat("the program has no handler for closing windows of store ", item().store, "; add OnClose")));
    }
    case ItemType::kVisit:
      return HandlerOfVisit();
  }
  return absl::InternalError("an item of no type");
}

absl::Status BatchRun::CallHandler() {
  MS_ASSIGN_OR_RETURN(const Handler* handler, HandlerOfItem());
  if (handler == nullptr) return absl::OkStatus();
  if (item().type == ItemType::kClosing) MS_RETURN_IF_ERROR(FetchClosing());
  Context context(this);
  return CallUserCode([&] { return (*handler)(context); });
}

void BatchRun::Explain(const absl::Status& status, protocol::Failure* failure) const {
  const absl::Status& cause = output_failure_.ok() ? status : output_failure_;
  const bool decode = output_failure_.ok() && absl::IsDataLoss(status);
  failure->failure_class = !output_failure_.ok() ? "Output" : decode ? "Decode" : "Handler";
  failure->error = absl::StatusCodeToString(cause.code());
  failure->message = std::string(cause.message());
  // What only another program or manifest can cure is not tried again.
  failure->retriable = output_failure_.ok() && !decode && !IsFinal(status);
}

void BatchRun::DropItem() {
  for (StoreState& store : stores_) store.ops.resize(store.ops_at_item);
  outputs_.resize(outputs_at_item_);
  timers_.resize(timers_at_item_);
  visits_.resize(visits_at_item_);
  changes_.resize(changes_at_item_);
  staged_bytes_ = staged_bytes_at_item_;
}

std::string BatchRun::MakeResult(uint32_t done, std::optional<protocol::Failure> failure) {
  protocol::Result result;
  result.seq = batch_->seq;
  result.done = done;
  for (size_t id = 0; id < stores_.size(); ++id) {
    StoreState& store = stores_[id];
    if (store.ops.empty()) continue;
    // After a failure slots may name ops that were dropped.
    result.ops.emplace_back(static_cast<uint32_t>(id), failure.has_value() ? std::move(store.ops) : LastOps(store));
  }
  result.failure = std::move(failure);
  result.outputs.swap(outputs_);
  result.timers.swap(timers_);
  result.visits.swap(visits_);
  std::string frame = protocol::EncodeFrame(result);
  result.outputs.swap(outputs_);  // keep their memory
  result.timers.swap(timers_);
  result.visits.swap(visits_);
  return frame;
}

// Only the last write of a key counts.
std::vector<protocol::StateOp> BatchRun::LastOps(const StoreState& store) const {
  std::vector<bool> last(store.ops.size(), false);
  for (const Slot& slot : store.slots) {
    if (slot.last_op >= 0) last[static_cast<size_t>(slot.last_op)] = true;
  }
  for (const auto& [key, slot] : store.others) {
    if (slot.last_op >= 0) last[static_cast<size_t>(slot.last_op)] = true;
  }
  std::vector<protocol::StateOp> ops;
  for (size_t i = 0; i < store.ops.size(); ++i) {
    if (last[i]) ops.push_back(store.ops[i]);
  }
  return ops;
}

MaybeView BatchRun::ItemKey() const {
  const int32_t index = item().key_index;
  return index < 0 ? std::nullopt : MaybeView(batch_->keys[static_cast<size_t>(index)]);
}

MaybeView BatchRun::ItemValue() const {
  const bool row = item().type == ItemType::kClosing || item().type == ItemType::kVisit;
  return row ? row_value_ : item().value;
}

int64_t BatchRun::ItemTime() const {
  if (item().type != ItemType::kClosing) return item().timestamp_ms;
  // The last time that belongs to it.
  return item().closing.end_ms - (IsSession(welcome().stores[item().store]) ? 0 : 1);
}

bool BatchRun::Cancelled() {
  if (void_.ok()) void_ = host_->Look();
  return !void_.ok();
}

absl::Status BatchRun::FailOutput(absl::Status status) {
  if (output_failure_.ok()) output_failure_ = status;
  return status;
}

// Nullopt: the sidecar's clock.
absl::StatusOr<std::optional<int64_t>> BatchRun::OutputTime(std::string_view output, const EmitOptions& options) const {
  if (in_hook_ && !options.timestamp_ms.has_value()) return std::nullopt;
  const int64_t time = options.timestamp_ms.value_or(ItemTime());
  if (time >= welcome().min_timestamp_ms && time <= welcome().max_timestamp_ms) return time;
  if (!options.timestamp_ms.has_value()) return std::nullopt;  // a record without a time of its own
  return absl::InvalidArgumentError(StrCat("timestamp ", time, " of a record for output \"", output, "\" is outside ",
                                           welcome().min_timestamp_ms, " to ", welcome().max_timestamp_ms));
}

absl::Status BatchRun::Emit(std::string_view output, MaybeView key, MaybeView value, const EmitOptions& options) {
  MS_RETURN_IF_ERROR(void_);
  const auto& outputs = welcome().outputs;
  const auto info =
      std::find_if(outputs.begin(), outputs.end(), [&](const auto& candidate) { return candidate.name == output; });
  if (info == outputs.end()) {
    return FailOutput(absl::InvalidArgumentError(
        StrCat("there is no output named \"", output, "\"; declared are: ", worker::NamesOf(outputs))));
  }
  if (output == kLoop && !key.has_value())
    return FailOutput(absl::InvalidArgumentError("a record for the loop needs a key: it decides the task"));
  if (output == kLoop && options.partition.has_value())
    return FailOutput(absl::InvalidArgumentError("a record for the loop chooses no partition: its key does"));
  size_t bytes = SizeOf(key) + SizeOf(value);
  for (const auto& [name, header] : options.headers) bytes += name.size() + SizeOf(header);
  if (info->max_bytes > 0 && static_cast<int64_t>(bytes) > info->max_bytes) {
    return FailOutput(absl::InvalidArgumentError(
        StrCat("a record of ", bytes, " bytes for output \"", output, "\", which takes ", info->max_bytes)));
  }
  const absl::StatusOr<std::optional<int64_t>> timestamp = OutputTime(output, options);
  if (!timestamp.ok()) return FailOutput(timestamp.status());
  staged_bytes_ += bytes + kEntryBytes + kHeaderBytes * options.headers.size();
  protocol::OutputRecord& record = outputs_.emplace_back();
  record.output = static_cast<uint32_t>(info - outputs.begin());
  if (key.has_value()) record.key = arena_.Copy(*key);
  if (value.has_value()) record.value = arena_.Copy(*value);
  record.timestamp_ms = *timestamp;
  record.partition = options.partition;
  for (const auto& [name, header] : options.headers) {
    record.headers.emplace_back(arena_.Copy(name), header.has_value() ? MaybeView(arena_.Copy(*header)) : std::nullopt);
  }
  return absl::OkStatus();
}

}  // namespace millstream::worker
